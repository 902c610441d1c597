#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace pumice {

enum class Code {
  invalid_argument, // the caller asked for something that makes no sense
  not_found,        // a file, device or name that does not exist
  invalid_file,     // a file that is damaged or of another format
  unsupported,      // valid, but this build or device cannot do it
  out_of_memory,    // host or device memory
  device_lost,
  cancelled,
  io, // the operating system refused a read or a write
  internal,
  not_ready,    // another call must come first
  context_full, // more tokens than the context has room for
};

const char* to_string(Code code);

// Why something failed: a code to branch on and one sentence for a person. If several things were tried,
// `reasons` says why each of them failed.
struct Error {
  Code code = Code::internal;
  std::string message;
  std::vector<std::string> reasons = {};

  std::string text() const; // the sentence, then the reasons, one a line
};

// A value, or the Error that says why there is none.
template <class T>
class [[nodiscard]] Result {
public:
  Result(T from) : state_(std::in_place_index<0>, std::move(from)) {}
  Result(Error from) : state_(std::in_place_index<1>, std::move(from)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return *checked(); }
  const T& value() const& { return *const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(*checked()); }
  T& operator*() & { return *checked(); }
  const T& operator*() const& { return *const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return const_cast<Result*>(this)->checked(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

private:
  T* checked() {
    assert(ok());
    return std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error from) : error_(std::move(from)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

private:
  std::optional<Error> error_;
};

using Status = Result<void>;

} // namespace pumice

#define PUMICE_CONCAT_(a, b) a##b
#define PUMICE_CONCAT(a, b) PUMICE_CONCAT_(a, b)

// PUMICE_TRY(auto x, f()); takes the value out of a Result, or returns its Error from the enclosing function.
#define PUMICE_TRY(declaration, expression)                                                                  \
  auto PUMICE_CONCAT(result_, __LINE__) = (expression);                                                      \
  if (!PUMICE_CONCAT(result_, __LINE__).ok()) return std::move(PUMICE_CONCAT(result_, __LINE__)).error();    \
  declaration = *std::move(PUMICE_CONCAT(result_, __LINE__))

// PUMICE_CHECK(f()); returns the Error of a failed Status from the enclosing function.
#define PUMICE_CHECK(expression)                                                                             \
  if (auto PUMICE_CONCAT(status_, __LINE__) = (expression); !PUMICE_CONCAT(status_, __LINE__).ok())          \
  return std::move(PUMICE_CONCAT(status_, __LINE__)).error()
