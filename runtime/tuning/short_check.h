#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/progress.h"
#include "model/model.h"

namespace pumice {

struct ShortCheckOptions {
  double seconds = 0.3;        // no case begins that would probably end later
  size_t threads = 0;          // that pack weights, including the calling one; 0: as many as the host has
  std::function<bool()> go_on; // asked before each submission; empty: always
  // Once it is set, or the device is interrupted, no further case begins, and what was found is the result.
  // Null: an interrupted check is an error.
  const std::atomic<bool>* ends = nullptr;
  Progress progress = {}; // told before each case that is tried, and at the end if one was
};

struct ShortCheck {
  size_t cases = 0;     // that were tried now
  double seconds = 0;   // that it took
  bool complete = true; // false: there was no time for all, the others follow with the next model
  std::string warning;  // what was put on the blocklist and what to do; empty: nothing was
  std::string known;    // what earlier checks put there; empty: nothing
};

// How the reasons begin that the short check puts on the blocklist.
inline const std::string short_check_reason = "a short check of it: ";

// Tries the kernels that a model takes on its device in small cases, twice each, against the processor: those
// that were not tried yet with this version of the driver. What was tried is kept in the device's file, so
// this is to be called where there is one. A variant that is wrong is put on the blocklist:
// with_tuning_results() makes a profile without it. Error `unsupported` if a kernel is wrong that nothing can
// replace, now or when it was tried before; `cancelled` if go_on() said no; device_lost. `device`: where they
// are tried, if that is not the model's own.
Result<ShortCheck> short_check(const Model& model, const ShortCheckOptions& options,
                               const DeviceContext* device = nullptr);

// The same for a model that is being loaded. `tell` gets what was found. Returns the model as it is to go on
// with. The error `unsupported` ends with `how_to_go_on`, which says how to load the model nevertheless.
Result<std::shared_ptr<const Model>> checked_model(const std::shared_ptr<const Model>& model,
                                                   const ShortCheckOptions& options,
                                                   const std::string& how_to_go_on,
                                                   const std::function<void(const ShortCheck&)>& tell);

// The short check of a model's kernels on a thread and a device of its own, while the
// model is used. For drivers that take seconds to compile a kernel: processors' above all. All else goes
// first (base/low_priority.h).
class BackgroundCheck {
public:
  // `open`, called on that thread: another device than the model's, which is the same card or processor, with
  // the same cache folder. If it fails, nothing is checked.
  BackgroundCheck(std::shared_ptr<const Model> model, std::function<Result<DeviceContext>()> open);
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  // Ends it after the kernel that it tries now, and returns what it found, which the model's device knows
  // from then on; what is left is tried with the next model. `waits` is called if that kernel takes more than
  // a moment. Only the first call has a result.
  Result<ShortCheck> finish(const std::function<void()>& waits);

private:
  Result<ShortCheck> check(const std::function<Result<DeviceContext>()>& open);

  std::shared_ptr<const Model> model_;
  std::atomic<bool> ends_ = false, ended_ = false;
  Result<ShortCheck> found_ = ShortCheck();
  std::thread thread_;
};

} // namespace pumice
