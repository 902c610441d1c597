#include "tools/pumice/bench/compare.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "tools/pumice/bench/statistics.h"
#include "tools/pumice/json_output.h"
#include "tools/pumice/terminal.h"

namespace pumice::command {

namespace {

// The samples of one test.
struct Timing {
  std::string name;
  std::vector<double> seconds;
  bool stable = true;
};

struct BenchFile {
  std::string path;
  Json json;
  std::vector<Timing> timings;
};

Error bad_file(const std::string& path, const std::string& what) {
  return Error{Code::invalid_file,
               fmt::format("{}: {}: expected what 'pumice bench -o json' writes", path, what)};
}

Result<double> read_seconds(const BenchFile& file, const std::string& test, const Json& object,
                            const char* key) {
  if (object.is_object() && object.contains(key) && object[key].is_number() && object[key] > 0) {
    return object[key].get<double>();
  }
  return bad_file(file.path, fmt::format("a sample of '{}' has no field '{}' above 0", test, key));
}

Status add_timings(BenchFile& file, const Json& result) {
  if (!result.is_object() || !result.contains("test") || !result["test"].is_string() ||
      !result.contains("samples") || !result["samples"].is_array()) {
    return bad_file(file.path, "one of its 'results' has no 'test' or no 'samples'");
  }
  Timing run{result["test"], {}, result.value("stable", Json()) != Json(false)};
  // A prompt's first token comes from the same runs: its row would be the prompt's row again.
  const bool prompt = result.value("kind", Json()) == Json("prompt");
  Timing first{run.name + ", first token", {}, run.stable};
  for (const Json& sample : result["samples"]) {
    PUMICE_TRY(double seconds, read_seconds(file, run.name, sample, "seconds"));
    run.seconds.push_back(seconds);
    if (prompt || !sample.contains("first_token_seconds")) continue;
    PUMICE_TRY(seconds, read_seconds(file, run.name, sample, "first_token_seconds"));
    first.seconds.push_back(seconds);
  }
  file.timings.push_back(std::move(run));
  if (!first.seconds.empty()) file.timings.push_back(std::move(first));
  return {};
}

Result<BenchFile> read_bench(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{Code::io, fmt::format("{}: it cannot be read", path)};
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  BenchFile file{path, Json::parse(text, nullptr, false), {}};
  if (!file.json.is_object()) return bad_file(path, "it is not a JSON object");
  if (!file.json.contains("results") || !file.json["results"].is_array()) {
    return bad_file(path, "it has no list 'results'");
  }
  for (const Json& result : file.json["results"]) PUMICE_CHECK(add_timings(file, result));
  if (file.json.contains("cold_start")) {
    PUMICE_TRY(double seconds, read_seconds(file, "cold start", file.json["cold_start"], "first_seconds"));
    file.timings.push_back({"cold start", {seconds}});
  }
  return file;
}

// The field at a path: "model.hash" is the field "hash" of the object "model". Null if there is none.
Json field(const Json& json, const std::string& path) {
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (!json.is_object() || !json.contains(key)) return nullptr;
  return dot == std::string::npos ? json[key] : field(json[key], path.substr(dot + 1));
}

std::vector<std::string> differences(const BenchFile& a, const BenchFile& b,
                                     const std::vector<std::string>& fields) {
  std::vector<std::string> found;
  for (const std::string& name : fields) {
    const Json one = field(a.json, name), other = field(b.json, name);
    if (one != other) found.push_back(fmt::format("{}: {} and {}", name, one.dump(), other.dump()));
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

struct Row {
  const Timing* a;
  const Timing* b;
  SpeedRatio ratio;
};

Json to_json(const Row& row) {
  const bool known = row.ratio.verdict != Verdict::too_few_samples;
  return {{"test", row.a->name},
          {"a_seconds", median(row.a->seconds)},
          {"b_seconds", median(row.b->seconds)},
          {"a_samples", row.a->seconds.size()},
          {"b_samples", row.b->seconds.size()},
          {"ratio", row.ratio.ratio},
          {"low", known ? Json(row.ratio.low) : Json(nullptr)},
          {"high", known ? Json(row.ratio.high) : Json(nullptr)},
          {"verdict", to_string(row.ratio.verdict)}};
}

std::string text(const std::vector<Row>& rows, double threshold) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.a->name.size());
  std::string result =
      fmt::format("| {:<{}} | {:>10} | {:>10} | {:>6} | {:>13} | {:<15} |\n|{:->{}}|-----------:|-----------:"
                  "|-------:|--------------:|-----------------|\n",
                  "test", width, "A ms", "B ms", "speed", "99 % interval", "verdict", "", width + 2);
  for (const Row& row : rows) {
    const bool known = row.ratio.verdict != Verdict::too_few_samples;
    result += fmt::format("| {:<{}} | {:>10.3f} | {:>10.3f} | {:>6.3f} | {:>13} | {:<15} |\n", row.a->name,
                          width, median(row.a->seconds) * 1e3, median(row.b->seconds) * 1e3, row.ratio.ratio,
                          known ? fmt::format("{:.3f} - {:.3f}", row.ratio.low, row.ratio.high) : "",
                          to_string(row.ratio.verdict));
  }
  result += fmt::format(
      "\nspeed: the speed of B divided by the speed of A. It counts as a difference if it is more "
      "than {:g} % and the interval does not contain 1.\n",
      threshold);
  const auto unstable = [](const Row& row) { return !row.a->stable || !row.b->stable; };
  for (const Row& row : rows) {
    if (unstable(row)) result += fmt::format("{}: not stable when the measurement began\n", row.a->name);
  }
  const auto few = [](const Row& row) { return row.ratio.verdict == Verdict::too_few_samples; };
  if (std::ranges::any_of(rows, few)) {
    result += fmt::format("too few samples: a verdict needs {} of each (pumice bench -r {})\n",
                          samples_needed, samples_needed);
  }
  return result;
}

} // namespace

Status compare_benches(const CompareOptions& options) {
  PUMICE_TRY(const BenchFile a, read_bench(options.a));
  PUMICE_TRY(const BenchFile b, read_bench(options.b));
  PUMICE_CHECK(check_same(a, b, options.force));
  std::vector<Row> rows;
  for (const Timing& one : a.timings) {
    const auto other = std::ranges::find(b.timings, one.name, &Timing::name);
    if (other == b.timings.end() || one.seconds.empty() || other->seconds.empty()) continue;
    rows.push_back({&one, &*other, compare_speed(one.seconds, other->seconds, options.threshold / 100)});
  }
  if (rows.empty()) {
    return Error{Code::invalid_argument,
                 fmt::format("{} and {} have no test in common", options.a, options.b)};
  }
  if (!options.json) {
    print_result(text(rows, options.threshold));
    return {};
  }
  Json json = {{"a", options.a}, {"b", options.b}, {"confidence", confidence}, {"results", Json::array()}};
  for (const Row& row : rows) json["results"].push_back(to_json(row));
  print_json(json, 2);
  return {};
}

} // namespace pumice::command
