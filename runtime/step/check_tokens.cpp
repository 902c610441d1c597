#include "step/check_tokens.h"

#include <fmt/format.h>

namespace pumice {

Status check_tokens(const Model& model, std::span<const uint32_t> tokens, uint32_t vocabulary) {
  for (uint32_t token : tokens) {
    if (token < vocabulary) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{}: token {} is not in the vocabulary, whose ids are 0 to {}",
                             model.file().path(), token, vocabulary - 1)};
  }
  return {};
}

} // namespace pumice
