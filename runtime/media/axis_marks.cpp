#include "media/axis_marks.h"

#include <cmath>
#include <cstdint>

namespace pumice {

std::vector<double> axis_marks(double low, double high, int about) {
  const double rough = (high - low) / about;
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> marks;
  const double slack = step * 1e-6;
  for (auto i = static_cast<int64_t>(std::ceil((low - slack) / step)); i * step <= high + slack; ++i) {
    marks.push_back(i * step);
  }
  return marks;
}

} // namespace pumice
