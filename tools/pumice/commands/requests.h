#pragma once

#include <optional>
#include <string>
#include <vector>

#include "form/form.h"
#include "kernel/sampling/sampling.h"
#include "output/json_output.h"

namespace pumice::command {

// A line of JSON that asks for texts: an object with "prompt" (a text), "ids", or "messages" (a chat), which
// may have "chat_template_kwargs". What else it has overrides the command's options.
struct Request {
  std::string source; // "FILE: line 3"
  std::optional<std::string> prompt;
  std::vector<uint32_t> ids;
  nlohmann::ordered_json chat; // an object with "messages"; null: none
  Json id;                     // "id": any value, which stands in the answer again
  std::optional<uint32_t> count;
  std::optional<uint32_t> samples;
  std::optional<uint64_t> seed;
  std::optional<std::vector<std::string>> stops;
  std::optional<std::vector<std::string>> adapters; // "lora": PATH or PATH=SCALE, as of --lora, or a list
  std::optional<FormSource> form;                   // the fields choices, regex, json_schema and grammar
  SamplingParams sampling; // the command's, with the fields of SamplingParams that the line has
};

// The fields that a request can have, for the help.
std::string request_fields();

// `sampling`: the command's. Errors name the source and the field.
Result<Request> read_request(const std::string& line, std::string source, const SamplingParams& sampling);

} // namespace pumice::command
