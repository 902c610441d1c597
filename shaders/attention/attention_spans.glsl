// How the sums over spans of positions are added up. A row's spans are counted from the one that its first position
// lies in; it has none where it sees nothing.
int span_begin(Row row, uint span) { return int((uint(row.first) / SPAN + span) * SPAN); }

bool has_span(Row row, uint span) { return row.first <= row.last && span_begin(row, span) <= row.last; }

uint span_place(uint token, uint head, uint span) {
  return ((token * p.heads + head) * p.spans + span) * (HEAD_DIM + 2u);
}

// What two sums are worth under the larger of their maxima.
struct Worth {
  float maximum;
  float a;
  float b;
};

Worth merge(float maximum_a, float maximum_b) {
  const float maximum = max(maximum_a, maximum_b);
  return Worth(maximum, correction(maximum_a, maximum), correction(maximum_b, maximum));
}

float merged(float a, float b, Worth worth) { return fma(a, worth.a, b * worth.b); }
