// What the attention kernels share: which rows a workgroup has and which positions they may see.
// A workgroup takes HEADS heads of one group (gl_WorkGroupID.x) and TOKENS rows of the step (gl_WorkGroupID.y), and
// all their queries share each load of a key or value.

const uint QUERIES = HEADS * TOKENS;
const uint DIM_PADDED = (HEAD_DIM + 7) / 8 * 8;
#if CACHE_TYPE == 0
const uint PER_CHUNK = 4; // elements in 16 bytes
#else
const uint PER_CHUNK = 8;
#endif
const uint CHUNKS = DIM_PADDED / PER_CHUNK;

// Scores are clamped to this, so that no difference of two overflows.
const float SCORE_LIMIT = 1e30;
const float NO_SCORE = -3e38; // below every score: the maximum over nothing

uint group_heads() { return p.heads / p.kv_heads; }
uint parts() { return (group_heads() + HEADS - 1u) / HEADS; } // workgroups that a group takes
uint kv_head() { return gl_WorkGroupID.x / parts(); }
uint first_token() { return gl_WorkGroupID.y * TOKENS; }

// Heads and tokens past the end repeat the last, so that no load needs a guard; they are not stored.
uint head_in_group(uint m) { return (gl_WorkGroupID.x % parts()) * HEADS + m % HEADS; }
uint query_head(uint m) { return kv_head() * group_heads() + min(head_in_group(m), group_heads() - 1u); }
bool is_stored(uint m, uint rows) { return head_in_group(m) < group_heads() && first_token() + m / HEADS < rows; }

// The positions that a row of the step may see: first to last, both included; none where first > last.
struct Row {
  uint sequence;
  int first;
  int last;
};

Row read_row(uint token, uint rows) {
  const uvec4 row = step_block[STEP_HEADER_QUADS + min(token, rows - 1u)];
  Row result;
  result.sequence = row.z;
  result.last = int(min(p.end != 0u ? p.end - 1u : row.y, p.capacity - 1u));
  result.first = int(row.w);
  if (p.window != 0u) result.first = max(result.first, int(row.y) - int(p.window - 1u));
  return result;
}

// The rows of one sequence, and the positions that any of them sees.
struct Turn {
  uint sequence;
  int first;
  int last;
};

// Nothing (last is -1) for rows that see nothing, or whose sequence had an earlier turn.
Turn take_turn(Row row[TOKENS], uint turn) {
  Turn now = Turn(row[0].sequence, int(p.capacity), -1);
  [[unroll]] for (uint t = 1; t < TOKENS; ++t) now.sequence = turn == t ? row[t].sequence : now.sequence;
  bool again = false;
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    if (row[t].sequence == now.sequence && row[t].first <= row[t].last) {
      now.first = min(now.first, row[t].first);
      now.last = max(now.last, row[t].last);
    }
    again = again || (t < turn && row[t].sequence == now.sequence);
  }
  if (again) now.last = -1;
  return now;
}

bool sees(Row row, Turn now, int position) {
  return row.sequence == now.sequence && position >= row.first && position <= row.last;
}

// Where the sequence's keys or values of this workgroup's head begin, in 16 bytes.
uint head_base(uint sequence) { return (sequence * p.kv_heads + kv_head()) * p.capacity * CHUNKS; }

// A score within the limits whatever came in; a NaN is taken for the least.
float finite_score(float score) { return score >= -SCORE_LIMIT ? min(score, SCORE_LIMIT) : -SCORE_LIMIT; }

// What the old sums are worth under a new maximum. Exactly one where it is not new: a block in which a row sees
// nothing must not change the row's sums.
float correction(float old_maximum, float new_maximum) {
  return old_maximum == new_maximum ? 1.0 : exp2(old_maximum - new_maximum);
}

// The scale of scores, for exponentials to the base of two.
float score_scale() { return p.scale * 1.4426950408889634; }

// Columns after a row's last head, up to the next multiple of 32, are zeros.
uint columns() { return p.heads * HEAD_DIM; }
