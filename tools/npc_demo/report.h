#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "figures.h"

namespace npc {

// Keeps the figures of a run's frames, writes them as CSV, and sums them up for a person.
class Report {
public:
  // A path may be empty: then no CSV is written.
  explicit Report(const std::filesystem::path& csv);

  void add(const Figures& figures);
  // The frames since the last run ended. `same_text`: as without slices; nothing where that was not compared.
  void end_run(std::optional<bool> same_text);
  void print(const std::string& title) const;
  uint64_t tokens() const; // of all runs

private:
  struct Row {
    std::string generation; // "on", "off", "loading"
    float budget_us = 0;
    std::vector<Figures> frames;
    std::optional<bool> same_text;
  };
  static std::string line(const Row& row);

  std::ofstream csv_;
  std::vector<Figures> run_;
  std::vector<Row> rows_;
};

} // namespace npc
