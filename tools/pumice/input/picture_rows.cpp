#include "input/picture_rows.h"

#include <algorithm>

#include "step/picture_rows.h"

namespace pumice::command {

Result<PictureRows> PictureRows::create(const std::string& tower, const PictureTokens& shape,
                                        const OpenedDevice& device, const LoadOptions& load) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(tower)));
  LoadOptions of_tower = load;
  of_tower.tower = Tower::pictures;
  PUMICE_TRY(std::shared_ptr<const Model> loaded, load_model(std::move(file), device, of_tower));
  PictureRows result;
  result.shape_ = shape;
  result.tower_ = std::move(loaded);
  if (!shape.of_any_size()) PUMICE_CHECK(result.make_room(0));
  return result;
}

Status PictureRows::make_room(uint32_t positions) {
  if (encoder_ && positions <= encoder_->longest()) return {};
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  options.tokens = std::min(positions, tower_->shape().encoder->context);
  encoder_.reset(); // its memory is free for the next one
  PUMICE_TRY(encoder_, Encoder::create(tower_, std::move(options)));
  return {};
}

Result<std::vector<std::vector<float>>> PictureRows::rows(std::span<const EncoderInput> pictures) {
  std::vector<std::vector<float>> result;
  for (const EncoderInput& picture : pictures) {
    if (shape_.of_any_size())
      PUMICE_CHECK(make_room(static_cast<uint32_t>(std::min<uint64_t>(picture.grid.count(), UINT32_MAX))));
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(std::span(&picture, 1)));
    for (const InputRange& range : ranges) encoder_->release(range);
    PUMICE_TRY(std::vector<float> rows, encoder_->read(PictureTokens::features, 0));
    result.push_back(rows_of_picture(shape_, encoder_->shape(), picture.grid, std::move(rows),
                                     encoder_->columns(PictureTokens::features)));
  }
  return result;
}

} // namespace pumice::command
