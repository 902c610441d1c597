#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"

// What fits the memory that is free on a device. Models may be planned or loaded.
namespace pumice {

// A session's size of which some may be chosen.
struct SizeWish {
  SessionSize size;
  bool cache_chosen = true; // else size.cache is the widest that may be taken
  bool chunk_chosen = true; // else default_chunk() is the longest
  uint64_t others = 0;      // bytes that the session takes beside its steps
};

// The longest chunk of a session whose caller chooses none. A discrete GPU is busy with a longer one only,
// and its products then read each weight for more rows.
uint32_t default_chunk(const Capabilities& device);

// The size with the longest chunk, from `longest` down to its own, that leaves room for it; with its own if
// none does.
Result<SessionSize> with_longest_chunk(const Model& model, const SessionSize& size, uint32_t longest,
                                       uint64_t others = 0);

// The longest context with keys and values of a type.
struct FittingContext {
  CacheType cache = CacheType::f16;
  uint32_t context = 0; // tokens; 0: none fits
};

// For each type of keys and values, the widest first.
Result<std::vector<FittingContext>> fitting_contexts(const Model& model, const SessionSize& size);

// The longest chunk, then the widest type of keys and values, that leave room for the context that is wanted,
// or the longest context that fits; 0: none does.
Result<SessionSize> fitting_size(const Model& model, const SizeWish& wish);

// The same, or out_of_memory where there is no room for a context that was asked for, or for any that is of
// use.
Result<SessionSize> require_fitting_size(const Model& model, const SizeWish& wish);

} // namespace pumice
