#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/regex.h"

namespace pumice::text {

// Where each byte of a text that a step made comes from in the text before the step.
class TextOrigin {
public:
  using Change = std::function<std::string(std::string text)>;

  // `change` made `after` of `before`, both escaped UTF-8. What it makes of each character alone is compared
  // with `after`: what is more there (a space before a text) comes from nowhere, what is missing was removed,
  // and where characters became others together, these come from all of them.
  TextOrigin(std::string_view before, std::string_view after, const Change& change);

  // The bytes of `before` that these bytes of `after` come from.
  Span of(Span after) const;

private:
  std::vector<Span> bytes_; // by byte of `after`; empty: nothing has changed
};

} // namespace pumice::text
