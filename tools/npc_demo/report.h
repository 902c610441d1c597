#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "figures.h"

namespace npc {

// Collects the measurements of frames, writes them as CSV, and prints a summary.
class Report {
public:
  // With an empty path, no CSV is written.
  explicit Report(const std::filesystem::path& csv);

  void add(const Figures& figures);
  // Ends a run of frames. `same_text` says whether the texts were the same as without slices; empty if they
  // were not compared.
  void end_run(std::optional<bool> same_text);
  void print(const std::string& title) const;
  uint64_t tokens() const; // number of tokens in all runs

private:
  struct Row {
    std::string generation; // "on", "off", "loading"
    float budget_us = 0;
    std::vector<Figures> frames;
    std::optional<bool> same_text;
  };
  static std::string line(const Row& row);
  void print_control() const;
  static std::string control_line(const Row& row);

  std::ofstream csv_;
  std::vector<Figures> run_;
  std::vector<Row> rows_;
};

} // namespace npc
