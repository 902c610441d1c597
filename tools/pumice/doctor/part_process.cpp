#include "tools/pumice/doctor/part_process.h"

#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "tools/pumice/bench/process.h"

namespace pumice::command {

namespace {

std::vector<std::string> command_of(const DoctorOptions& options, const std::string& part, size_t from) {
  std::vector<std::string> words = {this_program(), "doctor", "--part", part, "--from", std::to_string(from)};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  const DeviceOptions& device = options.device;
  add("--device", device.device);
  add("--cache", device.cache);
  add("--vulkan-loader", device.loader);
  add("--only", options.only);
  if (device.no_cache) words.push_back("--no-cache");
  if (device.validate) words.push_back("--validate");
  if (options.quick) words.push_back("--quick");
  return words;
}

std::string ending_of(const ProcessOutput& output, double patience) {
  if (output.silent) return fmt::format("hung: it did nothing for {:.0f} s", patience);
  const int signal = output.status - 128;
  if (signal > 0) return fmt::format("crashed with signal {} ({})", signal, strsignal(signal));
  return fmt::format("ended with the status {}", output.status);
}

} // namespace

const Json* PartOutcome::find(const std::string& name) const {
  for (const Json& each : ends) {
    if (each["end"] == name) return &each;
  }
  return nullptr;
}

Result<PartOutcome> run_part_process(const DoctorOptions& options, const std::string& part, size_t from) {
  PUMICE_TRY(Process process, Process::start(command_of(options, part, from)));
  process.limit_silence(options.patience);
  PUMICE_TRY(const ProcessOutput output, process.finish());
  PartOutcome outcome;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue; // the last one of a process that crashed
    if (json.contains("begin")) outcome.trying = json["begin"].get<std::string>();
    if (json.contains("error")) outcome.failure = "failed: " + json["error"].get<std::string>();
    if (json.contains("end")) {
      outcome.trying.clear();
      outcome.ends.push_back(std::move(json));
    }
  }
  if (output.status == 0) return outcome;
  outcome.survived = false;
  if (outcome.failure.empty()) outcome.failure = ending_of(output, options.patience);
  if (outcome.trying.empty()) outcome.trying = "ending";
  return outcome;
}

} // namespace pumice::command
