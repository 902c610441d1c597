// How the numbers of adapters' matrices are kept, as in their files.
#ifndef PUMICE_ADAPTER_NUMBERS_H
#define PUMICE_ADAPTER_NUMBERS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

CONSTANT ADAPTER_F32 = 0;
CONSTANT ADAPTER_F16 = 1;  // two to a dword
CONSTANT ADAPTER_BF16 = 2; // likewise

PUMICE_PARAMS_END

#endif
