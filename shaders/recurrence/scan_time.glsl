// A row's step of the selective scan, and what a head's state decays by. The including file has the buffers steps and weights.

float scan_rate(uint head) {
  const float a = weights[p.weight_stride + head];
  return LOG_A != 0u ? -exp(a) : a;
}

float scan_time(uint row, uint head) {
  return clamp(softplus(steps[row * p.steps_stride + head] + weights[head]), p.least_step, p.most_step);
}
