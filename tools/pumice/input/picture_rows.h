#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "input/picture_input.h"
#include "loading/open_device.h"

namespace pumice::command {

// Makes the rows that stand for pictures in a decoder's prompt, by the model's tower of pictures.
class PictureRows {
public:
  // `tower`: the file or folder that has it, see tower_path().
  static Result<PictureRows> create(const std::string& tower, const PictureTokens& shape,
                                    const OpenedDevice& device, const LoadOptions& load);

  // Of each picture's pixels, as the tower reads them.
  Result<std::vector<std::vector<float>>> rows(std::span<const EncoderInput> pictures);

private:
  // For pictures of any size: an encoder for one of so many patches.
  Status make_room(uint32_t positions);

  PictureTokens shape_;
  std::shared_ptr<const Model> tower_;
  std::unique_ptr<Encoder> encoder_;
};

} // namespace pumice::command
