// The table of a text's form: which tokens may follow at a place, and where they lead. sampling.params.h says how it is laid
// out. `table` is where it begins.
#ifndef PUMICE_SAMPLING_FORM_GLSL
#define PUMICE_SAMPLING_FORM_GLSL

uint half_of(uint pair, uint n) { return (n & 1u) == 0u ? pair & 0xffffu : pair >> 16; }

// Where the classes of a block's tokens begin.
uint form_page(uint table, uint block) {
  const uint page = half_of(forms[table + SAMPLING_FORM_HEADER + (block >> 1)], block);
  return table + forms[table + SAMPLING_FORM_PAGES] + page * SAMPLING_FORM_PAGE;
}

uint form_row(uint table, uint place) { return table + forms[table + forms[table + SAMPLING_FORM_ROWS] + place]; }

// The bits of a block's tokens that may follow.
uint allowed_by_form(uint table, uint place, uint block) {
  const uint page = form_page(table, block), row = form_row(table, place);
  uint allowed = 0u;
  [[dont_unroll]] for (uint i = 0u; i < SAMPLING_FORM_PAGE; ++i) {
    const uint pair = forms[page + i];
    const uint low = forms[row + (pair & 0xffffu)] >> 16, high = forms[row + (pair >> 16)] >> 16;
    allowed |= (uint(low == place) | uint(high == place) << 1u) << (2u * i);
  }
  return allowed;
}

// Where a token leads, or SAMPLING_NOWHERE.
uint form_step(uint table, uint place, uint token) {
  const uint token_class = half_of(forms[form_page(table, token / SAMPLING_BLOCK) + (token % SAMPLING_BLOCK >> 1)], token);
  const uint found = forms[form_row(table, place) + token_class];
  return found >> 16 == place ? found & 0xffffu : SAMPLING_NOWHERE;
}

#endif
