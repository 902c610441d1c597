#pragma once

#include "models/architecture.h"

namespace pumice {

// GPT-2 and GPT-3's shape, from a Hugging Face config.
Result<std::unique_ptr<Definition>> open_gpt2(const ModelFile& file);

} // namespace pumice
