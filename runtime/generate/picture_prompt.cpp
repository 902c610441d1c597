#include "generate/picture_prompt.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/checksum.h"
#include "shaders/embedding/given_rows.params.h"

namespace pumice {

namespace {

// A token for a row of a picture. Those of different pictures differ, so that their keys and values are not
// taken for each other's.
uint32_t row_token(uint64_t picture, uint32_t row) {
  uint64_t mixed = (picture + row) * 0x9e3779b97f4a7c15;
  mixed ^= mixed >> 29;
  return GIVEN_ROW | static_cast<uint32_t>(mixed & (GIVEN_ROW - 1));
}

uint64_t number_of(std::span<const float> rows) {
  Checksum sum;
  sum.add(std::as_bytes(rows));
  return sum.value();
}

} // namespace

std::vector<float> rows_of_picture(const PictureTokens& shape, std::vector<float> all, size_t columns) {
  const size_t skipped = std::min(columns * shape.skipped, all.size());
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(skipped));
  all.resize(std::min(columns * shape.rows, all.size()));
  return all;
}

Result<size_t> length_with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    size_t pictures, const std::string& source) {
  const auto places = static_cast<size_t>(std::ranges::count(tokens, shape.token));
  if (places == pictures * shape.rows) return tokens.size();
  if (places == pictures) return tokens.size() + pictures * (shape.rows - 1);
  return Error{
      Code::invalid_argument,
      fmt::format("{}: it has {} of the token {}, which stands for pictures, and {} pictures: expected "
                  "one for each, or {}",
                  source, places, shape.token, pictures, shape.rows)};
}

Result<PicturePrompt> with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const std::vector<float>> rows, const std::string& source) {
  PUMICE_TRY(const size_t length, length_with_pictures(shape, tokens, rows.size(), source));
  const bool each_row = length == tokens.size();
  auto given = std::make_shared<std::vector<float>>();
  for (const std::vector<float>& picture : rows) given->insert(given->end(), picture.begin(), picture.end());
  PicturePrompt prompt;
  size_t place = 0;
  for (uint32_t token : tokens) {
    if (token != shape.token) {
      prompt.tokens.push_back(token);
      continue;
    }
    const size_t picture = each_row ? place / shape.rows : place;
    const uint64_t number = number_of(rows[picture]);
    const uint32_t first = each_row ? static_cast<uint32_t>(place % shape.rows) : 0;
    for (uint32_t row = first; row < (each_row ? first + 1 : shape.rows); ++row)
      prompt.tokens.push_back(row_token(number, row));
    ++place;
  }
  prompt.given = std::move(given);
  return prompt;
}

} // namespace pumice
