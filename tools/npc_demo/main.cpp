// The loop of a small game with a character that speaks. npc.cpp has all calls of Pumice. device.cpp creates
// the Vulkan device that the demo draws with and Pumice computes with.
#include <cstdio>
#include <optional>

#include "demo.h"
#include "failure.h"
#include "loader.h"

namespace {

// The Vulkan surface of the window. Null without a window.
class Surface {
public:
  Surface(const npc::Instance& instance, const npc::Window* window) : instance_(instance) {
    if (window) surface_ = window->make_surface(instance.handle());
  }
  ~Surface() {
    if (surface_) instance_.functions().vkDestroySurfaceKHR(instance_.handle(), surface_, nullptr);
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  VkSurfaceKHR handle() const { return surface_; }

private:
  const npc::Instance& instance_;
  VkSurfaceKHR surface_ = VK_NULL_HANDLE;
};

int run(const npc::Options& options) {
  std::optional<npc::Window> window;
  if (!options.headless) window.emplace(options.size);
  const npc::Instance instance(window ? window->loader() : npc::load_vulkan(),
                               window ? window->instance_extensions() : std::vector<const char*>{},
                               options.validate);
  bool well = false;
  {
    const Surface surface(instance, window ? &*window : nullptr);
    const npc::Device device(instance, surface.handle(), options.device);
    std::optional<npc::Swapchain> swapchain;
    if (window) swapchain.emplace(device, surface.handle(), window->extent());
    npc::Demo demo(options, device, window ? &*window : nullptr, swapchain ? &*swapchain : nullptr);
    well = demo.run();
  }
  if (instance.validation_messages() > 0) {
    std::fprintf(stderr, "npc_demo: the validation layers reported %d messages\n",
                 instance.validation_messages());
    well = false;
  }
  return well ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const npc::Options options = npc::read_options(argc, argv);
    if (options.help) {
      std::fputs(npc::usage, stdout);
      return 0;
    }
    return run(options);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "npc_demo: %s\n", problem.what());
    return 1;
  }
}
