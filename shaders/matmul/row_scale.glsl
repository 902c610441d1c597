// What x still lacks of a norm: 1 / sqrt(mean of its row's squares + eps). The squares were left as sums, one for each eight
// columns, from quad `at` of x.
float row_scale_of(uint at, uint columns, float eps) {
  vec4 parts = vec4(0.0);
#ifdef LANE
  for (uint i = LANE; i * 32u < columns; i += 8u) parts += x[at + i];
  const float squares = lane_sum((parts.x + parts.y) + (parts.z + parts.w));
#else
  for (uint i = 0; i * 32u < columns; ++i) parts += x[at + i];
  const float squares = (parts.x + parts.y) + (parts.z + parts.w);
#endif
  return 1.0 / sqrt(squares / float(columns) + eps);
}
