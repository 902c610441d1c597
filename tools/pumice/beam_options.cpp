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
                       "Number of beams: candidate texts that are continued side by side; 1 is greedy search "
                       "(default: from the model's settings, else 1)"),
        "N")
      ->check(CLI::Range(1u, 1024u).description(""));
  group(app.add_option("--length-penalty", options.length_penalty,
                       "The score of a text is divided by its length to the power P; above 0 favours long "
                       "texts (default: from the model's settings)"),
        "P")
      ->check(CLI::Range(-100.0f, 100.0f).description(""));
  static const std::map<std::string, EarlyStopping> stopping = {
      {"no", EarlyStopping::no}, {"yes", EarlyStopping::yes}, {"never", EarlyStopping::never}};
  group(app.add_option_function<std::string>(
            "--early-stopping",
            [&options](const std::string& name) { options.early_stopping = stopping.at(name); },
            "When to end the search: 'yes' as soon as there are as many complete texts as beams; 'no' when a "
            "better text is unlikely; 'never' when a better text is impossible (default: from the model's "
            "settings)"),
        "WHEN")
      ->check(CLI::IsMember(stopping).description(""));
  group(app.add_option("--n-best", options.hypotheses,
                       "Number of texts to print for each input, best first; at most as many as beams"),
        "N")
      ->check(CLI::Range(1u, 1024u).description(""))
      ->capture_default_str();
  group(app.add_option("--no-repeat-ngram", options.no_repeat_ngram,
                       "No sequence of N tokens occurs twice in a text; 0 switches this off (default: from "
                       "the model's settings)"),
        "N");
}

} // namespace pumice::command
