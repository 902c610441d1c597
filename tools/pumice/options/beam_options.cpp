#include "options/beam_options.h"

#include <map>

#include "options/option_text.h"
#include "options/option_values.h"

namespace pumice::command {

void add_beam_options(CLI::App& app, BeamOptions& options) {
  const auto group = [](CLI::Option* option, const char* type) {
    return option->type_name(type)->group("Beam search");
  };
  const auto more = [](CLI::Option* option, const char* type) {
    return option->type_name(type)->group(more_of("Beam search"));
  };
  group(app.add_option("--beams", options.beams,
                       "Continue N texts, take the best (default: the model's). If the model's settings say "
                       "nothing, it is 1, which is greedy search"),
        "N")
      ->check(within(1u, 1024u));
  more(app.add_option("--length-penalty", options.length_penalty,
                      "The score of a text is divided by its length to the power P; above 0 favours long "
                      "texts (default: from the model's settings)"),
       "P")
      ->check(within(-100.0f, 100.0f));
  static const std::map<std::string, EarlyStopping> stopping = {
      {"no", EarlyStopping::no}, {"yes", EarlyStopping::yes}, {"never", EarlyStopping::never}};
  more(app.add_option_function<std::string>(
           "--early-stopping",
           [&options](const std::string& name) { options.early_stopping = stopping.at(name); },
           "When to end the search: yes, no or never (default: from the model's settings). 'yes' ends it as "
           "soon as there are as many complete texts as beams, 'no' when a better text is unlikely, 'never' "
           "when a better text is impossible"),
       "WHEN")
      ->transform(one_of({"no", "yes", "never"}));
  group(app.add_option("--n-best", options.hypotheses,
                       "Number of texts to print for each input. They come best first, and are at most as "
                       "many as --beams. Each line begins with the score, and with several inputs the "
                       "input's number comes before it"),
        "N")
      ->check(within(1u, 1024u))
      ->capture_default_str();
  more(app.add_option("--no-repeat-ngram", options.no_repeat_ngram,
                      "No sequence of N tokens occurs twice in a text; 0 switches this off (default: from "
                      "the model's settings)"),
       "N")
      ->check(within(0u, 1u << 20));
}

} // namespace pumice::command
