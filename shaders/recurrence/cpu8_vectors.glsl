// States in registers, for CPU drivers: a subgroup of 8 lanes has CHANNELS channels of a state. Lane l of vector i has row
// 8 i + l of them. The including file has the buffer state, and defines SIZE (rows of a state), CHANNELS, LOAD and p.columns.

const uint VECTORS = (SIZE + 7) / 8;

// Vector i of SIZE floats from `at` on.
#define LOAD_VECTOR(name, at, i) (8u * (i) + LANE < SIZE ? name[(at) + 8u * (i) + LANE] : 0.0)
// The same by address, where a head's numbers fill whole vectors.
float uniform_vector(uvec2 address, uint i) {
  return uintBitsToFloat(lane_select(AddressU32x4(address).d[2u * i], AddressU32x4(address).d[2u * i + 1u]));
}

void load_state(uvec4 token, uint channel, out float s[CHANNELS][VECTORS]) {
  const uint from = state_at(token.z, token.y, p.checkpoints, p.drafts, SIZE * p.columns) + channel;
  const bool begins = token.y == token.w;
  [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
    const uint n = 8u * i + LANE;
    [[unroll]] for (uint c = 0; c < CHANNELS; ++c) {
      s[c][i] = 0.0;
      if (!begins && n < SIZE) s[c][i] = state[from + n * p.columns + c];
    }
  }
}

void store_state(uint sequence, uint position, uint channel, float s[CHANNELS][VECTORS]) {
  const uint to = state_at(sequence, position, p.checkpoints, p.drafts, SIZE * p.columns) + channel;
  [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
    const uint n = 8u * i + LANE;
    if (n >= SIZE) continue;
    [[unroll]] for (uint c = 0; c < CHANNELS; ++c) state[to + n * p.columns + c] = s[c][i];
  }
}

// Lane c writes the result of channel c.
void store_results(uint at, float values[CHANNELS]) {
  float own = values[0];
  [[unroll]] for (uint c = 1; c < CHANNELS; ++c) own = LANE == c ? values[c] : own;
  if (LANE < CHANNELS) result[at + LANE] = own;
}
