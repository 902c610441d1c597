#include "bench/compare.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "bench/bench_file.h"
#include "bench/compared_tests.h"
#include "input/input_stream.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

struct BenchFile {
  std::string path;
  std::vector<BenchedProcess> processes;
};

Result<BenchFile> read_bench(const std::string& path) {
  PUMICE_TRY(const std::string text, read_text(path));
  PUMICE_TRY(std::vector<BenchedProcess> processes, read_benched(text, path));
  return BenchFile{path, std::move(processes)};
}

// The field at a path: "model.hash" is the field "hash" of the object "model". Null if there is none.
Json field(const Json& json, const std::string& path) {
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (!json.is_object() || !json.contains(key)) return nullptr;
  return dot == std::string::npos ? json[key] : field(json[key], path.substr(dot + 1));
}

// The fields in which a process differs from the first one of A.
std::vector<std::string> differences(const BenchFile& a, const BenchFile& b,
                                     const std::vector<std::string>& fields) {
  std::vector<std::string> found;
  for (const std::string& name : fields) {
    const Json one = field(a.processes[0].json, name);
    for (const BenchFile* file : {&a, &b}) {
      const auto differs = [&](const BenchedProcess& each) { return field(each.json, name) != one; };
      const auto other = std::ranges::find_if(file->processes, differs);
      if (other == file->processes.end()) continue;
      found.push_back(fmt::format("{}: {} and {}", name, one.dump(), field(other->json, name).dump()));
      break;
    }
  }
  return found;
}

Status check_same(const BenchFile& a, const BenchFile& b, bool force) {
  for (const std::string& each : differences(a, b, {"driver", "driver_version", "version"})) {
    print_note("the files differ in " + each);
  }
  const std::vector<std::string> found =
      differences(a, b, {"device", "model.hash", "model.weights", "model.kv"});
  if (force) {
    for (const std::string& each : found) print_note("the files differ in " + each);
    return {};
  }
  if (found.empty()) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} and {} were not measured with the same model on the same device; --force "
                           "compares them anyway",
                           a.path, b.path),
               found};
}

// The figure of each process that has the test.
std::vector<double> quiet_times(const BenchFile& file, const std::string& test) {
  std::vector<double> seconds;
  for (const BenchedProcess& process : file.processes) {
    const auto timing = std::ranges::find(process.timings, test, &Timing::test);
    if (timing != process.timings.end()) seconds.push_back(quiet_time(timing->seconds));
  }
  return seconds;
}

std::vector<ComparedTest> compare(const BenchFile& a, const BenchFile& b, double margin) {
  std::vector<std::string> common;
  for (const Timing& each : a.processes[0].timings) {
    if (!quiet_times(b, each.test).empty()) common.push_back(each.test);
  }
  // The confidence holds for all tests together.
  const double error = (1 - confidence) / static_cast<double>(std::max<size_t>(common.size(), 1));
  std::vector<ComparedTest> tests;
  for (const std::string& test : common) {
    const std::vector<double> a_seconds = quiet_times(a, test), b_seconds = quiet_times(b, test);
    tests.push_back(
        {test, median(a_seconds), median(b_seconds), compare_processes(a_seconds, b_seconds, error, margin)});
  }
  return tests;
}

// When the first and the last process of a file began, in ISO 8601. Empty without dates.
std::pair<std::string, std::string> dates(const BenchFile& file) {
  std::vector<std::string> all;
  for (const BenchedProcess& process : file.processes) {
    const Json date = field(process.json, "date");
    all.push_back(date.is_string() ? date.get<std::string>() : "");
  }
  return {std::ranges::min(all), std::ranges::max(all)};
}

// Whether processes of one ran between processes of the other.
bool in_turn(const BenchFile& a, const BenchFile& b) {
  const auto [a_first, a_last] = dates(a);
  const auto [b_first, b_last] = dates(b);
  return a_first <= b_last && b_first <= a_last;
}

std::string notes_of(const BenchFile& a, const BenchFile& b, const std::vector<ComparedTest>& tests,
                     double margin) {
  const auto processes = [](const BenchFile& file) {
    return fmt::format("{} process{}", file.processes.size(), file.processes.size() == 1 ? "" : "es");
  };
  std::string text =
      fmt::format("speed: the speed of B divided by the speed of A, from {} of A and {} of B; the "
                  "same: within {:g} %\n",
                  processes(a), processes(b), margin);
  if (std::min(a.processes.size(), b.processes.size()) == 1) {
    text +=
        "A file with one process does not show how much processes differ: the same program can be faster or "
        "slower when it is started again. 'pumice bench ab' measures that; or append the output of several "
        "runs to each file.\n";
  } else if (!in_turn(a, b)) {
    text += "A and B were measured one after the other: what changed on the machine in between looks like a "
            "difference. 'pumice bench ab' runs them in turn.\n";
  }
  const auto unknown = [](const ComparedTest& each) {
    return each.comparison.verdict == SpeedVerdict::unknown;
  };
  for (const ComparedTest& each : tests) {
    if (!unknown(each)) continue;
    text += fmt::format("{}: needs about {} more process{} of each\n", each.test, each.comparison.more,
                        each.comparison.more == 1 ? "" : "es");
  }
  for (const Timing& each : a.processes[0].timings) {
    const auto unstable = [&](const BenchedProcess& process) {
      const auto timing = std::ranges::find(process.timings, each.test, &Timing::test);
      return timing != process.timings.end() && !timing->stable;
    };
    const auto count =
        std::ranges::count_if(a.processes, unstable) + std::ranges::count_if(b.processes, unstable);
    if (count > 0) text += fmt::format("{}: not stable in {} of the processes\n", each.test, count);
  }
  return text;
}

} // namespace

Status compare_benches(const CompareOptions& options) {
  PUMICE_TRY(const BenchFile a, read_bench(options.a));
  PUMICE_TRY(const BenchFile b, read_bench(options.b));
  PUMICE_CHECK(check_same(a, b, options.force));
  const std::vector<ComparedTest> tests = compare(a, b, options.margin / 100);
  if (tests.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("{} and {} have no test in common", options.a, options.b)};
  }
  if (options.fail_if_slower) fail_if_slower(tests);
  if (!options.json) {
    print_result(comparison_table(tests) + fitted(notes_of(a, b, tests, options.margin), stdout_columns()));
    return {};
  }
  Json json = {{"a", options.a},
               {"b", options.b},
               {"a_processes", a.processes.size()},
               {"b_processes", b.processes.size()},
               {"in_turn", in_turn(a, b)},
               {"confidence", confidence},
               {"margin", options.margin / 100},
               {"results", Json::array()}};
  for (const ComparedTest& test : tests) json["results"].push_back(to_json(test, "more_processes"));
  print_json(json, 2);
  return {};
}

} // namespace pumice::command
