// How the invocations of a kernel load what is laid out for eight of them.
#ifndef PUMICE_LOAD_H
#define PUMICE_LOAD_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

CONSTANT LOAD_LANE = 0;    // each lane loads its own 16 bytes
CONSTANT LOAD_UNIFORM = 1; // all lanes load the same 32 bytes, by address, and take their dword
CONSTANT LOAD_TEXEL = 2;   // as LOAD_LANE, as texels

PUMICE_PARAMS_END

#endif
