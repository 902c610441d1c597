#pragma once

#include <vector>

#include <doctest/doctest.h>

#include "generate/session.h"

// The next tokens of a session. An error fails the test.
inline std::vector<uint32_t> take(pumice::Session& session, size_t count) {
  std::vector<uint32_t> tokens;
  while (tokens.size() < count) {
    const auto token = session.next();
    if (!token.ok()) FAIL(token.error().text());
    tokens.push_back(*token);
  }
  return tokens;
}
