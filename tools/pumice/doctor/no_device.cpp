#include "doctor/no_device.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "gpu/vulkan_table.h"
#include "loading/open_device.h"

namespace pumice::command {

namespace {

using Advice = std::vector<std::string>;

// Variables that keep the Vulkan loader from drivers that are installed.
void add_variables(Advice& advice) {
  for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    if (const char* value = std::getenv(name); value && *value) {
      advice.push_back(fmt::format("The variable {} is set to '{}', and the Vulkan loader looks for drivers "
                                   "nowhere else: unset it.",
                                   name, value));
    }
  }
  for (const char* name : {"VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"}) {
    if (const char* value = std::getenv(name); value && *value) {
      advice.push_back(
          fmt::format("The variable {} is set to '{}', which leaves drivers out: unset it.", name, value));
    }
  }
}

#ifdef _WIN32
void add_drivers(Advice& advice) {
  advice.push_back("Install the graphics card's driver from its maker: it brings Vulkan.");
}
void add_loader(Advice& advice) {
  add_drivers(advice);
}
#else
// The card as Linux shows it.
struct Card {
  std::filesystem::path file;
  bool opens = false;
};

std::optional<Card> find_card() {
  std::optional<Card> card;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/dev/dri", error), end; !error && at != end;
       at.increment(error)) {
    if (!at->path().filename().string().starts_with("renderD")) continue;
    const bool opens = std::fstream(at->path(), std::ios::in | std::ios::out).is_open();
    if (!card || opens) card = {at->path(), opens};
  }
  return card;
}

void add_drivers(Advice& advice) {
  const std::optional<Card> card = find_card();
  if (card && !card->opens) {
    advice.push_back(fmt::format("This user may not open the graphics card ({}): add the user to the group "
                                 "'render' ('sudo usermod -aG render $USER'), and log in again.",
                                 path_text(card->file)));
  }
  if (!card) {
    advice.push_back(
        "The system shows no graphics card (/dev/dri has no renderD file). If there is one, pass "
        "it to the container ('--device /dev/dri', NVIDIA: '--gpus all' with "
        "NVIDIA_DRIVER_CAPABILITIES=all) or to the virtual machine.");
  }
  advice.push_back(
      "Install a driver: mesa-vulkan-drivers (Debian, Ubuntu, Fedora) for AMD and Intel, and for "
      "computing on the processor; NVIDIA's own driver for its cards.");
}

void add_loader(Advice& advice) {
  advice.push_back("Install the Vulkan loader: libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora) or "
                   "vulkan-icd-loader (Arch).");
  add_drivers(advice);
}
#endif

Verdict verdict_of(const Error& error, Advice advice) {
  advice.push_back(
      "'vulkaninfo --summary' (Debian and Ubuntu: vulkan-tools) shows what other programs find.");
  return {Verdict::State::bad, "device", error.text(), std::move(advice)};
}

} // namespace

std::optional<Verdict> no_device(const DeviceOptions& options) {
  Advice advice;
  if (const auto loader = open_vulkan_loader(options.loader); !loader.ok()) {
    if (!options.loader.empty())
      advice.push_back("Leave --vulkan-loader out, or name a Vulkan loader that can be opened.");
    else
      add_loader(advice);
    return verdict_of(loader.error(), std::move(advice));
  }
  add_variables(advice);
  const Result<std::shared_ptr<Instance>> instance = create_instance(options);
  if (!instance.ok() || (*instance)->devices().empty()) {
    add_drivers(advice);
    return verdict_of(instance.ok() ? (*instance)->choose("").error() : instance.error(), std::move(advice));
  }
  const Result<Capabilities> chosen = (*instance)->choose(options.device);
  if (chosen.ok()) return {};
  if (!options.device.empty())
    advice.push_back("'pumice devices' lists the devices: choose one with --device, or leave that out.");
  if (!(*instance)->choose("").ok()) add_drivers(advice);
  return verdict_of(chosen.error(), std::move(advice));
}

} // namespace pumice::command
