#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "step/encoder.h"

namespace pumice {

// What the decoder reads of a picture, in the picture's order, of all rows that its tower made in a step.
// `grid`: as EncoderInput has it.
std::vector<float> rows_of_picture(const PictureTokens& shape, const EncoderShape& tower,
                                   const PatchGrid& grid, std::vector<float> all, size_t columns);

// Makes the rows that stand for pictures in a decoder's prompt, by the model's tower of pictures.
class PictureRows {
public:
  static Result<PictureRows> create(std::shared_ptr<const Model> tower, const PictureTokens& shape);

  // Of each picture's pixels, as the tower reads them. `interrupt`: ends it with Code::cancelled once it is
  // set.
  Result<std::vector<std::vector<float>>> rows(std::span<const EncoderInput> pictures,
                                               const std::atomic<bool>* interrupt = nullptr);

private:
  // For pictures of any size: an encoder for one of so many patches.
  Status make_room(uint32_t positions);
  Result<Encoder*> encoder_for(const EncoderInput& picture);

  PictureTokens shape_;
  std::shared_ptr<const Model> tower_, tile_tower_; // see Model::for_tiles()
  std::unique_ptr<Encoder> encoder_, tile_encoder_;
};

} // namespace pumice
