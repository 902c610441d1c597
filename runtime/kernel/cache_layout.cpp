#include "kernel/cache_layout.h"

namespace pumice {

const char* to_string(CacheType type) {
  return type == CacheType::f32 ? "f32" : "f16";
}

} // namespace pumice
