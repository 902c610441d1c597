#include "step/batch/whole_pictures.h"

#include <algorithm>

#include "step/prompt_embeddings.h"

namespace pumice {

bool has_bidirectional_pictures(const Model& model) {
  const std::optional<PictureTokens>& pictures = model.shape().pictures;
  return pictures && pictures->bidirectional;
}

std::pair<uint32_t, uint32_t> picture_at(std::span<const uint32_t> tokens, uint32_t at) {
  uint32_t begin = at, end = at;
  while (begin > 0 && is_prompt_row(tokens[begin - 1])) --begin;
  while (end < tokens.size() && is_prompt_row(tokens[end])) ++end;
  return {begin, end};
}

uint32_t rows_of_whole_pictures(std::span<const uint32_t> tokens, uint32_t first, uint32_t count) {
  const uint32_t next = first + count;
  if (next >= tokens.size() || !is_prompt_row(tokens[next])) return count;
  return std::max(picture_at(tokens, next).first, first) - first;
}

} // namespace pumice
