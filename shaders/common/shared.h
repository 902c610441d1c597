// Included by shaders and by C++, so that a kernel's parameters are written down once.
#ifndef PUMICE_SHARED_H
#define PUMICE_SHARED_H

#ifdef __cplusplus
#include <cstdint>
#define PUMICE_PARAMS_BEGIN namespace pumice {
#define PUMICE_PARAMS_END }
#define UINT uint32_t
#define ADDRESS uint64_t
#define CONSTANT constexpr uint32_t
#else
#define PUMICE_PARAMS_BEGIN
#define PUMICE_PARAMS_END
#define UINT uint
#define ADDRESS uvec2
#define CONSTANT const uint
#endif

#endif
