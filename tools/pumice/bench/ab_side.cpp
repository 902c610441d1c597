#include "bench/ab_side.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "bench/bench_file.h"
#include "bench/machine.h"
#include "bench/statistics.h"
#include "process/this_process.h"

namespace pumice::command {

namespace {

namespace fs = std::filesystem;

constexpr const char* whole_command = "whole command";

// A folder, or a GGUF file; some file systems say of every file that it can be executed.
bool is_model(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "GGUF" || path.extension() == ".gguf";
}

// Whether the words set an option, such as "-r 3", "-r3", "--repetitions 3" or "--repetitions=3".
bool sets(const std::vector<std::string>& words, const std::string& name, const std::string& long_name) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word.starts_with(name) || word == long_name || word.starts_with(long_name + "=");
  });
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

void finish_benchmark(AbSide& side) {
  if (!sets(side.command, "-w", "--warm-up")) append(side.command, {"-w", "3"});
  append(side.command, {"-o", "json"});
  side.repetitions_given = sets(side.command, "-r", "--repetitions");
  if (!side.repetitions_given) append(side.command, {"-r", "3"});
}

// What disturbed a test, if its program says so.
std::optional<double> disturbance_of(const Json& result) {
  if (!result.contains("machine") || !result["machine"].is_object()) return std::nullopt;
  double sum = 0;
  for (const char* share : {"others", "stolen"}) {
    const Json value = result["machine"].value(share, Json());
    if (!value.is_number()) return std::nullopt;
    sum += value.get<double>();
  }
  return sum;
}

std::string last_lines(const std::string& text) {
  constexpr size_t most = 2000;
  std::string end = text.size() > most ? text.substr(text.size() - most) : text;
  while (end.ends_with('\n')) end.pop_back();
  return end;
}

} // namespace

Result<std::vector<std::string>> split_words(const std::string& line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (!quote && std::isspace(static_cast<unsigned char>(c))) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (!quote && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote) return Error{Code::invalid_argument, fmt::format("{}: a quote {} is not closed", line, quote)};
  return words;
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) ||
             std::string_view("-_./,=:+@%").find(c) != std::string::npos;
    });
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

Result<AbSide> read_ab_side(const std::string& text, const std::vector<std::string>& rest) {
  std::error_code error;
  // A path may have spaces.
  std::vector<std::string> words = {text};
  if (!fs::exists(path_of(text), error)) {
    PUMICE_TRY(words, split_words(text));
  }
  AbSide side;
  const std::string first = words.empty() ? "" : words[0];
  const bool options = words.empty() || first.starts_with('-');
  if (options || is_model(first)) {
    side.command = {this_program(), "bench"};
    if (options) append(side.command, rest); // the model is there
    append(side.command, words);
    if (!options) append(side.command, rest);
  } else if (!can_be_started(first)) {
    return Error{
        Code::not_found,
        fmt::format("'{}' is no model, no program and no option: A and B are each options in quotes, a "
                    "model, the path of another pumice, or a command in quotes",
                    first)};
  } else if (words.size() == 1) {
    side.command = {first, "bench"};
    append(side.command, rest);
  } else {
    side.command = words;
    side.benchmark = std::ranges::find(words, "bench") != words.end();
    if (side.benchmark) {
      append(side.command, rest);
    } else if (!rest.empty()) {
      return Error{
          Code::invalid_argument,
          fmt::format("'{}' after A and B: the command '{}' is timed as it is: put its options into the "
                      "quotes",
                      joined_words(rest), text)};
    }
  }
  if (side.benchmark) finish_benchmark(side);
  return side;
}

void set_repetitions(AbSide& side, uint32_t repetitions) {
  if (side.benchmark && !side.repetitions_given) side.command.back() = std::to_string(repetitions);
}

namespace {

Result<AbRun> read_run(const AbSide& side, const ProcessOutput& output, const MachineUse& use) {
  if (output.status != 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it ended with the status {}: {}", joined_words(side.command), output.status,
                             last_lines(output.err.empty() ? output.out : output.err))};
  }
  AbRun run;
  run.process_seconds = output.seconds;
  const double disturbance = use.others.value_or(0) + use.stolen.value_or(0);
  if (!side.benchmark) {
    run.tests = {whole_command};
    run.sample_seconds = output.seconds;
    run.figures[whole_command] = {{output.seconds}, disturbance};
    return run;
  }
  PUMICE_TRY(std::vector<BenchedProcess> processes, read_benched(output.out, side.command[0]));
  BenchedProcess& process = processes.back();
  for (const Json& result : process.json["results"]) {
    const auto timing = std::ranges::find(process.timings, result["test"].get<std::string>(), &Timing::test);
    if (timing == process.timings.end()) continue;
    run.tests.push_back(timing->test);
    run.figures[timing->test] = {timing->seconds, disturbance_of(result).value_or(disturbance)};
    run.sample_seconds += mean(timing->seconds);
  }
  run.json = std::move(process.json);
  return run;
}

// A process of a side that takes turns with another one.
struct Player {
  const AbSide& side;
  Process process;
  bool asks; // for its turn; otherwise it has ended

  static Result<Player> start(const AbSide& side) {
    PUMICE_TRY(Process process, Process::start(side.command, side.environment, true));
    const bool asks = process.asks_for_turn();
    return Player{side, std::move(process), asks};
  }
  void play() {
    process.give_turn();
    asks = process.asks_for_turn();
  }
  // The rest, alone. `machine` has watched since before its start.
  Result<AbRun> finish(const MachineWatch& machine) {
    PUMICE_TRY(const ProcessOutput output, process.finish());
    return read_run(side, output, machine.use());
  }
};

// After an error of a program that ran while the other one was in memory.
Error blame_memory(Error error) {
  error.reasons.push_back("A and B were in memory at the same time; --apart runs one after the other");
  return error;
}

Result<AbPair> run_in_turns(const AbSide& first_side, const AbSide& second_side, std::mt19937& random) {
  AbPair pair;
  const MachineWatch machine;
  PUMICE_TRY(Player first, Player::start(first_side));
  if (!first.asks) { // it knows no turns
    PUMICE_TRY(pair.a, first.finish(machine));
    PUMICE_TRY(pair.b, run_ab_side(second_side));
    return pair;
  }
  const MachineWatch second_machine;
  PUMICE_TRY(Player second, Player::start(second_side));
  if (!second.asks) {
    Result<AbRun> second_run = second.finish(second_machine);
    if (!second_run.ok()) return blame_memory(second_run.error());
    pair.b = *std::move(second_run);
    PUMICE_TRY(pair.a, first.finish(machine));
    return pair;
  }
  pair.alternated = true;
  while (first.asks && second.asks) {
    const bool swap = random() % 2;
    (swap ? second : first).play();
    (swap ? first : second).play();
  }
  PUMICE_TRY(const ProcessOutput first_output, first.process.finish());
  PUMICE_TRY(const ProcessOutput second_output, second.process.finish());
  PUMICE_TRY(pair.a, read_run(first_side, first_output, machine.use()));
  Result<AbRun> second_run = read_run(second_side, second_output, machine.use());
  if (!second_run.ok()) return blame_memory(second_run.error());
  pair.b = *std::move(second_run);
  return pair;
}

Result<AbPair> run_apart(const AbSide& first, const AbSide& second) {
  AbPair pair;
  PUMICE_TRY(pair.a, run_ab_side(first));
  PUMICE_TRY(pair.b, run_ab_side(second));
  return pair;
}

} // namespace

Result<AbRun> run_ab_side(const AbSide& side) {
  const MachineWatch machine;
  PUMICE_TRY(const ProcessOutput output, run_process(side.command, side.environment));
  return read_run(side, output, machine.use());
}

Result<AbPair> run_ab_pair(const AbSide& a, const AbSide& b, AbOrder order, std::mt19937& random) {
  const bool swap = random() % 2;
  const AbSide &first = swap ? b : a, &second = swap ? a : b;
  const bool turns = order == AbOrder::alternate && a.benchmark && b.benchmark;
  PUMICE_TRY(AbPair pair, turns ? run_in_turns(first, second, random) : run_apart(first, second));
  if (swap) std::swap(pair.a, pair.b);
  return pair;
}

} // namespace pumice::command
