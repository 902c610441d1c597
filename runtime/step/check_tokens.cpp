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

Status check_ids(std::span<const uint32_t> ids, uint32_t vocabulary, const std::string& source) {
  if (ids.empty()) {
    return Error{Code::invalid_argument, fmt::format("{} is empty: give at least one token", source)};
  }
  return check_ids_below(ids, vocabulary, source);
}

Status check_ids_below(std::span<const uint32_t> ids, uint32_t vocabulary, const std::string& source) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary) continue;
    const std::string place = ids.size() > 1 ? fmt::format(" (number {} of {})", i + 1, ids.size()) : "";
    return Error{Code::invalid_argument,
                 fmt::format("{}: there is no token {}{}: the ids of the model are 0 to {}", source, ids[i],
                             place, vocabulary - 1)};
  }
  return {};
}

} // namespace pumice
