// What the kernels of gated recurrent units share. Declared before: HIDDEN, `weights`, and the shared `state`, padded with
// zeros to STATE columns.
#include "common/tanh.glsl"

const uint MOST_COLUMNS = 16; // of an invocation
const uint COLUMNS = (HIDDEN + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;

float sigmoid(float x) { return 1.0 / (1.0 + exp(-clamp(x, -80.0, 80.0))); }

float gru_cell(vec3 x, vec3 h, float before) {
  const float r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]);
  const float n = finite_tanh(x[2] + r * h[2]);
  return (1.0 - z) * n + z * before;
}

// The product of a row of a matrix with a vector, eight columns in a pass: some drivers end a shader's loops after 65,535
// passes in all. More in a pass, as a compiler makes it where it knows their number, spills on Adreno.
#define DOT(NAME, VECTOR)                                                      \
  float NAME(uint matrix, uint row, uint columns) {                            \
    const uint at = matrix + row * columns;                                    \
    float sum = 0.0;                                                           \
    uint c = 0u;                                                               \
    [[dont_unroll]] for (; c + 8u <= columns; c += 8u) {                       \
      [[unroll]] for (uint i = 0u; i < 8u; ++i) sum = fma(weights[at + c + i], VECTOR[c + i], sum); \
    }                                                                          \
    for (; c < columns; ++c) sum = fma(weights[at + c], VECTOR[c], sum);       \
    return sum;                                                                \
  }

DOT(state_product, state)

// Column i of the three gates' share of the state.
vec3 recurrent(uint matrix, uint bias, uint i) {
  vec3 sum;
  for (uint j = 0u; j < 3u; ++j) {
    sum[j] = state_product(matrix, j * HIDDEN + i, HIDDEN) + weights[bias + j * HIDDEN + i];
  }
  return sum;
}
