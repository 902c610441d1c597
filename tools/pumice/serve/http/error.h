#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http/exchange.h"

namespace pumice::serve {

// What errors call a request, and a field of it.
constexpr const char* request_name = "the request";
std::string request_field(std::string_view field);

// The body of an answer that says what is wrong, which clients of OpenAI's and Anthropic's interfaces read.
std::string error_body(int status, const std::string& sentence);
// The status of HTTP for an error of the library.
int status_of(const Error& error);
void answer_error(Exchange& exchange, const Error& error);

} // namespace pumice::serve
