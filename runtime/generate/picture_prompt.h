#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"

namespace pumice {

// A decoder's prompt with rows of pictures in it, as SequenceRequest takes it.
struct PicturePrompt {
  std::vector<uint32_t> tokens;
  std::shared_ptr<const std::vector<float>> given;
};

// What the decoder reads of a picture, of all rows that its tower made: at least
// [skipped + rows, columns].
std::vector<float> rows_of_picture(const PictureTokens& shape, std::vector<float> all, size_t columns);

// The number of tokens of a prompt with the rows of so many pictures in it. invalid_argument where it has not
// a place for each of them, as with_pictures().
Result<size_t> length_with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    size_t pictures, const std::string& source);

// Puts the rows of pictures in the place of the tokens that stand for them: one for each row, or one for each
// picture, which becomes as many. `rows`: what the decoder reads of each picture, in the order of the prompt.
// `source` names the prompt in errors.
Result<PicturePrompt> with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const std::vector<float>> rows, const std::string& source);

} // namespace pumice
