// How kernels declare the buffers they are bound to. One descriptor set holds them all; the slots are named in the
// kernel's params header.
#ifndef PUMICE_TYPES_GLSL
#define PUMICE_TYPES_GLSL
#extension GL_EXT_control_flow_attributes : require
#include "common/step.h"

#define READ_BUFFER(type, name, slot) layout(set = 0, binding = slot, std430) readonly restrict buffer name##_buffer { type name[]; }
#define WRITE_BUFFER(type, name, slot) layout(set = 0, binding = slot, std430) restrict buffer name##_buffer { type name[]; }
// Memory that a kernel writes under one name and reads under another, after memoryBarrierBuffer() and barrier().
#define COHERENT_BUFFER(type, name, slot) layout(set = 0, binding = slot, std430) coherent buffer name##_buffer { type name[]; }

#endif
