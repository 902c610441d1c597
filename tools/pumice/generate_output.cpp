#include "generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "terminal.h"

// What `pumice generate` prints for decoders.
namespace pumice::command {

namespace {

Json log_probability(const TokenLogProbability& each) {
  return {{"id", each.token}, {"logprob", each.log_probability}};
}

Json log_probabilities_of(const Text& text) {
  Json all = Json::array();
  for (const TokenLogProbabilities& each : text.log_probabilities) {
    Json json = log_probability(each);
    json["top"] = Json::array();
    for (const TokenLogProbability& top : each.top) json["top"].push_back(log_probability(top));
    all.push_back(std::move(json));
  }
  return all;
}

} // namespace

Json TextPrinter::json_of(const Text& text) const {
  Json json;
  if (as_lines()) {
    if (!text.id.is_null()) json["id"] = text.id;
    json["index"] = text.index;
    json["sample"] = text.sample;
  }
  json["ids"] = text.ids;
  if (has_text_) json["text"] = text.text;
  json["finish_reason"] = text.finish_reason ? text.finish_reason : "interrupted";
  json["seed"] = text.sampling.seed;
  if (options_.log_probabilities) json["logprobs"] = log_probabilities_of(text);
  return json;
}

bool TextPrinter::ready(std::span<const Text> texts) const {
  const bool at_once = as_lines() || !options_.json;
  return at_once && printed_ < texts.size() && texts[printed_].finish_reason;
}

void TextPrinter::print(std::span<const Text> texts) {
  for (; ready(texts); ++printed_) {
    const Text& text = texts[printed_];
    if (as_lines()) {
      print_json(json_of(text));
    } else {
      print_result((has_text_ ? text.text : fmt::format("{}", fmt::join(text.ids, ","))) + "\n");
    }
  }
}

void TextPrinter::finish(std::span<const Text> texts) const {
  if (as_lines() || !options_.json) {
    print_figures(fmt::format("{} ({})\n{}", device_.name(), device_.driver(), compiled_text()));
    return;
  }
  Json sequences = Json::array();
  for (const Text& text : texts) sequences.push_back(json_of(text));
  Json json = texts.size() == 1 ? sequences[0] : Json{{"sequences", sequences}};
  add_device(json, device_);
  print_json(json);
}

} // namespace pumice::command
