#include "step/prompt_embeddings.h"

namespace pumice {

SharedEmbeddings joined(const SharedEmbeddings& first, const SharedEmbeddings& second) {
  if (!first || !second) return first ? first : second;
  auto both = std::make_shared<PromptEmbeddings>(*first);
  both->values.insert(both->values.end(), second->values.begin(), second->values.end());
  both->grids.insert(both->grids.end(), second->grids.begin(), second->grids.end());
  return both;
}

SharedEmbeddings first_rows(const SharedEmbeddings& embeddings, size_t kept, size_t rows) {
  auto first = std::make_shared<PromptEmbeddings>();
  const auto end =
      embeddings->values.begin() + static_cast<ptrdiff_t>(embeddings->values.size() / rows * kept);
  first->values.assign(embeddings->values.begin(), end);
  size_t before = 0;
  for (const PatchGrid& grid : embeddings->grids) {
    if (before >= kept) break;
    first->grids.push_back(grid);
    before += grid.count();
  }
  return first;
}

} // namespace pumice
