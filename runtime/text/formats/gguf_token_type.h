#pragma once

#include <cstdint>

namespace pumice::text {

// Values of tokenizer.ggml.token_type. Plain integers in the file, so that they convert to one.
namespace gguf_token {
enum Type : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
}

} // namespace pumice::text
