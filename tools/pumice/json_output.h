#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "open_device.h"
#include "terminal.h"

namespace pumice::command {

using Json = nlohmann::ordered_json;

// Prints one object to standard output. Bytes that are not UTF-8 (in a driver's name, say) are replaced.
inline void print_json(const Json& json, int indent = -1) {
  print_result(json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n");
}

inline void add_device(Json& json, const OpenedDevice& device) {
  json["device"] = device.name();
  json["driver"] = device.driver();
}

} // namespace pumice::command
