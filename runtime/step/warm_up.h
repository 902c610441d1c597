#pragma once

#include "step/batch.h"

namespace pumice {

// Runs steps of each size that a batch needs, in slices, until the costs of all dispatches are known. The
// caches are empty afterwards.
Status warm_up(Batch& batch, Slicer& slicer);

} // namespace pumice
