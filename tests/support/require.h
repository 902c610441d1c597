#pragma once

#include <doctest/doctest.h>

#include "base/result.h"

// The value of a result; an error ends the test.
template <class T>
T require(pumice::Result<T> result) {
  if (!result.ok()) FAIL(result.error().text());
  return *std::move(result);
}
inline void require(const pumice::Status& status) {
  if (!status.ok()) FAIL(status.error().text());
}
