#include "loader.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "failure.h"

namespace npc {

PFN_vkGetInstanceProcAddr load_vulkan() {
#ifdef _WIN32
  constexpr const char* name = "vulkan-1.dll";
  const HMODULE library = LoadLibraryA(name);
  void* function =
      library ? reinterpret_cast<void*>(GetProcAddress(library, "vkGetInstanceProcAddr")) : nullptr;
#else
#ifdef __APPLE__
  constexpr const char* name = "libvulkan.1.dylib";
#else
  constexpr const char* name = "libvulkan.so.1";
#endif
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void* function = library ? dlsym(library, "vkGetInstanceProcAddr") : nullptr;
#endif
  if (!function) throw Failure(fmt::format("no Vulkan loader: {} cannot be opened", name));
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(function);
}

} // namespace npc
