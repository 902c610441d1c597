// A channel's part of a state, [p.size, p.columns], in the place of the latest one.

// Where it begins, after the state that the run starts from was copied there.
uint begin_state(uvec4 token, uint channel) {
  const uint size = p.size * p.columns;
  const uint work = token.z * (1u + p.checkpoints) * size + channel;
  const uint from = state_at(token.z, token.y, p.checkpoints, size) + channel;
  for (uint n = 0; n < p.size; ++n) {
    if (token.y == token.w) {
      state[work + n * p.columns] = 0.0;
    } else if (from != work) {
      state[work + n * p.columns] = state[from + n * p.columns];
    }
  }
  return work;
}

void keep_state(uint sequence, uint position, uint channel, uint work) {
  const uint to = state_at(sequence, position, p.checkpoints, p.size * p.columns) + channel;
  for (uint n = 0; n < p.size; ++n) state[to + n * p.columns] = state[work + n * p.columns];
}
