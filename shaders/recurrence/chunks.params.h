// The gated delta rule and the selective scan in chunks of rows. Within a chunk, what a row gives is the sum
// of what it reads of the state before the chunk and of what the rows before it added. With D[t, i] = the
// product of the keeps of the rows after i up to t, and the state S before the chunk:
//   result[t] = D[t, -1] q[t] S + sum over i <= t of D[t, i] (q[t] . k[i]) u[i],
//   S after a chunk of C rows = D[C - 1, -1] S + sum over i of D[C - 1, i] k[i] u[i]
// The scan's u[i] is x[i] times its step. The delta rule's changes depend on one another (Yang et al. 2024,
// the WY form):
//   u[t] = rates[t] (v[t] - D[t, -1] k[t] S - sum over i < t of D[t, i] (k[t] . k[i]) u[i])
// which is linear in v and S: chunk_matrices solves it for both, so that u = a part of v - w S. chunk_states
// then goes from chunk to chunk with products of matrices.
#ifndef PUMICE_CHUNKS_PARAMS_H
#define PUMICE_CHUNKS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Rows of a chunk, which begins at a multiple of so many positions; a divisor of STATE_INTERVAL.
CONSTANT CHUNK_ROWS = 32;
CONSTANT CHUNK_RECORD = CHUNK_ROWS + 4; // floats that chunk_matrices leaves of a row and a head
// Invocations of a workgroup.
CONSTANT CHUNK_INVOCATIONS = 128;

// Buffers. Of the selective scan, queries are C, keys are B, and values are x.
CONSTANT CHUNKS_STEP = 0;
CONSTANT CHUNKS_QUERY = 1; // [tokens, query_stride]
CONSTANT CHUNKS_KEY = 2;   // [tokens, key_stride]
CONSTANT CHUNKS_VALUE = 3; // [tokens, value_stride]
// A slot may stand for two buffers, which no kernel has both of: some devices bind no more than eight.
CONSTANT CHUNKS_GATES = 4;   // [tokens, gates_stride]: the delta rule's keeps and rates; the scan's steps
CONSTANT CHUNKS_STATE = 4;   // [size, columns] each
CONSTANT CHUNKS_WEIGHTS = 5; // the scan's, as selective_scan.params.h has them
CONSTANT CHUNKS_CHANGES = 5; // [tokens, heads, size rounded up to 4]: the delta rule's w
// [tokens, heads, CHUNK_RECORD]: a row of D (q . k), zero for later rows; then the scales of the row's query
// before S, of its key in S after the chunk, and of S after the chunk.
CONSTANT CHUNKS_MATRICES = 6;
CONSTANT CHUNKS_RESULT = 7; // [tokens, out_stride]; between the kernels, the delta rule's parts of v

// Specialisation constants.
CONSTANT CHUNKS_ONE_RUN_ID = 0; // 1: a step's rows are one run
CONSTANT CHUNKS_SIZE_ID = 1;    // params.size
CONSTANT CHUNKS_QUADS_ID = 2;   // 1: queries and keys are read by four: strides and size are multiples of 4
CONSTANT CHUNKS_COLUMNS_ID = 3; // of chunk_states: columns of a workgroup, 8, 16 or 32
CONSTANT CHUNKS_LOG_A_ID = 4;   // of the scan: the file has logarithms

struct ChunkParams {
  UINT columns;      // heads * head_dim
  UINT head_dim;     // of values
  UINT size;         // of a channel's state
  UINT key_share;    // neighbouring heads with one query and key
  UINT key_heads;    // after the last one, heads begin with the first again
  UINT query_stride; // in floats
  UINT key_stride;
  UINT value_stride;
  UINT gates_stride;
  UINT out_stride;
  UINT weight_stride;
  UINT checkpoints; // of the states
  UINT drafts;      // the same
  float least_step;
  float most_step;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ChunkParams) == 60);
#endif
#endif
