// The end of a row of activations. A row of a view is followed by its neighbour's numbers, but a row that is written must be
// padded with zeros.
#ifndef PUMICE_COLUMNS_GLSL
#define PUMICE_COLUMNS_GLSL

// v, which holds columns 4 * quad and on, with zeros for those that do not exist.
vec4 keep_columns(vec4 v, uint quad, uint columns) {
  return mix(vec4(0.0), v, lessThan(uvec4(0, 1, 2, 3) + 4u * quad, uvec4(columns)));
}

#endif
