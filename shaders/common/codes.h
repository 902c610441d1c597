// How codes of quantised weights become numbers in kernels of few rows, where that is most of their work. All ways give the
// same bits.
#ifndef PUMICE_CODES_H
#define PUMICE_CODES_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Each is cut out of its dword and converted: right for any device.
CONSTANT CODES_FIELDS = 0;
// Four unsigned codes are masked together, where an instruction makes a number of any byte of a register.
CONSTANT CODES_BYTES = 1;
// A code becomes the last bits of a large number's mantissa, and the number is subtracted: one operation on integers, where
// these and conversions have half of the rate of floats.
CONSTANT CODES_MANTISSA = 2;

PUMICE_PARAMS_END

#endif
