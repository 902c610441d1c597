#include "commands/generate.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/formats/safetensors.h"
#include "output/output_files.h"
#include "process/replicas.h"
#include "terminal/terminal.h"

// What `pumice generate` prints and writes.
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

Json TextPrinter::json_of(const Answer& each) const {
  Json json;
  json["ids"] = each.ids;
  if (tokenizer_.ok()) json["text"] = each.text;
  json["score"] = each.score;
  return json;
}

Json TextPrinter::json_of(const Text& text) const {
  Json json;
  if (as_lines()) {
    if (!text.id.is_null()) json["id"] = text.id;
    json["index"] = text.index;
    json["sample"] = text.sample;
  }
  json["ids"] = text.ids;
  if (tokenizer_.ok()) json["text"] = text.text;
  json["finish_reason"] = text.finish_reason ? text.finish_reason : "interrupted";
  json["seed"] = seed_json(text.sampling, text.seed || options_.sampling.seed);
  if (options_.log_probabilities) json["logprobs"] = log_probabilities_of(text);
  if (!text.hypotheses.empty()) json["score"] = text.hypotheses.front().score;
  if (options_.beams.hypotheses < 2) return json;
  json["hypotheses"] = Json::array();
  for (const Answer& each : text.hypotheses) json["hypotheses"].push_back(json_of(each));
  return json;
}

std::string TextPrinter::line_of(const std::vector<uint32_t>& ids, const std::string& text) const {
  return tokenizer_.ok() ? text : fmt::format("{}", fmt::join(ids, ","));
}

void TextPrinter::print(const Text& text) const {
  print_text(text);
  if (text.finish_reason && text.sample + 1 == text.samples)
    (void)end_line(text.line); // an error comes with the next lines, too
}

void TextPrinter::print_text(const Text& text) const {
  if (as_lines()) {
    print_json(json_of(text));
  } else if (options_.beams.hypotheses < 2) {
    print_result(line_of(text.ids, text.text) + "\n");
  } else {
    const std::string owner = several_ ? fmt::format("{}\t", text.index + 1) : "";
    for (const Answer& each : text.hypotheses)
      print_result(fmt::format("{}{:.4f}\t{}\n", owner, each.score, line_of(each.ids, each.text)));
  }
}

void TextPrinter::finish(const std::deque<Text>& texts, bool complete) const {
  if (as_they_come()) {
    if (complete)
      print_figures(fmt::format("{} ({})\n{}", device_.name(), device_.driver(), compiled_text()));
    return;
  }
  Json sequences = Json::array();
  for (const Text& text : texts) sequences.push_back(json_of(text));
  Json json = texts.size() == 1 ? sequences[0] : Json{{"sequences", sequences}};
  add_device(json, device_);
  print_json(json);
}

namespace {

// The model's padding token, or 0 if its settings have none. It only fills the ends of shorter rows.
uint32_t padding_token(const ModelFile& model) {
  for (const char* name : {"pad_token_id", "tokenizer.ggml.padding_token_id"}) {
    const Fields fields = model.fields();
    if (!fields.has(name)) continue;
    if (const Result<uint32_t> id = fields.u32(name); id.ok()) return *id;
  }
  return 0;
}

// The ids of all texts that have ended, with what ended them.
std::vector<std::vector<uint32_t>> rows_of(const GenerateOptions& options, const TextQueue& queue,
                                           bool complete) {
  std::vector<std::vector<uint32_t>> rows;
  const auto add = [&rows](const auto& each) {
    rows.push_back(each.ids);
    if (each.end) rows.back().push_back(*each.end);
  };
  const auto add_missing = [&](size_t requests) { rows.resize(rows.size() + requests * options.samples); };
  for (const Text& text : queue.texts()) {
    if (!text.finish_reason) break; // rows are told apart by their numbers
    if (text.sample == 0) add_missing(text.missing_before);
    if (text.hypotheses.empty()) add(text);
    for (const Answer& each : text.hypotheses) add(each);
  }
  if (complete) add_missing(queue.missing());
  return rows;
}

} // namespace

Status write_generated(const GenerateOptions& options, const TextQueue& queue, const ModelFile& model,
                       bool complete) {
  if (options.outputs.empty()) return {};
  std::vector<std::vector<uint32_t>> rows = rows_of(options, queue, complete);
  if (!complete && rows.empty()) return {};
  size_t columns = 0;
  for (const std::vector<uint32_t>& row : rows) columns = std::max(columns, row.size());
  const uint32_t padding = padding_token(model);
  std::vector<int64_t> ids;
  for (std::vector<uint32_t>& row : rows) {
    row.resize(columns, padding);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  const SafetensorsFile::Entry entry{
      "generated_ids", "I64", {rows.size(), columns}, std::as_bytes(std::span(ids))};
  const std::filesystem::path path =
      complete ? path_of(options.outputs) : partial_path(path_of(options.outputs));
  PUMICE_CHECK(write_safetensors(path, std::span(&entry, 1)));
  if (!complete) print_note(fmt::format("{} has the texts that had ended by then", path_text(path)));
  return {};
}

} // namespace pumice::command
