#include "beam_options.h"

#include <map>

#include <fmt/format.h>

namespace pumice::command {

Status BeamOptions::apply(GenerationConfig& config) const {
  if (beams) config.beams = *beams;
  if (length_penalty) config.length_penalty = *length_penalty;
  if (early_stopping) config.early_stopping = *early_stopping;
  if (no_repeat_ngram) config.no_repeat_ngram = *no_repeat_ngram;
  if (hypotheses <= config.beams) return {};
  return Error{
      Code::invalid_argument,
      fmt::format("--n-best: expected at most as many as beams, {}; found {}", config.beams, hypotheses)};
}

void add_beam_options(CLI::App& app, BeamOptions& options) {
  const auto group = [](CLI::Option* option, const char* type) {
    return option->type_name(type)->group("Beam search");
  };
  group(app.add_option("--beams", options.beams,
                       "Texts that are followed at a time (default: as the model's settings say, or 1)"),
        "N")
      ->check(CLI::Range(1u, 1024u).description(""));
  group(app.add_option("--length-penalty", options.length_penalty,
                       "A text's score is divided by its length to this power: above 0 long texts gain"),
        "P")
      ->check(CLI::Range(-100.0f, 100.0f).description(""));
  static const std::map<std::string, EarlyStopping> stopping = {
      {"no", EarlyStopping::no}, {"yes", EarlyStopping::yes}, {"never", EarlyStopping::never}};
  group(app.add_option_function<std::string>(
            "--early-stopping",
            [&options](const std::string& name) { options.early_stopping = stopping.at(name); },
            "When the search ends: 'yes' once as many texts as beams have ended, 'no' once none is likely to "
            "get better, 'never' once none can"),
        "WHEN")
      ->check(CLI::IsMember(stopping).description(""));
  group(app.add_option("--n-best", options.hypotheses, "Texts to give of each input, best first"), "N")
      ->check(CLI::Range(1u, 1024u).description(""))
      ->capture_default_str();
  group(app.add_option("--no-repeat-ngram", options.no_repeat_ngram,
                       "No run of so many tokens comes twice in a text; 0 is off"),
        "N");
}

} // namespace pumice::command
