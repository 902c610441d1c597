#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "step/prompt_embeddings.h"

namespace pumice {

// A decoder's prompt with rows of pictures in it, as SequenceRequest takes it.
struct PicturePrompt {
  std::vector<uint32_t> tokens;
  SharedEmbeddings embeddings;
};

// The number of tokens of a prompt with the rows of these pictures in it. `grids`: of their patches, which
// those of one size need not have. invalid_argument where it has not a place for each of them, as
// with_pictures().
Result<size_t> length_with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const PatchGrid> grids, const std::string& source);

// Puts the rows of pictures in the place of the tokens that stand for them: one for each row, or one for each
// picture, which becomes as many. `rows`: what the decoder reads of each picture, in the order of the prompt.
// `source` names the prompt in errors. `grids`: of the patches of pictures that may have any size.
Result<PicturePrompt> with_pictures(const PictureTokens& shape, std::span<const uint32_t> tokens,
                                    std::span<const std::vector<float>> rows, const std::string& source,
                                    std::span<const PatchGrid> grids = {});

} // namespace pumice
