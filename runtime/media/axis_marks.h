#pragma once

#include <vector>

namespace pumice {

// The marks of a linear axis from `low` to `high`: about `about` multiples of 1, 2 or 5 times a power of ten.
std::vector<double> axis_marks(double low, double high, int about);

} // namespace pumice
