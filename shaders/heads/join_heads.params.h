// For each row and head: result = columns of the first tensor, then columns of the second.
#ifndef PUMICE_JOIN_HEADS_PARAMS_H
#define PUMICE_JOIN_HEADS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT JOIN_HEADS_STEP = 0;
CONSTANT JOIN_HEADS_FIRST = 1;  // [rows, first_row]
CONSTANT JOIN_HEADS_SECOND = 2; // [rows, second_row]
CONSTANT JOIN_HEADS_RESULT = 3; // [rows, result_row]

// Specialisation constant 0 is the workgroup's size.

struct JoinHeadsParams {
  UINT heads;
  UINT rows_kind; // ROWS_*
  // Of each source: where its first float is, and how many floats lie from a row to the next, from a head to
  // the next, and how many of a head are copied.
  UINT first_at;
  UINT first_row;
  UINT first_head;
  UINT first_columns;
  UINT second_at;
  UINT second_row;
  UINT second_head;
  UINT second_columns;
  UINT result_row;  // floats from a row to the next; zeros follow the last head
  UINT result_head; // from a head to the next; zeros follow the columns
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::JoinHeadsParams) == 48);
#endif
#endif
