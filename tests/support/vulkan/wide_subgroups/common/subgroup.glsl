// In place of shaders/common/subgroup.glsl: subgroups of WIDTH invocations on a device with narrower ones, of eight at least.
// Eight neighbours are in one of the device's own; what is further apart meets in shared memory.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 99) const uint WIDTH = 8; // wide_subgroups.cpp sets it: what a kernel is told may differ

#define SUBGROUP_NUMBER (gl_LocalInvocationID.x / WIDTH)
#define SUBGROUP_LANE (gl_LocalInvocationID.x % WIDTH)
#define EXCHANGE(value, distance) exchange(value, distance)

shared float exchanged[1024]; // for the largest workgroup that kernels have

float exchange(float value, uint distance) {
  barrier(); // all have read what was there
  exchanged[gl_LocalInvocationID.x] = value;
  barrier();
  return distance < WIDTH ? exchanged[gl_LocalInvocationID.x ^ distance] : uintBitsToFloat(0x7fc00000u);
}
