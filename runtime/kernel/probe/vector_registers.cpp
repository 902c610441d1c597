#include "kernel/probe/vector_registers.h"

namespace pumice {

uint32_t vector_registers() {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  return __builtin_cpu_supports("avx512vl") ? 32 : 16;
#else
  return 16;
#endif
}

} // namespace pumice
