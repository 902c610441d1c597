#include "tuning/trials.h"

#include "kernel/choices.h"

namespace pumice {

Status Trials::run(const Trial& trial, const std::function<Status()>& work) {
  const std::string result = dangerous_result(blocklist_key(trial.shape_class, trial.variant));
  const auto reason = [&](const char* what) { return trial.shape_class + ": " + what; };
  if (!trial.needed) (void)note_.write(result, reason("the process ended while this kernel was tried"));
  if (listener_) listener_(&trial);
  Status status = work();
  if (!status.ok() && status.error().code == Code::device_lost) {
    if (!trial.needed) note_.leave(result, reason("the device was lost while this kernel was tried"));
    return status;
  }
  note_.take_away();
  if (listener_) listener_(nullptr);
  return status;
}

} // namespace pumice
