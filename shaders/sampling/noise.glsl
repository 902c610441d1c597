// Random numbers that depend on their arguments alone.
#ifndef PUMICE_SAMPLING_NOISE_GLSL
#define PUMICE_SAMPLING_NOISE_GLSL

// pcg4d of Jarzynski and Olano 2020, "Hash Functions for GPU Rendering", JCGT 9(3).
uint random_bits(uvec4 v) {
  v = v * 1664525u + 1013904223u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  v ^= v >> 16u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  return v.x;
}

// Between 0 and 1.
float fraction(uint bits) { return (float(bits) + 0.5) * 2.3283064365386963e-10; }

// -log(-log(1 - c)), exact also where c is too small for 1 - c to show it; between -2.9 and 22.9.
float gumbel(uint bits) {
  const float c = min(fraction(bits), 0.99999994);
  return -log(c < 1e-3 ? c + 0.5 * c * c : -log(1.0 - c));
}

#endif
