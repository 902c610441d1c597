#include "tuning/trials.h"

#include "kernel/choices.h"

namespace pumice {

Status Trials::run(const Trial& trial, bool needed, const std::function<Status()>& work) {
  const std::string result = dangerous_result(blocklist_key(trial.shape_class, trial.variant));
  const auto reason = [&](const char* what) { return trial.shape_class + ": " + what; };
  if (!needed) (void)note_.write(result, reason("the process ended while this kernel was tried"));
  if (listener_) listener_(&trial);
  Status status = work();
  if (listener_) listener_(nullptr);
  if (!needed && !status.ok() && status.error().code == Code::device_lost) {
    note_.leave(result, reason("the device was lost while this kernel was tried"));
  } else {
    note_.take_away();
  }
  return status;
}

} // namespace pumice
