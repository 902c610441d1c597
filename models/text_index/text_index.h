#pragma once

#include "model/architecture.h"

namespace pumice {

// The vectors of texts that `pumice search` keeps, in a folder as a model has it. config.json has model_type
// "text_index", `vectors` and `dimensions`; the tensor "embeddings" is [vectors, dimensions]. Its encoder
// reads the vector of a query and gives "scores", the product with each vector.
Result<std::unique_ptr<ModelDefinition>> open_text_index(const ModelFile& file);

} // namespace pumice
