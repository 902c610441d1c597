// Small kernels that time the device itself.
#ifndef PUMICE_PROBE_PARAMS_H
#define PUMICE_PROBE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT PROBE_SOURCE = 0;
CONSTANT PROBE_TARGET = 1;
CONSTANT PROBE_TEXELS = 0; // of the source (common/texels.h)

// Specialisation constants. 0 is the workgroup's size.
// LOAD_LANE, LOAD_UNIFORM or LOAD_TEXEL. Halves: 0 two of a row in a dword, 1 those of a column side by side.
CONSTANT PROBE_LOAD_ID = 1;

struct ProbeParams {
  ADDRESS source;
  UINT quads; // of 16 bytes, for each workgroup
  UINT reserved;
};

PUMICE_PARAMS_END
#endif
