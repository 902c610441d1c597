// The end of an activation's row: a view's is followed by its neighbour's numbers, and what is written must end in zeros.
#ifndef PUMICE_COLUMNS_GLSL
#define PUMICE_COLUMNS_GLSL

// v, which holds columns 4 * quad and on, with zeros for those that do not exist.
vec4 keep_columns(vec4 v, uint quad, uint columns) {
  return mix(vec4(0.0), v, lessThan(uvec4(0, 1, 2, 3) + 4u * quad, uvec4(columns)));
}

#endif
