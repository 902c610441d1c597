#pragma once

// Whether this program watches its memory or its threads, and so takes many times longer.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED_BUILD
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(SANITIZED_BUILD)
#define SANITIZED_BUILD
#endif
#ifdef SANITIZED_BUILD
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
