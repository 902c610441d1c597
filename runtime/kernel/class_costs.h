#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernel/choices.h"
#include "kernel/dispatch.h"

namespace pumice {

// What a launch of a class of shapes cost with the variant that was chosen for it, when it was measured.
struct ClassCost {
  double flops = 0, bytes = 0, seconds = 0;
};

// The measured costs of classes of shapes, by their names. Devices have one speed for all kernels
// (kernel/device_speed.h), of which some classes stay far behind.
class ClassCosts {
public:
  // Those that are kept among the tuning results in the device's file.
  static ClassCosts stored(const Pipelines& pipelines);

  // The seconds of a launch of this class, in proportion to its operations or its bytes, whichever are more.
  // For more than eight rows also by the nearest class (find_choice). Nothing if that was not measured.
  std::optional<double> seconds(std::string_view shape_class, const Dispatch& dispatch) const;

private:
  std::map<std::string, std::string> costs_;
};

// Adds to what is kept, or replaces it.
void store_costs(Pipelines& pipelines, const std::map<std::string, ClassCost>& costs);

} // namespace pumice
