#include "doctor/verdict.h"

#include <fmt/format.h>

#include "terminal/wrapping.h"

namespace pumice::command {

const char* to_string(Verdict::State state) {
  switch (state) {
  case Verdict::State::good:
    return "ok";
  case Verdict::State::noticed:
    return "note";
  case Verdict::State::skipped:
    return "skip";
  default:
    return "BAD";
  }
}

std::string line_of(const Verdict& verdict) {
  return listed(fmt::format("{:<5} {:<22} ", to_string(verdict.state), verdict.what), verdict.text);
}

Json json_of(const Verdict& verdict) {
  Json json{{"what", verdict.what}, {"state", to_string(verdict.state)}, {"text", verdict.text}};
  json["advice"] = verdict.advice;
  if (!verdict.details.is_null()) json["details"] = verdict.details;
  return json;
}

} // namespace pumice::command
