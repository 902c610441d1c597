#include "tools/pumice/bench/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice::command;

namespace {

constexpr double margin = 0.02, error = 1 - confidence;

// A machine that runs processes one after another, with what disturbs them in reality.
struct Noise {
  double within = 0.05;    // of the samples of a process
  double between = 0.03;   // of a process, for as long as it runs
  double disturbed = 0.05; // share of processes that something makes up to twice as slow
  double burst = 0;        // by how much a neighbour slows everything down while it works
  double work = 1;         // mean seconds of its bursts; it rests one and a half times as long
  double drift = 0;        // change of the machine's speed over three minutes
};

class SimulatedMachine {
public:
  SimulatedMachine(unsigned seed, const Noise& noise) : random_(seed), noise_(noise) {}

  struct Process {
    std::vector<double> samples;
    double disturbed = 0; // as the system shows it: coarsely
  };

  // A process as `bench ab` runs it: it starts for 0.9 s and then takes nine samples of 0.1 s.
  Process process(double slowdown) {
    now_ += 0.9;
    double factor = slowdown * std::exp(normal_(random_) * noise_.between);
    if (chance_(random_) < noise_.disturbed) factor *= 1 + chance_(random_);
    Process result;
    double disturbed = 0, all = 0;
    for (int i = 0; i < 9; ++i) {
      double seconds =
          0.1 * factor * std::exp(normal_(random_) * noise_.within) * (1 + noise_.drift * now_ / 180);
      const bool works = noise_.burst > 0 && neighbour_works();
      if (works) seconds *= 1 + noise_.burst * (0.5 + chance_(random_));
      now_ += seconds;
      all += seconds;
      if (works) disturbed += seconds / 2; // one of two processors
      result.samples.push_back(seconds);
    }
    result.disturbed = std::clamp(disturbed / all + normal_(random_) * 0.02, 0.0, 1.0);
    return result;
  }
  bool draw() { return random_() % 2; }
  double now() const { return now_; }

private:
  bool neighbour_works() {
    while (now_ > change_) {
      working_ = !working_;
      const double seconds = noise_.work * (working_ ? 1 : 1.5);
      change_ += std::exponential_distribution<double>(1 / seconds)(random_);
    }
    return working_;
  }

  std::mt19937 random_;
  Noise noise_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> chance_{0, 1};
  double now_ = 0, change_ = 0;
  bool working_ = true;
};

struct Verdicts {
  int faster = 0, slower = 0, same = 0, unknown = 0;

  void add(SpeedVerdict verdict) {
    faster += verdict == SpeedVerdict::faster;
    slower += verdict == SpeedVerdict::slower;
    same += verdict == SpeedVerdict::same;
    unknown += verdict == SpeedVerdict::unknown;
  }
};

constexpr int runs = 300;

// What `bench ab` does within three minutes.
Verdicts by_rounds(const Noise& noise, double slowdown, double allowed = error) {
  Verdicts verdicts;
  for (unsigned seed = 0; seed < runs; ++seed) {
    SimulatedMachine machine(seed, noise);
    GrowingComparison comparison(allowed, margin);
    double done = 0;
    while (!comparison.decided() && done < 1) {
      SimulatedMachine::Process sides[2];
      const bool b_first = machine.draw();
      for (const bool b : {b_first, !b_first}) sides[b] = machine.process(b ? slowdown : 1);
      comparison.add(
          {mean(sides[0].samples), mean(sides[1].samples), sides[0].disturbed, sides[1].disturbed});
      done = machine.now() / 180;
      comparison.look(std::min(done, 1.0));
    }
    verdicts.add(comparison.result().verdict);
  }
  return verdicts;
}

const Noise machines[] = {
    {0.02, 0.01, 0, 0, 1, 0},         // quiet
    {0.05, 0.03, 0.05, 0, 1, 0},      // some disturbed processes
    {0.1, 0.05, 0.05, 0, 1, 0},       // much noise between processes
    {0.05, 0.03, 0.05, 0.5, 0.2, 0},  // a neighbour with short bursts
    {0.05, 0.03, 0.05, 0.8, 1, 0},    // with bursts as long as a process
    {0.05, 0.03, 0.05, 0.5, 5, 0},    // as long as a round
    {0.05, 0.03, 0.05, 0, 1, 0.5},    // a machine that becomes slower
    {0.05, 0.03, 0.05, 0.8, 20, 0.5}, // both
};

} // namespace

TEST_CASE("medians, quantiles and deviations") {
  const std::array values = {4.0, 1.0, 3.0, 2.0};
  CHECK(median(values) == 2.5);
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(quantile(values, 0.9) == doctest::Approx(3.7));
  CHECK(mean(values) == 2.5);
  CHECK(deviation(values) == doctest::Approx(std::sqrt(5.0 / 3)));
  CHECK(deviation(std::array{7.0}) == 0);
  CHECK(median(std::array{7.0}) == 7);
}

// The places are those of tables of the sign test at 5 %, two-sided.
TEST_CASE("the interval of a median is that of the sign test") {
  const auto places = [](size_t count) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) values[count - 1 - i] = static_cast<double>(i + 1);
    const auto interval = pumice::command::median_interval(values);
    return interval ? std::pair(interval->low, interval->high) : std::pair(0.0, 0.0);
  };
  CHECK(places(5) == std::pair(0.0, 0.0));
  CHECK(places(6) == std::pair(1.0, 6.0));
  CHECK(places(9) == std::pair(2.0, 8.0));
  CHECK(places(20) == std::pair(6.0, 15.0));
  CHECK(places(100) == std::pair(40.0, 61.0));
  CHECK(places(2000).first > 950);
}

TEST_CASE("a warm-up ends when its times are stable, whatever the first one was") {
  CHECK(!is_stable(std::array{9.0, 1.0}));
  CHECK(is_stable(std::array{9.0, 1.0, 1.0}));
  CHECK(!is_stable(std::array{9.0, 1.5, 1.0}));
  CHECK(!is_stable(std::array{9.0, 4.0, 3.0, 2.0, 1.0}));
  CHECK(is_stable(std::array{9.0, 4.0, 1.01, 1.0, 1.0, 1.01}));
  CHECK(is_stable(std::array{9.0, 1.0, 1.01, 2.0, 1.0})); // one disturbed time
}

TEST_CASE("samples that are far apart, or drift, are not stable") {
  CHECK(why_unstable(std::array{0.05, 0.051, 0.05, 0.052, 0.05}) == "");
  CHECK(why_unstable(std::array{0.05}) == "");
  CHECK(why_unstable(std::array{0.048, 0.147, 0.05, 0.09, 0.06}).find("spread over") != std::string::npos);
  CHECK(why_unstable(std::array{1.0, 1.0, 1.0, 1.08, 1.08, 1.08}).find("8 %") != std::string::npos);
  // One disturbed sample of many does not count.
  std::vector<double> many(30, 1.0);
  many[7] = 3;
  CHECK(why_unstable(many) == "");
}

TEST_CASE("the interval of rounds is that of Wilcoxon's test") {
  // With eight rounds, the extreme order has the probability 1 / 128, of both ends together.
  std::vector<Round> rounds, swapped, equal;
  for (const double seconds : {1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8}) {
    rounds.push_back({seconds, 1});
    swapped.push_back({1, seconds});
    equal.push_back({seconds, seconds});
  }
  const Comparison faster = compare_rounds(rounds, error, margin);
  REQUIRE(faster.interval);
  CHECK(faster.interval->low == doctest::Approx(1.1));
  CHECK(faster.interval->high == doctest::Approx(1.8));
  CHECK(faster.verdict == SpeedVerdict::faster);
  CHECK(compare_rounds(swapped, error, margin).verdict == SpeedVerdict::slower);
  CHECK(compare_rounds(equal, error, margin).verdict == SpeedVerdict::same);
  const Comparison few = compare_rounds(std::span(rounds).first(5), error, margin);
  CHECK(!few.interval);
  CHECK(few.verdict == SpeedVerdict::unknown);
  CHECK(few.more == 3);
  CHECK(compare_rounds({}, error, margin).more == 8);
}

TEST_CASE("three rounds can tell what no noise explains, and nothing less") {
  const auto verdict = [](std::initializer_list<double> b_seconds) {
    std::vector<Round> rounds;
    std::vector<double> a, b;
    for (double seconds : b_seconds) {
      rounds.push_back({1, seconds});
      a.push_back(1);
      b.push_back(seconds);
    }
    const Comparison comparison = compare_rounds(rounds, error, margin);
    CHECK_FALSE(comparison.interval);
    CHECK((comparison.more == 0) == (comparison.verdict != SpeedVerdict::unknown));
    CHECK(compare_processes(a, b, error, margin).verdict == comparison.verdict);
    return comparison.verdict;
  };
  CHECK(verdict({18, 17, 22}) == SpeedVerdict::slower);
  CHECK(verdict({0.05, 0.06, 0.055}) == SpeedVerdict::faster);
  CHECK(verdict({18, 17}) == SpeedVerdict::unknown);
  CHECK(verdict({1.9, 1.95, 1.92}) == SpeedVerdict::unknown);
  CHECK(verdict({18, 2.1, 22}) == SpeedVerdict::unknown); // they are far from each other
  CHECK(verdict({18, 0.05, 22}) == SpeedVerdict::unknown);
}

TEST_CASE("what a disturbance explains is taken out of a round, and nothing else") {
  std::vector<Round> rounds;
  for (int i = 0; i < 20; ++i) {
    const double a = i % 3 * 0.2, b = i % 4 * 0.15; // shares of the processors
    rounds.push_back({1.1 * std::exp(2 * a), std::exp(2 * b), a, b});
  }
  const Comparison comparison = compare_rounds(rounds, error, margin);
  CHECK(comparison.ratio == doctest::Approx(1.1).epsilon(0.01));
  CHECK(comparison.verdict == SpeedVerdict::faster);
  for (Round& round : rounds) round.a_disturbed = round.b_disturbed = 0.3; // explains nothing
  CHECK(compare_rounds(rounds, error, margin).verdict == SpeedVerdict::unknown);
}

TEST_CASE("samples that alternated are compared pair by pair") {
  // A machine that is at times three times slower, and B a tenth slower than A.
  const std::vector<double> a = {1, 3, 3, 1, 1, 3, 1}, b = {1.1, 3.3, 3.3, 1.1, 3.3, 1.1, 1.1};
  const Round round = alternated_round(a, b);
  CHECK(round.a_seconds == doctest::Approx(mean(a)));
  REQUIRE(round.quotient);
  CHECK(*round.quotient == doctest::Approx(1 / 1.1));
  CHECK(*alternated_round(b, a).quotient == doctest::Approx(1.1));
  const std::vector<Round> rounds(12, round);
  CHECK(compare_rounds(rounds, error, margin).verdict == SpeedVerdict::slower);
  CHECK(compare_rounds(rounds, error, margin).ratio == doctest::Approx(1 / 1.1));
}

TEST_CASE("fewer pairs are enough where processes differ by more than their samples") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const auto rounds_of = [&](double between, double within) {
    std::vector<Round> rounds;
    for (int i = 0; i < 8; ++i) {
      const double process = std::exp(normal(random) * between);
      std::vector<double> a, b;
      for (int pair = 0; pair < 9; ++pair) {
        a.push_back(process * std::exp(normal(random) * within));
        b.push_back(std::exp(normal(random) * within));
      }
      rounds.push_back(alternated_round(a, b));
    }
    return rounds;
  };
  const std::vector<Round> processes_differ = rounds_of(0.2, 0.01);
  CHECK(has_spare_pairs(processes_differ));
  CHECK(!has_spare_pairs(rounds_of(0, 0.2)));
  CHECK(!has_spare_pairs(std::span(processes_differ).first(5)));
  CHECK(!has_spare_pairs(std::vector<Round>(8, {1.1, 1, 0, 0})));
  std::vector<Round> swapped = processes_differ;
  for (size_t i = 0; i < swapped.size(); i += 2) swapped[i].quotient = 1 / *swapped[i].quotient;
  CHECK(has_spare_pairs(swapped));
}

TEST_CASE("the same program against itself: few false verdicts, whatever the machine does") {
  for (const Noise& noise : machines) {
    CAPTURE(noise.between);
    CAPTURE(noise.burst);
    CAPTURE(noise.work);
    CAPTURE(noise.drift);
    const Verdicts verdicts = by_rounds(noise, 1);
    CHECK(verdicts.faster + verdicts.slower <= runs * 0.02);
  }
  // With more error there are more, so that the check above can fail.
  const Verdicts careless = by_rounds(machines[7], 1, 0.3);
  CHECK(careless.faster + careless.slower > runs * 0.1);
}

TEST_CASE("a tenth slower or faster is found within three minutes") {
  for (const Noise& noise : machines) {
    CAPTURE(noise.between);
    CAPTURE(noise.burst);
    CAPTURE(noise.work);
    CAPTURE(noise.drift);
    const Verdicts slower = by_rounds(noise, 1.1), faster = by_rounds(noise, 1 / 1.1);
    CHECK(slower.slower >= runs * 0.95);
    CHECK(slower.same + slower.faster == 0);
    CHECK(faster.faster >= runs * 0.95);
    CHECK(faster.same + faster.slower == 0);
  }
}

TEST_CASE("the same is only said when the interval is within the margin, and then rightly") {
  const Verdicts equal = by_rounds(machines[0], 1);
  CHECK(equal.same >= runs * 0.9);
  const Verdicts different = by_rounds(machines[0], 1.025);
  CHECK(different.same <= runs * 0.01);
  CHECK(different.slower >= runs * 0.9);
}

TEST_CASE("what it needs to tell is about right") {
  const Noise noise{0.05, 0.06, 0, 0, 1, 0};
  for (unsigned seed = 0; seed < 20; ++seed) {
    SimulatedMachine machine(seed, noise);
    std::vector<Round> all;
    const auto rounds = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) {
        all.push_back({mean(machine.process(1).samples), mean(machine.process(1.04).samples)});
      }
    };
    rounds(14);
    Comparison comparison = compare_rounds(all, error, margin);
    if (comparison.verdict != SpeedVerdict::unknown) continue;
    CHECK(comparison.more < 2000);
    rounds(2 * comparison.more + 100);
    CHECK(compare_rounds(all, error, margin).verdict == SpeedVerdict::slower);
  }
}

TEST_CASE("processes of two files: as for rounds, unless the machine itself drifts") {
  const std::array a = {10.0, 11.0, 10.5, 10.2, 10.7}, b = {5.0, 5.1, 5.2, 5.0, 5.1};
  const Comparison ratio = compare_processes(a, b, error, margin);
  REQUIRE(ratio.interval); // of 252 orders only the most extreme one at each end is outside 99 %
  CHECK(ratio.interval->low == doctest::Approx(10.0 / 5.2));
  CHECK(ratio.interval->high == doctest::Approx(11.0 / 5.0));
  CHECK(ratio.verdict == SpeedVerdict::faster);
  CHECK(compare_processes(b, a, error, margin).verdict == SpeedVerdict::slower);
  const std::array steady = {1.0, 1.01, 1.0, 1.02, 1.0, 1.01}, drifting = {1.04, 1.05, 1.1, 1.2, 1.25, 1.3};
  CHECK(drift(steady) < 0.02);
  CHECK(drift(drifting) == doctest::Approx(1.25 / 1.05 - 1));
  const Comparison hidden = compare_processes(steady, drifting, error, margin);
  CHECK(hidden.interval->high < 1);
  CHECK(hidden.verdict == SpeedVerdict::unknown);
  const Comparison one = compare_processes(std::span(a).first(1), std::span(b).first(1), error, margin);
  CHECK(!one.interval);
  CHECK(one.verdict == SpeedVerdict::unknown);
  CHECK(one.more == 4);

  Verdicts verdicts;
  for (unsigned seed = 0; seed < runs; ++seed) {
    SimulatedMachine machine(seed, {0.05, 0.05, 0.05, 0, 1, 0});
    std::vector<double> before, after;
    for (int i = 0; i < 10; ++i) before.push_back(quiet_time(machine.process(1).samples));
    for (int i = 0; i < 10; ++i) after.push_back(quiet_time(machine.process(1).samples));
    verdicts.add(compare_processes(before, after, error, margin).verdict);
  }
  CHECK(verdicts.faster + verdicts.slower <= runs * 0.02);
}
