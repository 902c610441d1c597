#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "kernel/sampling/sampling.h"
#include "loading/open_device.h"
#include "terminal/terminal.h"

namespace pumice::command {

using Json = nlohmann::ordered_json;

// The first field of every object, "schema". It is raised when a field goes away or changes its meaning, not
// when one is added. tools/README.md says what the fields are.
inline constexpr int json_schema = 1;

// One object, with a newline. Bytes that are not UTF-8 (in a driver's name, say) are replaced.
inline std::string json_text(const Json& json, int indent = -1) {
  Json versioned = {{"schema", json_schema}};
  versioned.update(json);
  return versioned.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}
inline void print_json(const Json& json, int indent = -1) {
  print_result(json_text(json, indent));
}

// The seed, null where it has no effect and nobody gave it.
inline Json seed_json(const SamplingParams& sampling, bool asked) {
  return sampling.temperature > 0 || asked ? Json(sampling.seed) : Json();
}

inline void add_device(Json& json, const OpenedDevice& device) {
  json["device"] = device.name();
  json["driver"] = device.driver();
}

} // namespace pumice::command
