#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/pumice/bench/process.h"
#include "tools/pumice/json_output.h"

// One side of `pumice bench ab`: what is started for it, and what that measures.
namespace pumice::command {

struct AbSide {
  std::vector<std::string> command; // a program and its arguments
  bool benchmark = true; // prints what `pumice bench -o json` prints; otherwise it is timed as a whole
  bool repetitions_given = false; // by -r; otherwise the last word of a benchmark's command is their number
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// What one process measured.
struct AbRun {
  struct Figure {
    double seconds = 0;   // mean of the samples
    double disturbed = 0; // the share of all processors that something else had meanwhile
  };
  std::map<std::string, Figure> figures; // of each test
  std::vector<std::string> tests;        // in their order
  Json json;                             // what a benchmark printed, else null
  double process_seconds = 0;            // from its start to its end
  double sample_seconds = 0;             // of one sample of every test
};

// `given` is options of `pumice bench`; a model, with or without options; the path of another pumice; or a
// command line. `rest` is the words after A and B, which benchmarks of both sides get.
Result<AbSide> read_ab_side(const std::string& given, const std::vector<std::string>& rest);

// The number of samples of each test in a process of a benchmark, unless it was given.
void set_repetitions(AbSide& side, uint32_t repetitions);

// Runs one process of a side to its end.
Result<AbRun> run_ab_side(const AbSide& side);

// The words of a command line: separated by spaces, except in quotes or after a backslash, as in a shell.
Result<std::vector<std::string>> split_words(const std::string& line);
// The other way round.
std::string joined_words(const std::vector<std::string>& words);

} // namespace pumice::command
