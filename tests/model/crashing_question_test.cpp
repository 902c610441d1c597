// A driver that ends the process when a device is asked for its cooperative matrices, as AMD's driver 2.0.388
// for Windows does with integrated GPUs.
#include <doctest/doctest.h>

#include <cstdlib>

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "gpu/known_drivers.h"
#include "support/command/command.h"
#include "support/embedding.h"

using nlohmann::json;

namespace {

const std::vector<std::string> unknown_driver = {"PUMICE_TEST_MATRICES=1"};
// VK_MAKE_API_VERSION(0, 2, 0, 388), and a device that is called an integrated GPU.
const std::vector<std::string> known_driver = {"PUMICE_TEST_MATRICES=1", "PUMICE_TEST_DRIVER_ID=1",
                                               "PUMICE_TEST_DRIVER_VERSION=8388996"};
// One that computes on the processor.
const std::vector<std::string> processor = {"PUMICE_TEST_MATRICES=1", "PUMICE_TEST_ADDRESSES=1"};

CommandResult run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments.insert(arguments.end(), {"--vulkan-loader", crashing_vulkan().string()});
  return pumice_command(arguments, nullptr, environment);
}

CommandResult tell_story(const std::vector<std::string>& environment) {
  return run({"run", stories, "Once upon a time", "-n", "8", "--temp", "0", "--device", "0", "--no-cache"},
             environment);
}

} // namespace

TEST_CASE("devices are listed whatever a driver does when it is asked for its matrices") {
  const std::string source = "https://github.com/ggml-org/llama.cpp/pull/22750";
  for (const auto& environment : {unknown_driver, known_driver, processor}) {
    const CommandResult listed = run({"devices"}, environment),
                        as_json = run({"devices", "--json"}, environment);
    CHECK(listed.status == 0);
    REQUIRE(as_json.status == 0);
    const bool is_known = environment == known_driver;
    CHECK((listed.out.find(source) != std::string::npos) == is_known);
    CHECK(json::parse(as_json.out)["devices"][0]["known_faults"].size() == size_t{is_known});
  }
}

TEST_CASE(
    "the command uses a device whose driver is known to end the process, and processors without asking") {
  for (const auto& environment : {known_driver, processor}) {
    const CommandResult story = tell_story(environment);
    CAPTURE(story.err);
    CHECK(story.status == 0);
    CHECK(story.out.starts_with("Once upon a time"));
  }
}

TEST_CASE("a program uses such a device too") {
  for (const std::string& each : known_driver) {
    const size_t name = each.find('=');
    ::setenv(each.substr(0, name).c_str(), each.substr(name + 1).c_str(), 1);
  }
  void* const library = ::dlopen(crashing_vulkan().c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  std::vector<std::string> infos;
  pumice_device_options options = {sizeof options};
  options.get_instance_proc_addr =
      reinterpret_cast<pumice_get_instance_proc_addr>(::dlsym(library, "vkGetInstanceProcAddr"));
  options.log = [](void* user, pumice_log_level, const char* message) {
    static_cast<std::vector<std::string>*>(user)->push_back(message);
  };
  options.log_user = &infos;
  pumice_device* made = nullptr;
  pumice_error error;
  require_ok(pumice_device_create(&options, &made, &error), error);
  const DeviceHandle device(made);
  CHECK(std::ranges::any_of(infos, [](const std::string& each) { return each.find("22750") != each.npos; }));
  const ModelHandle model = load(device.get(), stories, -1);
  CHECK(tell(make_session(model.get()).get(), "Once upon a time", 8).tokens.size() == 8);
  for (const std::string& each : known_driver) ::unsetenv(each.substr(0, each.find('=')).c_str());
}
