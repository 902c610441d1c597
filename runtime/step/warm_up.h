#pragma once

#include "step/batch.h"

namespace pumice {

// Runs steps of each size that a batch of one sequence needs, in slices, until every dispatch has been timed
// often enough for what slices are expected to take. Nothing stays in the caches.
Status warm_up(Batch& batch, TimeSlicer& slices);

} // namespace pumice
