#include "doctor/part_process.h"

#include <fmt/format.h>

#include "process/child_process.h"

namespace pumice::command {

namespace {

void read_line(const std::string& line, PartOutcome& outcome) {
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  if (json.contains("begin")) outcome.trying = json["begin"].get<std::string>();
  if (json.contains("error")) {
    outcome.failure = "failed: " + json["error"].get<std::string>();
    outcome.refused = true;
  }
  if (json.contains("end")) {
    outcome.trying.clear();
    outcome.ends.push_back(std::move(json));
  }
}

} // namespace

const Json* PartOutcome::find(const std::string& name) const {
  for (const Json& each : ends) {
    if (each["end"] == name) return &each;
  }
  return nullptr;
}

Result<PartOutcome> run_part(const DoctorOptions& options, const std::string& part, size_t from,
                             const std::function<void(const Json& end)>& on_end) {
  PUMICE_TRY(ChildProcess child, ChildProcess::start(doctor_part_argument));
  child.say(part_request(options, part, from).dump());
  PartOutcome outcome;
  std::string line;
  ChildProcess::Heard heard = child.listen(line, options.patience);
  for (; heard == ChildProcess::Heard::line; heard = child.listen(line, options.patience)) {
    const size_t ends = outcome.ends.size();
    read_line(line, outcome);
    if (on_end && outcome.ends.size() > ends) on_end(outcome.ends.back());
  }
  if (heard != ChildProcess::Heard::end) child.kill();
  const ChildProcess::End end = child.end();
  if (heard == ChildProcess::Heard::interrupt) return interruption();
  if (heard == ChildProcess::Heard::silence) {
    outcome.failure = fmt::format("hangs: nothing came of it for {:.0f} s", options.patience);
  } else if (end.signal == 0 && end.status == 0) {
    return outcome;
  } else if (outcome.failure.empty()) {
    outcome.failure = fmt::format("crashed ({})", end.text());
  }
  if (outcome.trying.empty()) outcome.trying = "saving what was compiled";
  return outcome;
}

} // namespace pumice::command
