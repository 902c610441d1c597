#include "loading/picture_encoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "loading/model_kind.h"
#include "terminal/terminal.h"

namespace pumice::command {

Result<PictureModel> PictureModel::open(const std::string& path) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(path)));
  const Tower tower = has_picture_tower(file) ? Tower::pictures : Tower::main;
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file, tower));
  const ModelShape shape = definition->shape();
  if (shape.encoder && shape.encoder->kind == InputKind::patches) return wrong_subcommand(path, shape);
  if (!shape.encoder || shape.encoder->kind != InputKind::pixels)
    return wrong_kind(path, shape, "it does not read pictures");
  return PictureModel{std::move(file), tower, *shape.encoder};
}

Result<std::unique_ptr<PictureEncoder>> PictureEncoder::create(PictureModel model, const OpenedDevice& device,
                                                               const LoadOptions& load, uint32_t tokens,
                                                               size_t pictures, std::string kept) {
  PUMICE_TRY(PictureInput reader, PictureInput::open(model.file, model.shape));
  std::unique_ptr<PictureEncoder> result(new PictureEncoder(std::move(reader)));
  LoadOptions of_tower = load;
  of_tower.tower = model.tower;
  PUMICE_TRY(std::shared_ptr<const Model> loaded, load_model(std::move(model.file), device, of_tower));
  EncoderOptions options;
  const uint32_t at_a_time = std::max(batch_tokens(tokens) / model.shape.context, 1u);
  options.inputs = static_cast<uint32_t>(std::clamp<size_t>(pictures, 1, at_a_time));
  options.tokens = options.inputs * model.shape.context;
  options.readable = {kept};
  PUMICE_TRY(result->encoder_, Encoder::create(std::move(loaded), std::move(options)));
  result->kept_ = std::move(kept);
  return result;
}

Status PictureEncoder::run(std::span<const std::string> paths, const char* doing, const Take& take) {
  const size_t at_a_time = encoder_->runner().size().sequences;
  ProgressBar bar(doing);
  for (size_t first = 0; first < paths.size(); first += at_a_time) {
    if (!bar.update(first, paths.size())) return interruption();
    const std::span<const std::string> now = paths.subspan(first, std::min(at_a_time, paths.size() - first));
    std::vector<EncoderInput> inputs;
    const Status status = reader_.read(now, inputs);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(inputs));
    for (const InputRange& range : ranges) encoder_->release(range);
    bar.erase();
    for (size_t i = 0; i < inputs.size(); ++i) {
      PUMICE_TRY(std::vector<float> values, encoder_->read(kept_, i));
      PUMICE_CHECK(take(first + i, std::move(values)));
    }
    PUMICE_CHECK(status);
  }
  return {};
}

} // namespace pumice::command
