#include "terminal/writing.h"

#include <algorithm>

#include <fmt/format.h>

#include "options/option_text.h"
#include "options/option_values.h"
#include "terminal/counted.h"

namespace pumice::command {

namespace {

// "0-0 1-2", the form of Pharaoh and fast_align.
std::string to_text(std::span<const WordLink> links) {
  std::string text;
  for (const auto& [source, translation] : links)
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", source, translation);
  return text;
}

Json json_of(const WrittenText& written) {
  Json json;
  json["text"] = written.text;
  json["tokens"] = written.tokens;
  json["score"] = written.score;
  if (written.links) json["alignment"] = *written.links;
  return json;
}

} // namespace

void add_writing_options(CLI::App& app, WriterOptions& options) {
  WritingOptions& writing = options.writing;
  app.add_option("-n,--count", writing.max_tokens,
                 "Maximum tokens of each text (default: the model's). If the model's settings say nothing, "
                 "as many as fit")
      ->type_name("N")
      ->transform(token_count(1, 1u << 24, 0))
      ->group("Text");
  app.add_option("--sequences", writing.sequences,
                 "Maximum number of texts that are generated at the same time; each beam counts as one")
      ->type_name("N")
      ->check(within(1u, 4096u))
      ->capture_default_str()
      ->group(more_of(device_group));
  add_batch_option(app, writing.batch_tokens, device_group);
  add_weights_option(app, options.load);
  add_beam_options(app, writing.beams);
  SamplingParams defaults;
  defaults.temperature = 0;
  add_sampling_options(app, options.sampling, defaults);
  add_device_options(app, options.device);
}

WritingOptions WriterOptions::resolved() const {
  WritingOptions result = writing;
  result.sampling = sampling.resolved();
  result.scores = json;
  return result;
}

std::string lines_of(std::span<const WrittenText> written, const GenerationOptions& options,
                     const std::string& owner) {
  std::string lines;
  const std::string begin = owner.empty() ? "" : owner + "\t";
  for (const WrittenText& each : written) {
    std::string text = each.text;
    std::ranges::replace(text, '\n', ' '); // each text is one line
    if (each.links) text += " ||| " + to_text(*each.links);
    lines += options.hypotheses > 1 ? begin + fmt::format("{:.4f}\t{}\n", each.score, text) : text + "\n";
  }
  return lines;
}

void add_written(Json& json, std::span<const WrittenText> written, const GenerationOptions& options) {
  if (written.empty()) return;
  json.update(json_of(written.front()));
  if (options.hypotheses < 2) return;
  json["hypotheses"] = Json::array();
  for (const WrittenText& each : written) json["hypotheses"].push_back(json_of(each));
}

void WritingFigures::print(const OpenedDevice& device) const {
  print_figures(fmt::format("{} ({})\n{}{}, {} generated in {:.3f} s{}\n", device.name(), device.driver(),
                            compiled_text(), counted(inputs, "input"), counted(tokens, "token"), seconds,
                            rate_text(tokens, seconds)));
}

} // namespace pumice::command
