// Buffers that a kernel of the tier cpu8 reads as texels too: some drivers load a texel by lane many times
// faster than as much of a storage buffer. A slot's number gives the size of its texels.
#ifndef PUMICE_TEXELS_H
#define PUMICE_TEXELS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

CONSTANT TEXELS_BINDING = 12; // of slot 0 in the descriptor set, after all storage buffers
CONSTANT TEXEL_SLOTS = 4;
CONSTANT TEXEL_QUAD_SLOTS = 2; // the first ones: 16 bytes to a texel; the others: 4 bytes

PUMICE_PARAMS_END

#ifndef __cplusplus
#define TEXELS(name, slot) layout(set = 0, binding = TEXELS_BINDING + slot) uniform usamplerBuffer name
#endif

#endif
