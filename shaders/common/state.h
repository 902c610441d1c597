// The states that a recurrent operation keeps of each sequence: runtime/kernel/state_layout.h.
#ifndef PUMICE_STATE_H
#define PUMICE_STATE_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Positions from one checkpoint to the next.
CONSTANT STATE_INTERVAL = 64;

PUMICE_PARAMS_END
#endif
