#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pumice {

class Device;

// The stages before a model's own, which has the end of the model, as far as the model knows them. Steps go
// through them as StepUpstream has it (step/upstream_steps.h), which each of these is.
class Upstream {
public:
  virtual ~Upstream() = default;
  virtual uint32_t stages() const = 0; // the last one is not counted
  // The largest of their Encoder::position_block().
  virtual uint32_t position_block() const = 0;
  // "layers 0 to 19 on llvmpipe": a line for each.
  virtual std::vector<std::string> describe() const = 0;
  // The devices of the stages if steps can go through them in slices of time. None: only whole steps do.
  virtual std::vector<std::shared_ptr<Device>> devices() const { return {}; }
};

} // namespace pumice
