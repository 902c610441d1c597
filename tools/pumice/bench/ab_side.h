#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/process.h"
#include "output/json_output.h"

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
    std::vector<double> samples; // seconds
    double disturbed = 0;        // the share of all processors that something else had meanwhile
  };
  std::map<std::string, Figure> figures; // of each test
  std::vector<std::string> tests;        // in their order
  Json json;                             // what a benchmark printed, else null
  double process_seconds = 0;            // from its start to its end
  double sample_seconds = 0;             // of one sample of every test
};

// `given` is options of `pumice bench`; a model, with or without options; the path of another pumice; or a
// command line. `rest` is the words after A and B, which benchmarks of both sides get.
Result<AbSide> read_ab_side(const std::string& text, const std::vector<std::string>& rest);

// The number of samples of each test in a process of a benchmark, unless it was given.
void set_repetitions(AbSide& side, uint32_t repetitions);

// Runs one process of a side to its end.
Result<AbRun> run_ab_side(const AbSide& side);

// A process of each side.
struct AbPair {
  AbRun a, b;
  bool alternated = false; // a sample of one came right after the same sample of the other
};

// How two processes share the machine.
enum class AbOrder {
  alternate, // both are there at the same time, and take turns at each sample
  apart,     // one ends before the other starts
};

// Runs a process of each, in an order that is drawn by lot. Commands that are timed as a whole, and programs
// that know no turns, are run apart anyway.
Result<AbPair> run_ab_pair(const AbSide& a, const AbSide& b, AbOrder order, std::mt19937& random);

// The words of a command line: separated by spaces, except in quotes or after a backslash, as in a shell.
Result<std::vector<std::string>> split_words(const std::string& line);
// The other way round.
std::string joined_words(const std::vector<std::string>& words);

} // namespace pumice::command
