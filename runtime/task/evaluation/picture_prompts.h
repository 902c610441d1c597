#pragma once

#include <string>
#include <vector>

#include "generate/picture_prompt.h"
#include "step/picture_rows.h"
#include "task/evaluation/model_inputs.h"

namespace pumice {

// Prompts with pictures, from the tensors of a file: input_ids, whose rows have as many pictures of
// pixel_values as the tokens that stand for them say, one picture after the other.
class PicturePrompts {
public:
  // Whether there are pictures or sounds for prompts, under any name.
  static bool given(const SafetensorsFile& tensors);
  // `path` names the tensors in errors.
  static Result<PicturePrompts> read(const SafetensorsFile& tensors, const std::string& path,
                                     const ModelFile& file, const ModelShape& shape);

  const TokenBatch& prompts() const { return prompts_; } // without the pictures' rows
  // Each prompt with the rows of its pictures.
  Result<std::vector<PicturePrompt>> encode(PictureRows& encoder) const;

private:
  // How many pictures, from one on, a prompt has places for: for the rows of each, or one for each.
  size_t pictures_in(std::span<const uint32_t> ids, size_t first) const;

  PictureTokens shape_;
  TokenBatch prompts_;
  EncoderBatch pictures_;
};

} // namespace pumice
