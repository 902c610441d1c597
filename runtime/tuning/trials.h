#pragma once

#include <functional>
#include <string>

#include "gpu/cache_folder/trial_note.h"
#include "kernel/device_context.h"

namespace pumice {

// Of what a tuner does, what may end the process: a variant's kernels are compiled, or run for the first
// time.
struct Trial {
  std::string shape_class, variant;
  bool needed = false; // it is the plain variant: nothing works without it, so it is never blocked
};
// Called before each trial, and with null after it unless the device was lost.
using TrialListener = std::function<void(const Trial*)>;

// Notes what is tried before it is tried (gpu/cache_folder/trial_note.h). If the process ends meanwhile, the
// next one finds the variant on the blocklist. A folder that cannot be written to keeps no notes.
class Trials {
public:
  Trials(const DeviceContext& context, TrialListener listener)
      : note_(context.pipelines->file()), listener_(std::move(listener)) {}

  // Tries a variant; `work` compiles or runs its kernels. If the device is lost meanwhile, the note stays.
  Status run(const Trial& trial, const std::function<Status()>& work);

private:
  TrialNote note_;
  TrialListener listener_;
};

} // namespace pumice
