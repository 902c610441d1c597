#version 450

// Arithmetic only: how long it takes depends on nothing but the device and what else it has to do.
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer Result { float result; };
layout(push_constant) uniform Parameters { uint rounds; };

void main() {
  float x = float(gl_GlobalInvocationID.x);
  for (uint round = 0; round < rounds; ++round) x = x * 0.999 + 0.5;
  if (x < 0) result = x; // never, which the compiler cannot know
}
