// A cache that is too large for one binding lies in parts, with a launch for each
// (runtime/kernel/cache_layout.h).
#ifndef PUMICE_CACHE_PARTS_H
#define PUMICE_CACHE_PARTS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Values of the specialisation constants that say what part a launch has.
CONSTANT CACHE_PARTS_NONE = 0;      // all
CONSTANT CACHE_PARTS_POSITIONS = 1; // some positions of each sequence
CONSTANT CACHE_PARTS_SEQUENCES = 2; // some sequences

PUMICE_PARAMS_END
#endif
