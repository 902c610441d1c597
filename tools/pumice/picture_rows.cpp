#include "picture_rows.h"

#include "generate/picture_prompt.h"

namespace pumice::command {

Result<PictureRows> PictureRows::create(const std::string& model, const PictureTokens& shape,
                                        const OpenedDevice& device, const LoadOptions& load) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(model)));
  LoadOptions of_tower = load;
  of_tower.tower = Tower::pictures;
  PUMICE_TRY(std::shared_ptr<const Model> loaded, load_model(std::move(file), device, of_tower));
  PictureRows result;
  result.shape_ = shape;
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  PUMICE_TRY(result.encoder_, Encoder::create(std::move(loaded), options));
  return result;
}

Result<std::vector<std::vector<float>>> PictureRows::rows(std::span<const EncoderInput> pictures) {
  std::vector<std::vector<float>> result;
  for (const EncoderInput& picture : pictures) {
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(std::span(&picture, 1)));
    for (const InputRange& range : ranges) encoder_->release(range);
    PUMICE_TRY(std::vector<float> rows, encoder_->read(PictureTokens::features, 0));
    result.push_back(rows_of_picture(shape_, std::move(rows), encoder_->columns(PictureTokens::features)));
  }
  return result;
}

} // namespace pumice::command
