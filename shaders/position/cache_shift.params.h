// Moves keys and values of a sequence to earlier positions of its cache, and rotates the keys back by the
// distance (runtime/kernel/cache_layout.h). The positions that are read and those that are written do not
// overlap.
#ifndef PUMICE_CACHE_SHIFT_PARAMS_H
#define PUMICE_CACHE_SHIFT_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SHIFT_TABLE = 0; // the revolutions of position/rotary_store.params.h
CONSTANT SHIFT_KEYS = 1;
CONSTANT SHIFT_VALUES = 2;

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SHIFT_PAIRS_ID = 1;    // ROTARY_PAIRS_* of position/rotary_store.params.h
CONSTANT SHIFT_DIM_ID = 2;      // the first dimensions of a head, which are rotated: even
CONSTANT SHIFT_HEAD_DIM_ID = 3; // with its padding

struct CacheShiftParams {
  UINT kv_heads;
  UINT capacity; // positions of one sequence in the cache
  UINT sequence;
  UINT first;    // the position to write first; a row of workgroups for each further one
  UINT distance; // to the position that is read for it
  UINT reserved;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::CacheShiftParams) == 24);
#endif
#endif
