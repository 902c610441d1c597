#pragma once

#include <vector>

#include "kernel/position/cache_shift.h"
#include "step/runner.h"

namespace pumice {

// Closes the gap that forgotten tokens leave in a sequence: what the caches have of the tokens behind them
// moves to earlier positions, and keys are rotated to these. So they need not be computed again. It is not
// what computing them again would give: they have seen what was forgotten, and so have the layers behind the
// first.
class PositionShift {
public:
  // Error: why the caches of this model, in a session like this, cannot be shifted.
  static Result<PositionShift> create(const Runner& runner);

  // Of a sequence with `end` positions: forgets `forgotten` of them behind the first `kept`, and waits.
  Status run(const Runner& runner, uint32_t sequence, uint32_t kept, uint32_t forgotten, uint32_t end);

private:
  struct Layer {
    RotaryPairs pairs = RotaryPairs::none;
    uint32_t dim = 0;
    BufferRef table;
  };

  std::vector<Layer> layers_; // as the runner's caches
  Buffer tables_;
};

} // namespace pumice
