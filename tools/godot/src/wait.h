// What workers do before all else: wait for their model, and make what uses it.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "model.h"

namespace godot {

// Waits until a model is loaded. Returns a sentence where there is none, or when `leaving` is set.
inline std::string wait_for(const Loading& loading, const std::atomic<bool>& leaving, Loaded& loaded) {
  if (!loading.valid()) return "model is not set: expected a PumiceModel";
  while (loading.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready)
    if (leaving) return "the node was freed";
  loaded = loading.get();
  return loaded.model ? std::string() : loaded.failure;
}

// With all its kernels, so that no frame waits for one. Gives up when `leaving` is set. Returns a sentence
// where it fails.
inline std::string create(pumice_model* model, pumice_creation_options options,
                          const std::atomic<bool>& leaving, pumice_created& created) {
  options.struct_size = sizeof options;
  options.progress = [](void* user, uint64_t, uint64_t) {
    return !static_cast<const std::atomic<bool>*>(user)->load();
  };
  options.progress_user = const_cast<std::atomic<bool>*>(&leaving);
  created = {};
  created.struct_size = sizeof created;
  pumice_creation* creation = nullptr;
  pumice_error error;
  if (pumice_creation_start(model, &options, &creation, &error) != PUMICE_OK) return error.message;
  const pumice_status status = pumice_creation_finish(creation, &created, &error);
  pumice_creation_destroy(creation);
  return status == PUMICE_OK ? "" : error.message;
}

} // namespace godot
