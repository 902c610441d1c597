#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "help/help.h"
#include "options/option_text.h"
#include "options/option_values.h"

namespace pumice::command {

// The names of the options whose values are files: those that a subcommand reads, and those that it writes.
struct FileOptions {
  std::vector<std::string> reads, writes;
};

// A subcommand: its options, and the function that runs it once the options have been read and its files have
// been checked.
struct Subcommand {
  CLI::App* app = nullptr;
  std::function<Status()> run;
  FileOptions files = {};
  // What a process does that mpirun started beside process 0; empty: the command runs in one process only.
  std::function<Status()> serve = {};
  double* timeout = nullptr;          // of other processes
  const uint32_t* replicas = nullptr; // copies that divide the command's lines
};

// Each subcommand has a file of its own, with its name.
Subcommand add_run(CLI::App& app);
Subcommand add_chat(CLI::App& app);
Subcommand add_eval(CLI::App& app);
Subcommand add_generate(CLI::App& app);
Subcommand add_translate(CLI::App& app);
Subcommand add_transcribe(CLI::App& app);
Subcommand add_speak(CLI::App& app);
Subcommand add_caption(CLI::App& app);
Subcommand add_classify(CLI::App& app);
Subcommand add_answer(CLI::App& app);
Subcommand add_fill(CLI::App& app);
Subcommand add_embed(CLI::App& app);
Subcommand add_rerank(CLI::App& app);
Subcommand add_search(CLI::App& app);
Subcommand add_serve(CLI::App& app);
Subcommand add_tokenize(CLI::App& app);
Subcommand add_template(CLI::App& app);
Subcommand add_inspect(CLI::App& app);
Subcommand add_devices(CLI::App& app);
Subcommand add_doctor(CLI::App& app);
Subcommand add_tune(CLI::App& app);
Subcommand add_bench(CLI::App& app);
Subcommand add_perplexity(CLI::App& app);
Subcommand add_plan_split(CLI::App& app);
Subcommand add_convert(CLI::App& app);
// Both in help_command.cpp.
Subcommand add_help(CLI::App& app);
Subcommand add_completion(CLI::App& app);

} // namespace pumice::command
