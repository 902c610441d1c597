// result[row] = scale * table[offset + the row's token, position or type]; the table is packed as matrices
// are.
#ifndef PUMICE_EMBEDDING_PARAMS_H
#define PUMICE_EMBEDDING_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT EMBEDDING_STEP = 0;
CONSTANT EMBEDDING_TABLE = 1;  // packed payload
CONSTANT EMBEDDING_SCALES = 2; // packed scales
CONSTANT EMBEDDING_RESULT = 3; // [rows, out_stride]
CONSTANT EMBEDDING_OTHERS = 4; // [rows, others_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT EMBEDDING_LANE_BYTES_ID = 1; // of the packed table, see common/packed_row.glsl
CONSTANT EMBEDDING_INDEX_ID = 2;      // EMBEDDING_BY_*: what of a row says what to take

CONSTANT EMBEDDING_HAS_OTHERS_ID = 3; // 1: rows whose token the table lacks are those of `others`

CONSTANT EMBEDDING_BY_TOKEN = 0;
CONSTANT EMBEDDING_BY_POSITION = 1; // counted from where the row's text begins
CONSTANT EMBEDDING_BY_TYPE = 2;

struct EmbeddingParams {
  UINT blocks;     // of 32 columns
  UINT first_tile; // of the table that this part of it starts with
  UINT tiles;      // in this part
  UINT rows;       // of the table
  UINT out_stride; // in floats
  UINT offset;     // of the table's rows
  UINT details;    // where this part of the step block begins, in quads
  UINT first_token; // of the table
  UINT others_stride;
  float scale;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::EmbeddingParams) == 40);
#endif
#endif
