#include "generate/picture_prompt.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/checksum.h"
#include "shaders/embedding/prompt_rows.params.h"

namespace pumice {

namespace {

// A token for a row of a picture. Those of different pictures differ, so that their keys and values are not
// taken for each other's.
uint32_t row_token(uint64_t picture, uint32_t row) {
  uint64_t mixed = (picture + row) * 0x9e3779b97f4a7c15;
  mixed ^= mixed >> 29;
  return PROMPT_ROW | static_cast<uint32_t>(mixed & (PROMPT_ROW - 1));
}

uint64_t number_of(std::span<const float> rows, const PatchGrid& grid) {
  Checksum sum;
  sum.add(std::as_bytes(rows));
  if (grid.count() > 0) sum.add(uint64_t{grid.height} << 32 | grid.width);
  return sum.value();
}

// The rows of all pictures together.
size_t rows_of_all(const PictureTokens& shape, std::span<const PatchGrid> grids) {
  size_t rows = 0;
  for (const PatchGrid& grid : grids) rows += shape.rows_of(grid);
  return rows;
}

} // namespace

Result<size_t> length_with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const PatchGrid> grids, const std::string& source) {
  const auto places = static_cast<size_t>(std::ranges::count(tokens, shape.token));
  const size_t rows = rows_of_all(shape, grids);
  if (places == rows) return tokens.size();
  // One for each has no place for what ends lines.
  if (places == grids.size() && shape.markup.line_end.empty()) return tokens.size() + rows - grids.size();
  return Error{Code::invalid_argument,
               fmt::format("{}: it has {} of the token {}, which stands for {}, and {} {}: expected "
                           "one for each, or {}",
                           source, places, shape.token, shape.sounds ? "sounds" : "pictures", grids.size(),
                           shape.sounds ? "windows of them" : "pictures",
                           shape.of_any_size() || shape.sounds ? fmt::format("{} in all", rows)
                                                               : std::to_string(shape.rows))};
}

Result<PicturePrompt> with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const std::vector<float>> rows, const std::string& source,
                                    std::span<const PatchGrid> grids) {
  std::vector<PatchGrid> all(grids.begin(), grids.end());
  all.resize(rows.size());
  PUMICE_TRY(const size_t length, length_with_pictures(shape, tokens, all, source));
  const bool each_row = length == tokens.size();
  auto embeddings = std::make_shared<PromptEmbeddings>();
  for (const std::vector<float>& picture : rows)
    embeddings->values.insert(embeddings->values.end(), picture.begin(), picture.end());
  PicturePrompt prompt;
  size_t picture = 0;
  uint32_t row = 0; // of the picture
  for (const uint32_t token : tokens) {
    if (token != shape.token) {
      prompt.tokens.push_back(token);
      continue;
    }
    const auto count = static_cast<uint32_t>(shape.rows_of(all[picture]));
    const uint64_t number = number_of(rows[picture], all[picture]);
    const uint32_t end = each_row ? row + 1 : count;
    for (; row < end; ++row) prompt.tokens.push_back(row_token(number, row));
    if (row < count) continue;
    if (shape.has_places()) embeddings->grids.push_back(all[picture].merged(shape.merge));
    ++picture;
    row = 0;
  }
  prompt.embeddings = std::move(embeddings);
  return prompt;
}

} // namespace pumice
