// Runs of rows, and where their sequences' states are. A run is the rows of a step that follow one another in a sequence:
// the workgroups of its first row compute all of it, one position after the other, so that no bit depends on how a text is
// cut into steps.
#ifndef PUMICE_STATE_GLSL
#define PUMICE_STATE_GLSL
#include "common/state.h"

uvec4 step_row(uint row) { return step_block[STEP_HEADER_QUADS + row]; }

// Whether a row of the step goes on with the run of the row before.
bool goes_on(uint row) {
  if (row == 0u) return false;
  const uvec4 before = step_row(row - 1u), own = step_row(row);
  return own.z == before.z && own.y == before.y + 1u;
}

bool is_checkpoint(uint position) { return position % STATE_INTERVAL == 0u; }

// Where the state before `position` begins: checkpoints have places of their own, and those before other even and odd positions
// have one each, so that a step of one row leaves the state that it began with.
uint state_at(uint sequence, uint position, uint checkpoints, uint size) {
  const uint place = is_checkpoint(position) ? 2u + position / STATE_INTERVAL % checkpoints : position % 2u;
  return (sequence * (2u + checkpoints) + place) * size;
}

// log(1 + exp(x)) without the loss of small numbers.
float softplus(float x) {
  if (x > 20.0) return x;
  precise float e = exp(max(x, -80.0));
  precise float u = 1.0 + e;
  return u == 1.0 ? e : log(u) * (e / (u - 1.0));
}

#endif
