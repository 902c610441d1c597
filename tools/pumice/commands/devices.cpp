#include <map>

#include <fmt/format.h>

#include "gpu/known_drivers.h"
#include "help/help.h"
#include "loading/open_device.h"
#include "options/options.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

struct DevicesOptions {
  bool json = false;
  DeviceOptions device;
};

using Features = std::vector<std::pair<const char*, bool>>;
using Limits = std::vector<std::pair<const char*, uint64_t>>;

Features features_of(const Capabilities& device) {
  return {{"buffer_device_address", device.buffer_device_address},
          {"timeline_semaphore", device.timeline_semaphore},
          {"storage_16bit", device.storage_16bit},
          {"storage_8bit", device.storage_8bit},
          {"float16", device.float16},
          {"int8", device.int8},
          {"integer_dot_product", device.integer_dot_product},
          {"cooperative_matrix", device.cooperative_matrix},
          {"cooperative_matrix2", device.cooperative_matrix2},
          {"subgroup_ballot", device.subgroup_ballot},
          {"subgroup_shuffle", device.subgroup_shuffle},
          {"unified_memory", device.unified_memory},
          {"memory_budget", device.memory_budget},
          {"host_memory_import", device.host_memory_import},
          {"timestamps", device.timestamps}};
}

Limits limits_of(const Capabilities& device) {
  return {{"allocation_bytes", device.max_allocation_bytes},
          {"storage_range_bytes", device.max_storage_range_bytes},
          {"storage_buffers", device.max_storage_buffers},
          {"shared_bytes", device.max_shared_bytes},
          {"push_constant_bytes", device.max_push_constant_bytes},
          {"workgroup_invocations", device.max_workgroup_invocations}};
}

std::string version_of(const Capabilities& device) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(device.api_version),
                     VK_API_VERSION_MINOR(device.api_version), VK_API_VERSION_PATCH(device.api_version));
}

Json to_json(const Capabilities& device, bool chosen) {
  Json json;
  json["index"] = device.index;
  json["name"] = device.name;
  json["type"] = device.type_name();
  json["driver"] = device.driver;
  json["driver_version"] = device.driver_version;
  json["vulkan"] = version_of(device);
  json["uuid"] = device.uuid_text();
  json["memory_bytes"] = device.memory_bytes;
  json["subgroup_size"] = device.subgroup_size;
  for (const auto& [name, value] : limits_of(device)) json["limits"][name] = value;
  for (const auto& [name, present] : features_of(device)) json["features"][name] = present;
  json["tiers"] = device.usable() ? device.tiers() : std::vector<std::string>();
  json["duplicate_of"] = device.duplicate_of < 0 ? Json() : Json(device.duplicate_of);
  json["usable"] = device.usable();
  json["problems"] = device.problems;
  json["known_faults"] = Json::array();
  for (const KnownDriver& fault : known_faults(device)) json["known_faults"].push_back(fault.text());
  json["chosen"] = chosen;
  return json;
}

// What the device's kernel tiers are for.
std::string kernels_of(const Capabilities& device) {
  static const std::map<std::string, std::string> meanings = {
      {"portable", "portable (any device)"},
      {"cpu8", "cpu8 (vectors of a processor)"},
      {"half8", "half8 (vectors of a processor, from 16-bit floats)"}};
  std::string text;
  for (const std::string& tier : device.tiers()) text += (text.empty() ? "" : ", ") + meanings.at(tier);
  if (device.multiplies_matrices()) text += ", cm (cooperative matrices, where it has sizes for them)";
  return text;
}

std::string describe(const Capabilities& device, bool chosen) {
  std::string present, absent, limits;
  for (const auto& [name, has] : features_of(device)) {
    std::string& list = has ? present : absent;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  for (const auto& [name, value] : limits_of(device)) {
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", name, value);
  }
  std::string text = listed(fmt::format("{} {}: ", chosen ? "*" : " ", device.index),
                            device.name + (chosen ? "  (chosen)" : ""));
  const auto line = [&](const char* label, const std::string& value) {
    text += listed(fmt::format("     {:<10} ", label), value.empty() ? "none" : value);
  };
  line("type", device.type_name());
  line("driver", fmt::format("{} {}, Vulkan {}", device.driver, device.driver_version, version_of(device)));
  line("uuid", device.uuid_text());
  line("memory", fmt::format("{:.2f} GiB", static_cast<double>(device.memory_bytes) / (1 << 30)));
  line("subgroup", fmt::format("{} invocations", device.subgroup_size));
  line("limits", limits);
  line("supports", present);
  line("lacks", absent);
  if (device.usable()) line("kernels", kernels_of(device));
  if (device.duplicate_of >= 0) {
    line("duplicate", fmt::format("same GPU as device {} under another driver", device.duplicate_of));
  }
  for (const std::string& problem : device.problems) line("not usable", problem);
  for (const KnownDriver& fault : known_faults(device)) line("driver bug", fault.text());
  return text;
}

Status devices(const DevicesOptions& options) {
  PUMICE_TRY(std::shared_ptr<Instance> instance, create_instance(options.device));
  const Result<Capabilities> chosen = instance->choose(options.device.device);
  const auto is_chosen = [&](const Capabilities& device) {
    return chosen.ok() && chosen->index == device.index;
  };
  Json list = Json::array();
  std::string text;
  for (const Capabilities& device : instance->devices()) {
    list.push_back(to_json(device, is_chosen(device)));
    text += describe(device, is_chosen(device));
  }
  if (options.json) {
    Json json;
    json["devices"] = std::move(list);
    json["chosen"] = chosen.ok() ? Json(chosen->index) : Json();
    print_json(json, 2);
  } else {
    print_result(text);
  }
  if (!chosen.ok()) return chosen.error();
  return {};
}

} // namespace

Subcommand add_devices(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("devices", "List the Vulkan devices, and mark the one to be used.");
  auto options = std::make_shared<DevicesOptions>();
  sub->add_flag("--json", options->json, "Print one JSON object")->group("Output");
  sub->add_option("--device", options->device.device,
                  "Mark the device that this value would choose: an index, a part of a name, or a UUID")
      ->type_name("DEVICE")
      ->group(device_group);
  add_loader_options(*sub, options->device);
  sub->footer(example("pumice devices --json"));
  return {sub, [options] { return devices(*options); }};
}

} // namespace pumice::command
