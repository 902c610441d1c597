// A row's step of the selective scan, what a head's state decays by, and what skips it. The including file has the buffers
// steps and weights.

float scan_skip(uint head) { return weights[p.weight_stride + head]; }

float scan_rate(uint at) {
  const float a = weights[2u * p.weight_stride + at];
  return LOG_A != 0u ? -exp(a) : a;
}

float scan_time(uint row, uint head) {
  return clamp(softplus(steps[row * p.steps_stride + head] + weights[head]), p.least_step, p.most_step);
}
