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

// Where the state before `position` begins: checkpoints have places of their own, and the others take turns in places for the
// latest, so that a step of one row and its guesses leaves the state that it began with.
uint state_at(uint sequence, uint position, uint checkpoints, uint drafts, uint size) {
  const uint latest = 2u + drafts;
  const uint place = is_checkpoint(position) ? latest + position / STATE_INTERVAL % checkpoints : position % latest;
  return (sequence * (latest + checkpoints) + place) * size;
}

// Whether the state before `position`, at which a run ends or goes on with `row`, is stored: a checkpoint, and those to which a
// sequence goes back from the run's end if guesses do not hold.
bool is_stored(uint sequence, uint position, uint row, uint rows, uint drafts) {
  if (is_checkpoint(position) || row + drafts >= rows) return true;
  const uvec4 later = step_row(row + drafts);
  return later.z != sequence || later.y != position + drafts;
}

// log(1 + exp(x)) without the loss of small numbers.
float softplus(float x) {
  if (x > 20.0) return x;
  precise float e = exp(max(x, -80.0));
  precise float u = 1.0 + e;
  return u == 1.0 ? e : log(u) * (e / (u - 1.0));
}

#endif
