#include "commands/requests.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/fields.h"
#include "io/json_text.h"
#include "shaders/sampling/sampling.params.h"
#include "text/chat/chat_template.h"

namespace pumice::command {

namespace {

const std::vector<std::string>& known_fields() {
  static const std::vector<std::string> fields = {
      "prompt",      "ids",     "messages", "chat_template_kwargs",
      "id",          "count",   "samples",  "seed",
      "stop",        "lora",    "choices",  "regex",
      "json_schema", "grammar", "samplers",
#define OPTION(field, ...) #field,
#include "kernel/sampling_options.def"
  };
  return fields;
}

Status check_names(const nlohmann::json& object, const Fields& fields) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::count(known_fields(), name) == 0)
      return fields.error(name, fmt::format("it is not known: expected {}", request_fields()));
  }
  const int given = fields.has("prompt") + fields.has("ids") + fields.has("messages");
  if (given != 1)
    return fields.error("prompt", given ? "expected one of 'prompt', 'ids' and 'messages', found both"
                                        : "expected 'prompt', 'ids' or 'messages', found neither");
  if (!fields.has("chat_template_kwargs") || fields.has("messages")) return {};
  return fields.error("chat_template_kwargs", "it is for 'messages', and there are none");
}

// A schema is a text, or JSON as it stands in the line, with its properties in their order.
Result<std::optional<FormSource>> read_request_form(const Fields& fields, const std::string& line,
                                                    const std::string& source) {
  FormSource form;
  if (fields.has("choices")) {
    PUMICE_TRY(form.choices, fields.string_array("choices"));
  }
  const auto text = [&](const char* name, std::string& value) -> Status {
    if (!fields.has(name)) return {};
    PUMICE_TRY(value, fields.string(name));
    return {};
  };
  PUMICE_CHECK(text("regex", form.regex));
  PUMICE_CHECK(text("grammar", form.grammar));
  if (const nlohmann::json* schema = fields.find("json_schema"); schema && !schema->is_string()) {
    PUMICE_TRY(const nlohmann::ordered_json ordered, parse_ordered_json(line, source));
    form.json_schema = ordered["json_schema"].dump();
  } else {
    PUMICE_CHECK(text("json_schema", form.json_schema));
  }
  return form == FormSource() ? std::optional<FormSource>() : std::optional(std::move(form));
}

} // namespace

Result<Request> read_request(const std::string& line, std::string source, const SamplingParams& sampling) {
  PUMICE_TRY(const nlohmann::json object, parse_json_object(std::as_bytes(std::span(line)), source));
  const Fields fields(object, source);
  PUMICE_CHECK(check_names(object, fields));
  Request request;
  if (fields.has("chat_template_kwargs")) {
    PUMICE_TRY(const Fields variables, fields.object("chat_template_kwargs"));
    (void)variables;
  }
  if (fields.has("messages")) {
    PUMICE_TRY(request.chat, parse_ordered_json(line, source)); // in their order
    if (const Status status = check_messages(request.chat); !status.ok())
      return Error{status.error().code, fmt::format("{}: {}", source, status.error().message)};
  } else if (fields.has("prompt")) {
    PUMICE_TRY(request.prompt, fields.string("prompt"));
  } else {
    PUMICE_TRY(request.ids, fields.u32_array("ids"));
  }
  if (const nlohmann::json* id = fields.find("id")) request.id = Json::parse(id->dump());
  if (const nlohmann::json* count = fields.find("count"); count && *count == -1) {
    request.count = UINT32_MAX; // as --count has it: no limit
  } else if (count) {
    PUMICE_TRY(request.count, fields.u32("count"));
  }
  if (fields.has("samples")) {
    PUMICE_TRY(request.samples, fields.u32("samples", 1));
  }
  if (const nlohmann::json* seed = fields.find("seed")) {
    if (!seed->is_number_unsigned()) return fields.error("seed", "expected a whole number from 0");
    request.seed = seed->get<uint64_t>();
  }
  if (fields.has("stop")) {
    PUMICE_TRY(request.stops, fields.string_array("stop"));
  }
  if (fields.has("lora")) {
    PUMICE_TRY(request.adapters, fields.string_array("lora"));
  }
  PUMICE_TRY(request.form, read_request_form(fields, line, source));
  request.sampling = sampling;
  PUMICE_CHECK(read_sampling_fields(fields, request.sampling));
  request.source = std::move(source);
  return request;
}

std::string request_fields() {
  return fmt::format("{}", fmt::join(known_fields(), ", "));
}

} // namespace pumice::command
