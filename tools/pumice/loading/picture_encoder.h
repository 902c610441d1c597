#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "input/picture_input.h"
#include "loading/open_device.h"
#include "options/options.h"

namespace pumice::command {

// What of a model reads pictures: its tower of them, or all of it. An error if nothing does.
struct PictureModel {
  ModelFile file;
  Tower tower = Tower::main;
  EncoderShape shape;

  static Result<PictureModel> open(const std::string& path);
};

// Runs an encoder on pictures, as many in a step as fit.
class PictureEncoder {
public:
  // `kept` is the tensor to read. `pictures`: at most so many come at a time.
  static Result<std::unique_ptr<PictureEncoder>> create(PictureModel model, const OpenedDevice& device,
                                                        const LoadOptions& load, uint32_t batch_tokens,
                                                        size_t pictures, std::string kept);

  // Receives a picture's index and its values.
  using Take = std::function<Status(size_t index, std::vector<float> values)>;
  // Up to the first picture that cannot be read.
  Status run(std::span<const std::string> paths, const char* doing, const Take& take);

  uint32_t columns() const { return encoder_->columns(kept_); }
  const EncoderShape& shape() const { return encoder_->shape(); }

private:
  explicit PictureEncoder(PictureInput reader) : reader_(std::move(reader)) {}

  PictureInput reader_;
  std::unique_ptr<Encoder> encoder_;
  std::string kept_;
};

} // namespace pumice::command
