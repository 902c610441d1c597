#pragma once

namespace pumice {

// Tells the processor that this memory will be read soon. Affects only speed.
inline void prefetch([[maybe_unused]] const void* at) {
#ifdef __GNUC__
  __builtin_prefetch(at);
#endif
}

} // namespace pumice
