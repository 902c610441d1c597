// The second half of a root-mean-square norm of x: 1 / sqrt(mean of the row's squares + eps). The product before stored the
// sums of squares of each eight columns, from quad `at` of x.
float row_scale_of(uint at, uint columns, float eps) {
  vec4 sums_of_squares = vec4(0.0);
#ifdef LANE
  for (uint i = LANE; i * 32u < columns; i += 8u) sums_of_squares += x[at + i];
  const float squares = lane_sum((sums_of_squares.x + sums_of_squares.y) + (sums_of_squares.z + sums_of_squares.w));
#else
  for (uint i = 0; i * 32u < columns; ++i) sums_of_squares += x[at + i];
  const float squares = (sums_of_squares.x + sums_of_squares.y) + (sums_of_squares.z + sums_of_squares.w);
#endif
  return 1.0 / sqrt(squares / float(columns) + eps);
}
