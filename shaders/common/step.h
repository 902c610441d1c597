// What changes from one step to the next: the only memory that the host writes before a step, and the only
// place a kernel learns positions and counts from. Kernels that sample write the next step's rows here
// themselves.
#ifndef PUMICE_STEP_H
#define PUMICE_STEP_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Which count bounds the rows of a tensor.
CONSTANT ROWS_TOKENS = 0;  // one row for each token of the step
CONSTANT ROWS_OUTPUTS = 1; // one row for each token whose logits are wanted

// The block is an array of uvec4: a header, then `capacity` rows, then `capacity` details, then what belongs
// to each sequence whatever its rows (runtime/kernel/step_layout.h says where each part begins).
//   header:   x = count of tokens, y = count of outputs, z = results produced so far, w = unused
//   row:      x = token, y = position in its sequence, z = sequence, w = first position it may see, which is
//             where its text begins
//   detail i: of output i, x = index of the row whose logits are wanted, y = the token whose likelihood is
//   (see
//             scoring/); of row i, z = its token's type, w = the end of its input: the first position after
//             those that it sees where attention looks both ways
//   sequence: x = the first position of the encoder's input that its rows see, y = the one after the last
//   origin:   a uint for each position of each sequence: the sequence in whose cache its key and value lie.
//             Only where beams share what they have in common
CONSTANT STEP_HEADER_QUADS = 1;

PUMICE_PARAMS_END
#endif
