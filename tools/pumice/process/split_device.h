#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "process/processes.h"
#include "task/split_outlook.h"

namespace pumice::command {

// Devices of this process. `device` must outlive it.
std::unique_ptr<SplitDevice> local_split_device(const OpenedDevice& device, std::filesystem::path model,
                                                UseOfStages use);

// In process 0: the devices of the others, in the order of the stages, and the slowest of the links to them.
struct RemoteSplitDevices {
  std::vector<std::unique_ptr<SplitDevice>> devices;
  SplitLink link;
};
Result<RemoteSplitDevices> remote_split_devices();

// In the others: answers process 0 until it has ended. `open`: opens this process's device.
Status serve_split(const std::function<Result<std::unique_ptr<SplitDevice>>()>& open);

} // namespace pumice::command
