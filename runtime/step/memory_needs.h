#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "step/runner.h"

namespace pumice {

// Device memory of a model and one session, to the byte, before any of it is allocated.
struct MemoryNeeds {
  uint32_t context = 0;   // positions of the session; of an encoder alone, tokens of its input
  uint64_t weights = 0;   // once for all sessions of the model
  uint64_t cache = 0;     // keys and values
  uint64_t scratch = 0;   // of steps, with what goes in and what is kept for the host
  uint64_t state = 0;     // what the host writes of steps, and sampling's state
  uint64_t loading = 0;   // beside the weights while they are loaded; given back before there is a session
  uint64_t available = 0; // on the device; of a model that is loaded, with its weights

  uint64_t session() const { return cache + scratch + state; }
  uint64_t peak() const { return weights + (loading > session() ? loading : session()); }
  bool fits() const { return peak() <= available; }
};

// What runners a session has: its decoder's, its encoder's, or both, which then share the first one's caches.
using SessionRunners = std::vector<RunnerOptions>;

// Those of a Session of a model with a decoder, or of an Encoder for one input; of both, one after the other.
// What is kept is the decoder's, or of an encoder alone its own.
Result<SessionRunners> usual_runners(const Model& model, const SessionSize& size,
                                     std::vector<std::string> kept = {});

// Of a model that is loaded or planned.
Result<MemoryNeeds> memory_needs(const Model& model, const SessionRunners& runners);

// The most positions, up to `longest`, of which a session fits what is available: 0 where none does.
// `runners` says what a session of so many has.
Result<uint32_t> longest_context(const Model& model, uint32_t longest,
                                 const std::function<Result<SessionRunners>(uint32_t context)>& runners);
// The same of usual_runners(), up to what the model was made for.
Result<uint32_t> longest_context(const Model& model, SessionSize size,
                                 const std::vector<std::string>& kept = {});

} // namespace pumice
