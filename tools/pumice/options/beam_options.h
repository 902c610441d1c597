#pragma once

#include <CLI/CLI.hpp>

#include "task/writing.h"

namespace pumice::command {

// What the command calls the options that messages of the library name.
inline constexpr OptionNames option_names = {
    .source_language = "--from",
    .target_language = "--to",
    .task = "--task",
    .glossary = "--glossary",
    .prompt = "--prompt",
    .beams = "--beams",
    .n_best = "--n-best",
    .temperature = "--temp",
    .language = "--language",
    .detect_language = "--detect-language",
    .of_words =
        "--language, --task, --translate, --detect-language, --prompt, --words, --live, --attention and the "
        "form of the text (--choices and the like)",
    .of_windows =
        "--translate, --timestamps, --words, --prompt, --beams, --srt, --vtt, --live, --detect-language "
        "and --attention"};

void add_beam_options(CLI::App& app, BeamOptions& options);

} // namespace pumice::command
