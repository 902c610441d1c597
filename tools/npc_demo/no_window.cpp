#include "window.h"

#include "failure.h"

namespace npc {

// Replaces window.cpp in a build without SDL2: the constructor fails, so the other functions are never
// called.
Window::Window(VkExtent2D) {
  throw Failure("this build has no SDL2 and cannot open a window: use --headless");
}
Window::~Window() = default;
PFN_vkGetInstanceProcAddr Window::loader() const {
  return nullptr;
}
std::vector<const char*> Window::instance_extensions() const {
  return {};
}
VkSurfaceKHR Window::make_surface(VkInstance) const {
  return VK_NULL_HANDLE;
}
VkExtent2D Window::extent() const {
  return {};
}
bool Window::minimised() const {
  return true;
}
void Window::poll(Controls&) const {}

} // namespace npc
