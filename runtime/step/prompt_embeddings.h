#pragma once

#include <memory>
#include <vector>

#include "media/patch_grid.h"
#include "shaders/embedding/prompt_rows.params.h"

namespace pumice {

// Whether a token of a text is a row of a picture.
inline bool is_prompt_row(uint32_t token) {
  return (token & PROMPT_ROW) != 0;
}

// The embeddings of a text's tokens that are rows of pictures.
struct PromptEmbeddings {
  std::vector<float> values; // a row after the other
  // Of the pictures that they are of, in rows: where those have a place in their picture. Otherwise empty.
  std::vector<PatchGrid> grids = {};
};

using SharedEmbeddings = std::shared_ptr<const PromptEmbeddings>;

// Those of a text and of what follows it.
SharedEmbeddings joined(const SharedEmbeddings& first, const SharedEmbeddings& second);
// The first `kept` of `rows` rows.
SharedEmbeddings first_rows(const SharedEmbeddings& embeddings, size_t kept, size_t rows);

} // namespace pumice
