// A chat template, rendered with a few messages, within limits that keep each run short.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"
#include "text/unicode/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto variables = nlohmann::ordered_json::parse(R"({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Äh, <b>?\n"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
    "add_generation_prompt": true, "bos_token": "<s>"})");
  pumice::text::jinja::Options options;
  options.steps = 200'000;
  options.output = 1 << 20;
  const auto parsed = pumice::text::jinja::Template::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  const auto text = parsed->render(variables, options);
  const bool holds = text.ok() ? text->size() <= options.output && pumice::text::is_valid_utf8(*text)
                               : !text.error().message.empty();
  if (!holds) std::abort();
  return 0;
}
