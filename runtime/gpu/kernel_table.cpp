#include "gpu/kernel_table.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpu/packed_code.h"

namespace pumice {

std::span<const uint32_t> KernelBinary::code() const {
  static std::mutex mutex;
  static std::unordered_map<const uint16_t*, std::vector<uint32_t>> unpacked;
  const std::span<const uint32_t> beside = base ? base->code() : std::span<const uint32_t>();
  const std::lock_guard lock(mutex);
  const auto found = unpacked.find(packed.data());
  if (found != unpacked.end()) return found->second;
  return unpacked.emplace(packed.data(), unpack_code(packed, beside))
      .first->second; // memory may run out on the way
}

const KernelBinary* find_kernel(std::string_view name) {
  const std::span<const KernelBinary> table = kernel_binaries();
  auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const KernelBinary& kernel, std::string_view key) { return kernel.name < key; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

} // namespace pumice
