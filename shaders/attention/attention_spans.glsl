// How the sums over spans of positions are merged. A row's span 0 is the one that its first position lies in. A row that
// sees nothing has no spans.
int span_begin(Row row, uint span) { return int((uint(row.first) / SPAN + span) * SPAN); }

uint span_count(Row row) {
  return row.first <= row.last ? uint(row.last) / SPAN - uint(row.first) / SPAN + 1u : 0u;
}

bool has_span(Row row, uint span) { return row.first <= row.last && span_begin(row, span) <= row.last; }

// `row` counts from the dispatch's first.
uint span_place(uint row, uint head, uint span) {
  return ((row * p.heads + head) * p.spans + span) * (HEAD_DIM + 2u);
}

// Two partial softmax sums are added under the larger of their maxima: sum a times factor a, plus sum b times factor b.
struct Rescale {
  float maximum;
  float a;
  float b;
};

Rescale merge(float maximum_a, float maximum_b) {
  const float maximum = max(maximum_a, maximum_b);
  return Rescale(maximum, correction(maximum_a, maximum), correction(maximum_b, maximum));
}

float merged(float a, float b, Rescale rescale) { return fma(a, rescale.a, b * rescale.b); }
