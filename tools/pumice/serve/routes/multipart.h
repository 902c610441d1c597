#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::serve {

// A part of a form (multipart/form-data, RFC 7578).
struct FormPart {
  std::string name;
  bool is_file = false;   // it has the name of a file, which nobody uses
  std::string_view value; // within the body
};

// `type`: the header Content-Type, which says what lies between the parts. What is not as the RFC has it is
// invalid_argument.
Result<std::vector<FormPart>> read_form_parts(std::string_view type, std::string_view body);

} // namespace pumice::serve
