#include "gpu/kernel_table.h"

#include <algorithm>

namespace pumice {

const KernelBinary* find_kernel(std::string_view name) {
  const std::span<const KernelBinary> table = kernel_binaries();
  auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const KernelBinary& kernel, std::string_view key) { return kernel.name < key; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

} // namespace pumice
