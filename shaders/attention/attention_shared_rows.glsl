// The rows of a workgroup that has many of them are kept in shared memory.
shared uint row_source[TOKENS];
shared int row_position[TOKENS];
shared int row_first[TOKENS];
shared int row_last[TOKENS];
shared uint row_index[TOKENS];
// The SourceRange of each row.
shared int range_first[TOKENS];
shared int range_last[TOKENS];
// And the positions that all rows see: from the latest first one to the earliest last one.
shared int common_first[TOKENS];
shared int common_last[TOKENS];

void read_rows(uint rows) {
  for (uint t = gl_LocalInvocationID.x; t < TOKENS; t += gl_WorkGroupSize.x) {
    const Row row = read_row(first_token() + t, rows);
    row_source[t] = row.source;
    row_position[t] = row.position;
    row_first[t] = row.first;
    row_last[t] = row.last;
    row_index[t] = row.index;
  }
}

// To be called after read_rows() and a barrier.
void find_source_ranges() {
  for (uint t = gl_LocalInvocationID.x; t < TOKENS; t += gl_WorkGroupSize.x) {
    int first = int(p.position_limit), last = -1;
    ivec2 of_all = ivec2(0, int(p.position_limit));
    bool again = false;
    [[dont_unroll]] for (uint other = 0; other < TOKENS; ++other) {
      const bool same = row_source[other] == row_source[t];
      of_all = ivec2(max(of_all.x, row_first[other]), same ? min(of_all.y, row_last[other]) : -1);
      if (!same) continue;
      again = again || other < t;
      if (row_first[other] > row_last[other]) continue;
      first = min(first, row_first[other]);
      last = max(last, row_last[other]);
    }
    range_first[t] = first;
    range_last[t] = again ? -1 : last;
    common_first[t] = of_all.x;
    common_last[t] = of_all.y;
  }
}

// Where tiles of `size` positions begin that all rows of the workgroup see whole: from x to y, both included.
ivec2 whole_begins(uint t, int size) { return ivec2(common_first[t], common_last[t] - size + 1); }

SourceRange source_range(uint t) { return SourceRange(row_source[t], range_first[t], range_last[t]); }

Row row_of(uint m) {
  const uint t = min(m / HEADS, TOKENS - 1u);
  return Row(row_source[t], row_position[t], row_first[t], row_last[t], row_index[t]);
}
