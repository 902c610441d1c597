#include "bench/ab.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "bench/ab_side.h"
#include "bench/compared_tests.h"
#include "bench/machine.h"
#include "loading/open_device.h"
#include "process/temporary_folder.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

// Folders for what two builds of Pumice keep of the device. Each would discard what the other one wrote to
// the same folder, and compile and measure again in every process.
class SeparateCaches {
public:
  Status give_to(AbSide& a, AbSide& b) {
    PUMICE_TRY(folder_, TemporaryFolder::create());
    give(a, "a");
    give(b, "b");
    return {};
  }

private:
  // With what the device's folder has already, so that both begin with the same choices of kernels.
  void give(AbSide& side, const char* name) {
    const std::filesystem::path folder = folder_.path() / name;
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    if (const auto known = default_cache_folder(); !known.empty()) {
      std::filesystem::copy(known, folder / "pumice", std::filesystem::copy_options::recursive, ignored);
    }
    side.environment.emplace_back("XDG_CACHE_HOME", path_text(folder));
  }

  TemporaryFolder folder_;
};

// The tests that both sides have, and what their rounds say.
struct AbTest {
  std::string name;
  GrowingComparison comparison;
};

class AbMeasurement {
public:
  AbMeasurement(const AbOptions& options, AbSide& a, AbSide& b)
      : options_(options), sides_{&a, &b},
        limit_(options.rounds && !options.seconds_given ? std::numeric_limits<double>::infinity()
                                                        : options.seconds) {}

  // Two processes of each that do not count: one fills the caches, the other shows the tests and how long
  // they take.
  Status prepare() {
    const bool repetitions_given = sides_[0]->repetitions_given && sides_[1]->repetitions_given;
    for (int run = 0; run < (repetitions_given ? 1 : 2); ++run) {
      for (int side : {0, 1}) {
        PUMICE_TRY(first_[side], run_ab_side(*sides_[side]));
      }
    }
    if (!repetitions_given) choose_repetitions();
    std::vector<std::string> common;
    for (const std::string& test : first_[0].tests) {
      if (first_[1].figures.contains(test)) common.push_back(test);
    }
    if (common.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("A and B have no test in common: A measures {}, and B {}", names(first_[0]),
                               names(first_[1]))};
    }
    // The confidence holds for all tests together.
    const double error = (1 - confidence) / static_cast<double>(common.size());
    for (const std::string& name : common) {
      tests_.push_back({name, GrowingComparison(error, options_.margin / 100)});
    }
    return {};
  }

  // Returns an error only if a process fails, and has the rounds before. Ctrl-C ends the rounds.
  Status run() {
    ProgressBar bar("comparing");
    Status status;
    rounds_begin_ = watch_.seconds();
    while (!decided() && part_done() < 1) {
      if (!bar.update(static_cast<uint64_t>(part_done() * 100), 100)) break;
      status = round();
      if (!status.ok()) break;
      spend_less_on_samples();
      for (AbTest& test : tests_) test.comparison.look(part_done());
    }
    for (AbTest& test : tests_) test.comparison.look(1);
    use_ = machine_.use();
    seconds_ = watch_.seconds();
    return interrupted() ? Status() : status;
  }

  std::vector<ComparedTest> results() const {
    std::vector<ComparedTest> all;
    for (const AbTest& test : tests_) {
      std::vector<double> a_seconds, b_seconds;
      for (const Round& round : test.comparison.rounds()) {
        a_seconds.push_back(round.a_seconds);
        b_seconds.push_back(round.b_seconds);
      }
      if (a_seconds.empty()) continue;
      all.push_back({test.name, median(a_seconds), median(b_seconds), test.comparison.result()});
    }
    return all;
  }

  std::string text() const {
    std::string text = fmt::format(
        "A: {}\nB: {}\nspeed: the speed of B divided by the speed of A, from {} round{} of a process "
        "of each in random order, {:.0f} s; the same: within {:g} %\n",
        joined_words(sides_[0]->command), joined_words(sides_[1]->command), alternated_.size(),
        alternated_.size() == 1 ? "" : "s", seconds_, options_.margin);
    for (const ComparedTest& each : results()) {
      const Comparison& comparison = each.comparison;
      if (comparison.verdict != SpeedVerdict::unknown) continue;
      text += fmt::format("{}: cannot tell; it needs about {} more round{} ({})\n", each.test,
                          comparison.more, comparison.more == 1 ? "" : "s",
                          time_text(static_cast<double>(comparison.more) * round_seconds()));
    }
    if (const std::string words = in_words(use_); !words.empty()) {
      text += fmt::format("the machine was {}: {}\n", busy_or_quiet(use_), words);
    }
    return comparison_table(results()) + fitted(text, stdout_columns());
  }

  Json json() const {
    const auto optional = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json(nullptr);
    };
    Json json = {{"a", sides_[0]->command},
                 {"b", sides_[1]->command},
                 {"confidence", confidence},
                 {"margin", options_.margin / 100},
                 {"seconds", seconds_},
                 {"machine",
                  {{"busy", is_busy(use_)},
                   {"others", optional(use_.others)},
                   {"stolen", optional(use_.stolen)},
                   {"load", optional(use_.load)}}}};
    for (const char* field : {"device", "driver", "driver_version"}) {
      if (first_[0].json.is_object() && first_[0].json.contains(field)) json[field] = first_[0].json[field];
    }
    json["results"] = Json::array();
    for (const ComparedTest& test : results()) json["results"].push_back(to_json(test, "more_rounds"));
    json["rounds"] = Json::array();
    for (size_t i = 0; i < alternated_.size(); ++i) {
      Json round = {{"alternated", bool(alternated_[i])}};
      for (const AbTest& test : tests_) {
        const Round& figures = test.comparison.rounds()[i];
        round["a_seconds"][test.name] = figures.a_seconds;
        round["b_seconds"][test.name] = figures.b_seconds;
        if (alternated_[i]) {
          round["quotient"][test.name] = optional(figures.quotient);
        } else {
          round["a_disturbed"][test.name] = figures.a_disturbed;
          round["b_disturbed"][test.name] = figures.b_disturbed;
        }
      }
      json["rounds"].push_back(std::move(round));
    }
    return json;
  }

private:
  static std::string names(const AbRun& run) {
    std::string all;
    for (const std::string& test : run.tests) all += (all.empty() ? "" : ", ") + test;
    return all.empty() ? "nothing" : all;
  }

  static std::string time_text(double seconds) {
    if (seconds < 120) return fmt::format("{:.0f} s", seconds);
    if (seconds < 7200) return fmt::format("{:.0f} minutes", seconds / 60);
    return fmt::format("{:.0f} hours", seconds / 3600);
  }

  // So many samples that they take as long as the rest of a process: fewer would waste the time of starting
  // it, more would leave fewer rounds.
  void choose_repetitions() {
    constexpr double least = 9, most = 99, least_rounds = 20;
    double rest = 0, sample = 0; // of a round
    for (const AbRun& run : first_) {
      rest += std::max(0.0, run.process_seconds - 3 * run.sample_seconds);
      sample += run.sample_seconds;
    }
    const double room = std::isinf(limit_) ? most : (limit_ / least_rounds - rest) / sample;
    const double count = std::clamp(std::min(rest / sample, room), least, most);
    set_repetitions(static_cast<uint32_t>(count));
  }

  // Where processes differ by more than their samples do, more processes say more than more samples. On a CPU
  // driver, for example, a process keeps for seconds the processors that its threads were first put on.
  void spend_less_on_samples() {
    constexpr uint32_t least = 3;
    constexpr size_t rounds_between = 6; // two changes
    if (repetitions_ <= least || alternated_.size() < changed_ + rounds_between) return;
    for (const AbTest& test : tests_) {
      if (!has_spare_pairs(test.comparison.rounds().subspan(changed_))) return;
    }
    set_repetitions(std::max(least, repetitions_ / 2));
  }

  void set_repetitions(uint32_t count) {
    repetitions_ = count;
    changed_ = alternated_.size();
    for (AbSide* side : sides_) command::set_repetitions(*side, count);
  }

  Status round() {
    PUMICE_TRY(AbPair pair, run_ab_pair(*sides_[0], *sides_[1], options_.order, random_));
    for (AbTest& test : tests_) {
      if (!pair.a.figures.contains(test.name) || !pair.b.figures.contains(test.name)) {
        return Error{Code::internal, fmt::format("{}: a process did not measure it", test.name)};
      }
      const AbRun::Figure &a = pair.a.figures[test.name], &b = pair.b.figures[test.name];
      test.comparison.add(pair.alternated
                              ? alternated_round(a.samples, b.samples)
                              : Round{mean(a.samples), mean(b.samples), a.disturbed, b.disturbed, {}});
    }
    alternated_.push_back(pair.alternated);
    return {};
  }

  bool decided() const {
    return std::ranges::all_of(tests_, [](const AbTest& test) { return test.comparison.decided(); });
  }

  double round_seconds() const {
    const auto count = static_cast<double>(std::max<size_t>(alternated_.size(), 1));
    return (watch_.seconds() - rounds_begin_) / count;
  }

  // The share of the time or of the rounds that is over. A round that would end too late counts as done.
  double part_done() const {
    const double of_rounds = options_.rounds ? static_cast<double>(alternated_.size()) / options_.rounds : 0;
    const double next = alternated_.empty() ? 0 : round_seconds();
    return std::max(of_rounds, (watch_.seconds() + next) / limit_);
  }

  const AbOptions& options_;
  AbSide* sides_[2];
  double limit_; // seconds
  AbRun first_[2];
  std::vector<AbTest> tests_;
  std::vector<bool> alternated_; // of each round
  uint32_t repetitions_ = 0;     // of each test in a process, unless the commands say it
  size_t changed_ = 0;           // the round from which they are so many
  std::mt19937 random_{std::random_device()()};
  Stopwatch watch_;
  double rounds_begin_ = 0, seconds_ = 0;
  MachineWatch machine_;
  MachineUse use_;
};

} // namespace

Status compare_sides(const AbOptions& options) {
  if (options.words.size() < 2) {
    return Error{
        Code::invalid_argument,
        "expected A and B, then what both get: 'pumice bench ab \"--kv f16\" \"--kv q8_0\" model.gguf'"};
  }
  const std::vector<std::string> rest(options.words.begin() + 2, options.words.end());
  PUMICE_TRY(AbSide a, read_ab_side(options.words[0], rest));
  PUMICE_TRY(AbSide b, read_ab_side(options.words[1], rest));
  SeparateCaches caches;
  if (a.benchmark && b.benchmark && a.command[0] != b.command[0]) PUMICE_CHECK(caches.give_to(a, b));
  AbMeasurement measurement(options, a, b);
  PUMICE_CHECK(measurement.prepare());
  const Status ran = measurement.run();
  if (!ran.ok() && measurement.results().empty()) return ran;
  if (options.fail_if_slower) fail_if_slower(measurement.results());
  if (options.json) {
    print_json(measurement.json(), 2);
  } else {
    print_result(measurement.text());
  }
  return interrupted() ? Status(interruption()) : ran;
}

} // namespace pumice::command
