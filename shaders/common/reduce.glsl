// Sums over a workgroup, whose size is a power of two and at least 8.
#ifndef PUMICE_REDUCE_GLSL
#define PUMICE_REDUCE_GLSL

shared float reduce_partial[gl_WorkGroupSize.x];

// Every invocation gets the sum. Each adds up the last eight numbers itself: on a CPU, where a workgroup has eight
// invocations, this needs one barrier; a whole tree would need four.
float workgroup_sum(float a) {
  const uint i = gl_LocalInvocationID.x;
  reduce_partial[i] = a;
  barrier();
  for (uint n = gl_WorkGroupSize.x / 2u; n >= 8u; n /= 2u) {
    if (i < n) reduce_partial[i] += reduce_partial[i + n];
    barrier();
  }
  float sum = 0.0;
  for (uint j = 0; j < 8u; ++j) sum += reduce_partial[j];
  barrier(); // the next sum may overwrite them
  return sum;
}

#endif
