#include "task/evaluation/picture_prompts.h"

#include <algorithm>

namespace pumice {

namespace {

// Of the inputs' patches, which pictures of one size do not have.
std::vector<PatchGrid> grids_of(std::span<const EncoderInput> inputs) {
  std::vector<PatchGrid> all;
  for (const EncoderInput& input : inputs) all.push_back(input.grid);
  return all;
}

} // namespace

bool PicturePrompts::given(const SafetensorsFile& tensors) {
  return std::ranges::any_of(prompt_pictures_names, [&](const char* name) { return tensors.find(name); });
}

Result<PicturePrompts> PicturePrompts::read(const SafetensorsFile& tensors, const std::string& path,
                                            const ModelFile& file, const ModelShape& shape) {
  PicturePrompts result;
  result.shape_ = *shape.pictures;
  PUMICE_TRY(result.prompts_, read_tokens(tensors, path, "input_ids", "attention_mask", shape.vocabulary));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(file, Tower::pictures));
  const EncoderShape encoder = *tower->shape().encoder;
  if (tensors.find(prompt_pictures_name(encoder))) {
    PUMICE_TRY(result.pictures_, read_prompt_pictures(tensors, path, encoder));
  }
  return result;
}

Result<std::vector<PicturePrompt>> PicturePrompts::encode(PictureRows& encoder) const {
  std::vector<PicturePrompt> all;
  size_t next = 0;
  for (const std::vector<uint32_t>& ids : prompts_.ids) {
    const std::span pictures = std::span(pictures_.inputs).subspan(next, pictures_in(ids, next));
    next += pictures.size();
    PUMICE_TRY(const std::vector<std::vector<float>> rows, encoder.rows(pictures));
    PUMICE_TRY(PicturePrompt prompt, with_pictures(shape_, ids, rows, prompts_.source, grids_of(pictures)));
    all.push_back(std::move(prompt));
  }
  return all;
}

size_t PicturePrompts::pictures_in(std::span<const uint32_t> ids, size_t first) const {
  const auto places = static_cast<size_t>(std::ranges::count(ids, shape_.token));
  size_t rows = 0, count = 0;
  for (size_t i = first; i < pictures_.inputs.size() && rows < places; ++i, ++count)
    rows += shape_.rows_of(pictures_.inputs[i].grid);
  return rows == places ? count : std::min(places, pictures_.inputs.size() - first);
}

} // namespace pumice
