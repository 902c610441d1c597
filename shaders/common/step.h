// The step block: all that changes from one step to the next. It is the only memory that the host writes
// before a step, and kernels read positions and counts only from here. Sampling kernels write the next step's
// rows here.
#ifndef PUMICE_STEP_H
#define PUMICE_STEP_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Which count bounds the rows of a tensor.
CONSTANT ROWS_TOKENS = 0;  // one row for each token of the step
CONSTANT ROWS_OUTPUTS = 1; // one row for each token whose logits are wanted

// The block is an array of uvec4: a header, `capacity` rows, `capacity` details, one quad for each sequence,
// and the cache indirection (runtime/kernel/step_layout.h says where each section begins).
//   header:   x = count of tokens, y = count of outputs, z = results produced so far, w = unused
//   row:      x = token, y = position in its sequence, z = sequence, w = first position that it may see
//   detail i: of output i, x = index of the row whose logits are wanted, y = the token whose likelihood is
//             computed (see scoring/), or with sampling the tokens of its sequence that are guessed at, and
//             lie between those that were sampled and this output; of row i, z = its token's type, w = the
//             end of its input, for bidirectional attention, or of its picture: the position after the last
//   sequence: x = the first position of the encoder's input that its rows see, y = the one after the last
//             z = how far the rotary places of its text lag behind positions after its last picture
//   A row that has a place in a picture (ROTARY_PLACES_*): of its detail, z = its place down << 16 | its
//   place
//             across; of a decoder, w = how much less than its sequence's its rotary place lags
//   A patch of a picture: x = the first position of its window << STEP_WINDOW_BITS | the window's patches; of an
//             encoder without windows, the picture's patches down << 16 | across
//   cache indirection: in beam search, where beams share the positions that they have in common, one uint for
//             each position of each sequence: the number of the sequence whose cache holds its key and value.
//             Where sequences have pages of one pool (runtime/kernel/cache_layout.h), one for each page of
//             positions of each sequence: its number in the pool
CONSTANT STEP_HEADER_QUADS = 1;
CONSTANT STEP_WINDOW_BITS = 12;

PUMICE_PARAMS_END
#endif
