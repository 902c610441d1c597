#pragma once

#include "options/beam_options.h"
#include "options/options.h"
#include "output/json_output.h"
#include "task/writing.h"

// Shared by the subcommands that generate a text for each input with an encoder-decoder: translate, caption.
namespace pumice::command {

struct WriterOptions {
  WritingOptions writing;
  bool json = false;
  SamplingOptions sampling;
  LoadOptions load;
  DeviceOptions device;

  WritingOptions resolved() const; // with what --temp and --json ask for
};
void add_writing_options(CLI::App& app, WriterOptions& options);

// One line for each text. If several texts were asked for, each line begins with `owner`, which says whose
// text it is, if it is not empty, and the score. Links of words follow " ||| ", as other translators have it.
std::string lines_of(std::span<const WrittenText> written, const GenerationOptions& options,
                     const std::string& owner = "");
// Adds the best text as "text", "tokens" and "score". If several texts were asked for,
// adds all of them as "hypotheses".
void add_written(Json& json, std::span<const WrittenText> written, const GenerationOptions& options);

// The numbers of the last line on standard error.
struct WritingFigures {
  uint64_t inputs = 0, tokens = 0;
  double seconds = 0; // time of generating

  void print(const OpenedDevice& device) const;
};

} // namespace pumice::command
