#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stage/processes.h"
#include "stage/split.h"

namespace pumice {

// Where a stage can be put: a device of this process, or that of another one.
class SplitDevice {
public:
  virtual ~SplitDevice() = default;

  virtual std::string name() const = 0;
  // What stages cost there, of so many, see measure_costs(). Between begin_measuring() of several devices and
  // their costs(), those of other processes measure at the same time.
  virtual Status begin_measuring(uint32_t stages) = 0;
  virtual Result<DeviceCosts> costs() = 0;
  // Of one of so many stages, see stage_bytes().
  virtual Result<uint64_t> bytes(uint32_t stages, const Stage& stage) = 0;
};

// How a model will be used in so many stages.
using UseOfStages = std::function<StageUse(uint32_t stages)>;
// A device of this process.
std::unique_ptr<SplitDevice> local_split_device(std::string name, DeviceContext context,
                                                std::filesystem::path model, UseOfStages use);

// What links processes.
struct SplitLink {
  double latency = 0;          // seconds until a message arrives
  double bytes_per_second = 0; // of a long one, beside that; 0: the time for its bytes is not counted
};

// In process 0: the devices of the others, in the order of the stages, and the slowest of the links to them.
struct RemoteSplitDevices {
  std::vector<std::unique_ptr<SplitDevice>> devices;
  SplitLink link;
};
Result<RemoteSplitDevices> remote_split_devices(Processes& processes);

// In the others: answers process 0 until it has ended. `open`: opens this process's device.
Status serve_split_device(Processes& processes,
                          const std::function<Result<std::unique_ptr<SplitDevice>>()>& open);

} // namespace pumice
