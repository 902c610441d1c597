#pragma once

#include <vector>

#include "instance.h"

struct SDL_Window;

namespace npc {

// The settings that the keys change.
struct Controls {
  bool quit = false;    // Esc, or the window was closed
  bool restart = false; // R
  bool generation = true;
  float budget_us = 2000;
};

// An SDL window, and the Vulkan loader that SDL opened for it. In a build without SDL2, no_window.cpp
// replaces window.cpp.
class Window {
public:
  explicit Window(VkExtent2D size);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  PFN_vkGetInstanceProcAddr loader() const;
  std::vector<const char*> instance_extensions() const;
  VkSurfaceKHR make_surface(VkInstance instance) const;
  VkExtent2D extent() const; // in pixels
  bool minimised() const;
  void poll(Controls& controls) const;

private:
  [[maybe_unused]] SDL_Window* window_ = nullptr;
};

} // namespace npc
