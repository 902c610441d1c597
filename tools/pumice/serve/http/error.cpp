#include "serve/http/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice::serve {

namespace {

using nlohmann::ordered_json;

const char* kind_of(int status) {
  switch (status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
  case 405:
    return "not_found_error";
  case 413:
    return "request_too_large";
  case 429:
    return "rate_limit_error";
  case 503:
    return "overloaded_error";
  default:
    return status < 500 ? "invalid_request_error" : "api_error";
  }
}

// The field that a sentence names: "the request: field 'n': expected ...".
ordered_json field_in(const std::string& sentence) {
  constexpr std::string_view mark = "field '";
  const size_t at = sentence.find(mark);
  if (at == std::string::npos) return nullptr;
  const size_t begin = at + mark.size(), end = sentence.find('\'', begin);
  return end == std::string::npos ? ordered_json() : ordered_json(sentence.substr(begin, end - begin));
}

} // namespace

std::string request_field(std::string_view field) {
  return fmt::format("{}: field '{}'", request_name, field);
}

std::string error_body(int status, const std::string& sentence) {
  const ordered_json body = {
      {"type", "error"},
      {"error",
       {{"message", sentence}, {"type", kind_of(status)}, {"param", field_in(sentence)}, {"code", status}}}};
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int status_of(const Error& error) {
  switch (error.code) {
  case Code::not_found:
    return 404;
  case Code::invalid_argument:
  case Code::invalid_file:
  case Code::unsupported:
  case Code::context_full:
    return 400;
  case Code::not_ready:
  case Code::out_of_memory:
  case Code::cancelled:
    return 503;
  default:
    return 500;
  }
}

void answer_error(Exchange& exchange, const Error& error) {
  const int status = status_of(error);
  HttpHeaders headers;
  if (status == 503) headers.emplace_back("Retry-After", "1");
  exchange.answer(status, "application/json", error_body(status, error.text()), headers);
}

} // namespace pumice::serve
