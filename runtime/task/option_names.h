#pragma once

namespace pumice {

// What a program calls the options that messages name. These are the names of the C interface; the command
// has its own.
struct OptionNames {
  const char* source_language = "options.source_language";
  const char* target_language = "options.target_language";
  const char* task = "options.task";
  const char* glossary = "options.glossary";
  const char* prompt = "options.prompt";
  const char* beams = "options.writing->beams";
  const char* n_best = "options.writing->n_best";
  const char* temperature = "options.writing->sampling->temperature";
  const char* language = "options.language";
  const char* detect_language = "pumice_transcriber_detect";
  // What a model that hears letters has no use for.
  const char* of_words =
      "options.language, options.translate, options.prompt, options.words and options.form";
  // What a model has no use for that hears a whole sound in its prompt.
  const char* of_windows =
      "options.translate, options.timestamps, options.words, options.prompt and options.beams";
};

} // namespace pumice
