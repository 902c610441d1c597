// The rows of a workgroup that takes many: what they see is in shared memory.
shared uint row_text[TOKENS];
shared int row_position[TOKENS];
shared int row_first[TOKENS];
shared int row_last[TOKENS];
// Of the rows that see a text, the first has their turn, the others have nothing.
shared int turn_first[TOKENS];
shared int turn_last[TOKENS];

void read_rows(uint rows) {
  for (uint t = gl_LocalInvocationID.x; t < TOKENS; t += gl_WorkGroupSize.x) {
    const Row row = read_row(first_token() + t, rows);
    row_text[t] = row.text;
    row_position[t] = row.position;
    row_first[t] = row.first;
    row_last[t] = row.last;
  }
}

// Once all rows are read.
void find_turns() {
  for (uint t = gl_LocalInvocationID.x; t < TOKENS; t += gl_WorkGroupSize.x) {
    int first = int(p.position_limit), last = -1;
    bool again = false;
    [[dont_unroll]] for (uint other = 0; other < TOKENS; ++other) {
      if (row_text[other] != row_text[t]) continue;
      again = again || other < t;
      if (row_first[other] > row_last[other]) continue;
      first = min(first, row_first[other]);
      last = max(last, row_last[other]);
    }
    turn_first[t] = first;
    turn_last[t] = again ? -1 : last;
  }
}

Turn turn_of(uint t) { return Turn(row_text[t], turn_first[t], turn_last[t]); }

Row row_of(uint m) {
  const uint t = min(m / HEADS, TOKENS - 1u);
  return Row(row_text[t], row_position[t], row_first[t], row_last[t]);
}
