#include <fmt/format.h>

#include "bench/report.h"
#include "bench/statistics.h"
#include "output/json_output.h"

namespace pumice::command {

namespace {

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const Clocks& clocks) {
  return {{"cpu_mhz", number(clocks.cpu)}, {"device_mhz", number(clocks.device)}};
}

Json to_json(const MachineUse& use) {
  return {{"busy", is_busy(use)},
          {"others", number(use.others)},
          {"stolen", number(use.stolen)},
          {"load", number(use.load)}};
}

Json date(int64_t seconds_since_1970) {
  return seconds_since_1970 > 0 ? Json(date_text(seconds_since_1970)) : Json(nullptr);
}

Json to_json(const BenchRun& run) {
  Json json;
  json["seconds"] = run.seconds;
  if (run.first_token) json["first_token_seconds"] = *run.first_token;
  if (run.host_step_seconds) json["host_step_seconds"] = *run.host_step_seconds;
  if (!run.token_seconds.empty()) json["token_seconds"] = run.token_seconds;
  json["clocks"] = to_json(run.clocks);
  return json;
}

Json to_json(const Measurement& result, const Ceilings& ceilings) {
  Json json;
  json["test"] = result.test;
  json["kind"] = result.kind;
  if (result.kind == "operation") {
    json["type"] = result.type;
    json["shape"] = result.shape;
    json["kernels"] = result.kernels;
  } else {
    json["depth"] = result.depth;
    if (result.shared_prefix > 0) json["shared_prefix"] = result.shared_prefix;
    json["sequences"] = result.sequences;
    json["tokens"] = result.tokens;
    json["median_tokens_per_second"] = median(result.tokens_per_second());
  }
  json["median_seconds"] = result.median_seconds();
  if (const auto interval = median_interval(result.seconds()))
    json["median_seconds_interval"] = {interval->low, interval->high};
  if (const auto first = result.first_tokens(); !first.empty()) {
    json["median_first_token_seconds"] = median(first);
  }
  if (const auto between = result.token_seconds(); !between.empty()) {
    json["token_seconds"] = {{"p50", quantile(between, 0.5)},
                             {"p90", quantile(between, 0.9)},
                             {"p99", quantile(between, 0.99)},
                             {"max", quantile(between, 1)}};
  }
  if (const auto host = result.host_step_seconds(); !host.empty()) {
    json["median_host_step_seconds"] = median(host);
  }
  json["flops"] = result.flops;
  json["bytes"] = result.bytes;
  json["share_of_bandwidth"] = result.share_of_bandwidth(ceilings);
  json["share_of_arithmetic"] = result.share_of_arithmetic(ceilings);
  json["share_of_roof"] = result.share_of_roof(ceilings);
  const std::vector<double> seconds = result.seconds();
  const std::string reason = result.why_unstable();
  json["stable"] = reason.empty();
  json["unstable_because"] = reason.empty() ? Json(nullptr) : Json(reason);
  json["spread"] = spread(seconds);
  json["drift"] = drift(seconds);
  json["machine"] = to_json(result.machine);
  json["warm_up_seconds"] = result.warm_up;
  json["samples"] = Json::array();
  for (const BenchRun& run : result.runs) json["samples"].push_back(to_json(run));
  return json;
}

Json to_json(const MeasuredModel& model) {
  return {{"path", model.path},
          {"hash", model.hash},
          {"hash_kind", model_hash_kind},
          {"size_bytes", model.bytes},
          {"parameters", model.parameters},
          {"weights", model.weights.empty() ? Json(nullptr) : Json(model.weights)},
          {"kv", model.kv}};
}

Json to_json(const StepProfile& profile) {
  Json json = {{"step", profile.step}, {"seconds", profile.seconds}, {"dispatches", profile.dispatches}};
  json["kernels"] = Json::array();
  for (const KernelTime& kernel : profile.kernels) {
    json["kernels"].push_back({{"kernel", kernel.kernel},
                               {"dispatches", kernel.dispatches},
                               {"seconds", kernel.seconds},
                               {"flops", kernel.flops},
                               {"bytes", kernel.bytes}});
  }
  return json;
}

// All but the tests.
Json head_of(const BenchReport& report) {
  const Environment& environment = report.environment;
  Json json;
  json["version"] = environment.version;
  json["command"] = environment.command;
  json["date"] = environment.date;
  json["device"] = environment.device;
  json["device_type"] = environment.device_type;
  json["driver"] = environment.driver;
  json["driver_version"] = environment.driver_version;
  json["clocks"] = to_json(environment.clocks);
  json["machine"] = to_json(report.machine.use());
  json["ceilings"] = {{"copy_bytes_per_second", report.ceilings.copy_bytes_per_second},
                      {"copy_date", date(report.ceilings.copy_time)},
                      {"flops_per_second", report.ceilings.flops_per_second},
                      {"flops_date", date(report.ceilings.flops_time)}};
  json["model"] = report.model ? to_json(*report.model) : Json(nullptr);
  if (const auto& start = report.cold_start) {
    json["cold_start"] = {{"test", start->test},
                          {"device_seconds", start->device},
                          {"loaded_seconds", start->loaded},
                          {"started_seconds", start->started},
                          {"compile_seconds", start->compiling},
                          {"first_seconds", start->first}};
  }
  json["blocked"] = Json::object();
  for (const auto& [variant, blocked] : report.blocked) json["blocked"][variant] = blocked.reason;
  json["blocked_file"] = report.blocked.empty() ? Json(nullptr) : Json(report.blocked_file);
  json["partial"] = report.partial;
  return json;
}

} // namespace

std::string report_json(const BenchReport& report) {
  Json json = head_of(report);
  json["results"] = Json::array();
  for (const Measurement& result : report.results) {
    json["results"].push_back(to_json(result, report.ceilings));
  }
  json["profiles"] = Json::array();
  for (const StepProfile& each : report.profiles) json["profiles"].push_back(to_json(each));
  return json_text(json, 2);
}

std::string report_json_lines(const BenchReport& report) {
  const Json head = head_of(report);
  std::string lines;
  for (const Measurement& result : report.results) {
    Json json = head;
    json.update(to_json(result, report.ceilings));
    lines += json_text(json);
  }
  return lines;
}

} // namespace pumice::command
