#include "bench/bench_file.h"

#include <sstream>

#include <fmt/format.h>

namespace pumice::command {

namespace {

Error bad_bench(const std::string& source, const std::string& what) {
  return Error{Code::invalid_file,
               fmt::format("{}: {}: expected what 'pumice bench -o json' writes", source, what)};
}

Result<double> read_seconds(const std::string& source, const std::string& test, const Json& object,
                            const char* key) {
  if (object.is_object() && object.contains(key) && object[key].is_number() && object[key] > 0) {
    return object[key].get<double>();
  }
  return bad_bench(source, fmt::format("a sample of '{}' has no field '{}' above 0", test, key));
}

Status add_timings(BenchedProcess& process, std::vector<Timing>& first_tokens, const Json& result,
                   const std::string& source) {
  if (!result.is_object() || !result.contains("test") || !result["test"].is_string() ||
      !result.contains("samples") || !result["samples"].is_array()) {
    return bad_bench(source, "one of its 'results' has no 'test' or no 'samples'");
  }
  Timing run{result["test"], {}, result.value("stable", Json()) != Json(false)};
  // A prompt's first token comes from the same runs: its row would be the prompt's row again.
  const bool prompt = result.value("kind", Json()) == Json("prompt");
  Timing first{run.test + ", first token", {}, run.stable};
  for (const Json& sample : result["samples"]) {
    PUMICE_TRY(double seconds, read_seconds(source, run.test, sample, "seconds"));
    run.seconds.push_back(seconds);
    if (prompt || !sample.contains("first_token_seconds")) continue;
    PUMICE_TRY(seconds, read_seconds(source, run.test, sample, "first_token_seconds"));
    first.seconds.push_back(seconds);
  }
  if (!run.seconds.empty()) process.timings.push_back(std::move(run));
  if (!first.seconds.empty()) first_tokens.push_back(std::move(first));
  return {};
}

Result<BenchedProcess> read_process(Json json, const std::string& source) {
  if (!json.is_object()) return bad_bench(source, "it is not a JSON object");
  if (!json.contains("results") || !json["results"].is_array()) {
    return bad_bench(source, "it has no list 'results'");
  }
  BenchedProcess process;
  std::vector<Timing> first_tokens;
  for (const Json& result : json["results"]) PUMICE_CHECK(add_timings(process, first_tokens, result, source));
  process.timings.insert(process.timings.end(), first_tokens.begin(), first_tokens.end());
  if (json.contains("cold_start")) {
    PUMICE_TRY(double seconds, read_seconds(source, "cold start", json["cold_start"], "first_seconds"));
    process.timings.push_back({"cold start", {seconds}});
  }
  process.json = std::move(json);
  return process;
}

} // namespace

Result<std::vector<BenchedProcess>> read_benched(const std::string& text, const std::string& source) {
  std::vector<BenchedProcess> processes;
  std::istringstream stream(text);
  do {
    Json json;
    try {
      stream >> json; // one value; the next one begins after it
    } catch (const Json::exception&) {
      return bad_bench(source, "it is not a JSON object");
    }
    PUMICE_TRY(BenchedProcess process, read_process(std::move(json), source));
    processes.push_back(std::move(process));
    stream >> std::ws;
  } while (!stream.eof());
  return processes;
}

} // namespace pumice::command
