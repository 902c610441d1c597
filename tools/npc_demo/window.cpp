#include "window.h"

#include <algorithm>

#include <SDL.h>
#include <SDL_vulkan.h>

#include "failure.h"

namespace npc {

namespace {

constexpr float budget_step_us = 250;

void press(SDL_Keycode key, Controls& controls) {
  switch (key) {
  case SDLK_ESCAPE:
    controls.quit = true;
    break;
  case SDLK_r:
    controls.restart = true;
    break;
  case SDLK_g:
    controls.generation = !controls.generation;
    break;
  case SDLK_1:
    controls.budget_us = 1000;
    break;
  case SDLK_2:
    controls.budget_us = 2000;
    break;
  case SDLK_3:
    controls.budget_us = 4000;
    break;
  case SDLK_4:
    controls.budget_us = 8000;
    break;
  case SDLK_PLUS:
  case SDLK_EQUALS:
  case SDLK_KP_PLUS:
    controls.budget_us += budget_step_us;
    break;
  case SDLK_MINUS:
  case SDLK_KP_MINUS:
    controls.budget_us = std::max(budget_step_us, controls.budget_us - budget_step_us);
    break;
  default:
    break;
  }
}

} // namespace

Window::Window(VkExtent2D size) {
  SDL_SetMainReady();
  if (SDL_Init(SDL_INIT_VIDEO) != 0)
    throw Failure(fmt::format("no window can be opened (--headless needs none): {}", SDL_GetError()));
  window_ =
      SDL_CreateWindow("Pumice: a character that speaks", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED,
                       static_cast<int>(size.width), static_cast<int>(size.height),
                       SDL_WINDOW_VULKAN | SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI);
  if (!window_) {
    const std::string reason = SDL_GetError();
    SDL_Quit();
    throw Failure(fmt::format("no window can be opened (--headless needs none): {}", reason));
  }
}

Window::~Window() {
  SDL_DestroyWindow(window_);
  SDL_Quit();
}

PFN_vkGetInstanceProcAddr Window::loader() const {
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(SDL_Vulkan_GetVkGetInstanceProcAddr());
}

std::vector<const char*> Window::instance_extensions() const {
  unsigned count = 0;
  std::vector<const char*> names;
  bool known = SDL_Vulkan_GetInstanceExtensions(window_, &count, nullptr);
  names.resize(count);
  known = known && SDL_Vulkan_GetInstanceExtensions(window_, &count, names.data());
  if (!known) throw Failure(fmt::format("this window has no use for Vulkan: {}", SDL_GetError()));
  return names;
}

VkSurfaceKHR Window::make_surface(VkInstance instance) const {
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  if (!SDL_Vulkan_CreateSurface(window_, instance, &surface))
    throw Failure(fmt::format("no Vulkan surface for the window: {}", SDL_GetError()));
  return surface;
}

VkExtent2D Window::extent() const {
  int width = 0, height = 0;
  SDL_Vulkan_GetDrawableSize(window_, &width, &height);
  return {static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
}

bool Window::minimised() const {
  const auto [width, height] = extent();
  return (SDL_GetWindowFlags(window_) & SDL_WINDOW_MINIMIZED) != 0 || width == 0 || height == 0;
}

void Window::poll(Controls& controls) const {
  for (SDL_Event event; SDL_PollEvent(&event);) {
    if (event.type == SDL_QUIT) controls.quit = true;
    if (event.type == SDL_KEYDOWN) press(event.key.keysym.sym, controls);
  }
}

} // namespace npc
