// The hyperbolic tangent. The devices' own has too few digits, or computes infinity over infinity. Two functions, each as
// accurate as its use needs.
#ifndef PUMICE_TANH_GLSL
#define PUMICE_TANH_GLSL

// For activations: through exp, clamped so that no input gives infinity over infinity; near zero, where that would leave
// few digits, by its series.
float finite_tanh(float x) {
  float e = exp(2.0 * clamp(x, -15.0, 15.0));
  float square = x * x;
  return square < 0.01 ? x - x * square * (1.0 / 3.0 - square * (2.0 / 15.0)) : (e - 1.0) / (e + 1.0);
}

// For scores, which are multiplied by a large cap afterwards: to the last bits of a small argument too (Moshier, Cephes,
// tanhf.c).
float accurate_tanh(float x) {
  const float z = x * x;
  const float small = x + x * z * (-3.33332819422e-1 + z * (1.33314422036e-1 + z * (-5.37397155531e-2 +
                      z * (2.06390887954e-2 - z * 5.70498872745e-3))));
  const float large = 1.0 - 2.0 / (exp(2.0 * min(abs(x), 20.0)) + 1.0);
  return mix(mix(large, -large, x < 0.0), small, abs(x) < 0.625);
}

#endif
