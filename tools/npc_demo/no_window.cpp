#include "window.h"

#include "failure.h"

namespace npc {

// In place of window.cpp where there is no SDL2: a window cannot be made, and so never used.
Window::Window(VkExtent2D) {
  throw Failure("this build has no SDL2, and so no window: use --headless");
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
