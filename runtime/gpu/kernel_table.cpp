#include "gpu/kernel_table.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace pumice {

std::vector<uint32_t> unpack_code(std::span<const uint16_t> packed) {
  std::vector<uint32_t> code;
  code.reserve(packed.size());
  for (size_t i = 0; i < packed.size(); ++i) {
    const uint32_t number = packed[i];
    if (number < 0x8000) {
      code.push_back(number);
    } else if (number < 0xffff) {
      code.push_back((number & 0x7fff) >> 9 << 16 | (number & 0x1ff));
    } else {
      code.push_back(uint32_t{packed[i + 1]} << 16 | packed[i + 2]);
      i += 2;
    }
  }
  return code;
}

std::span<const uint32_t> KernelBinary::code() const {
  static std::mutex mutex;
  static std::unordered_map<const uint16_t*, std::vector<uint32_t>> unpacked;
  const std::lock_guard lock(mutex);
  const auto found = unpacked.find(packed.data());
  if (found != unpacked.end()) return found->second;
  return unpacked.emplace(packed.data(), unpack_code(packed)).first->second; // memory may run out on the way
}

const KernelBinary* find_kernel(std::string_view name) {
  const std::span<const KernelBinary> table = kernel_binaries();
  auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const KernelBinary& kernel, std::string_view key) { return kernel.name < key; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

} // namespace pumice
