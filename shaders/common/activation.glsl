// The activations, chosen by number so that a specialisation constant can leave all but one out.
#ifndef PUMICE_ACTIVATION_GLSL
#define PUMICE_ACTIVATION_GLSL
#include "common/activation.h"
#include "common/tanh.glsl"

// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; the error is below 1.5e-7.
float error_function(float x) {
  float t = 1.0 / (1.0 + 0.3275911 * abs(x));
  float p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  float y = 1.0 - p * exp(-x * x);
  return mix(y, -y, x < 0.0);
}

float activate(uint kind, float x) {
  if (kind == ACTIVATION_SILU) return x / (1.0 + exp(-clamp(x, -80.0, 80.0)));
  if (kind == ACTIVATION_GELU) return 0.5 * x * (1.0 + error_function(x * 0.70710678118654752));
  if (kind == ACTIVATION_GELU_TANH) return 0.5 * x * (1.0 + finite_tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  if (kind == ACTIVATION_RELU) return max(x, 0.0);
  if (kind == ACTIVATION_TANH) return finite_tanh(x);
  if (kind == ACTIVATION_QUICK_GELU) return x / (1.0 + exp(-clamp(1.702 * x, -80.0, 80.0)));
  return x;
}

#endif
