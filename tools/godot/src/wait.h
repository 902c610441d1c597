// What workers do before all else: wait for their model.
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

} // namespace godot
