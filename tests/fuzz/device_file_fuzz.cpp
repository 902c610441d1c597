// Files of what is kept of a device, from anyone: whatever the bytes, parsing them is defined behaviour.
#include "gpu/cache_folder/device_file.h"

#include <cstdint>
#include <vector>

#include "io/checksum.h"

using namespace pumice;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Capabilities device;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  (void)parse_device_file({begin, size}, device);
  // What comes after the identity is only reached where that and the checksum are right.
  constexpr size_t identity_bytes = 64;
  std::vector<std::byte> sealed = pack_device_file(device, {});
  sealed.resize(identity_bytes);
  sealed.insert(sealed.end(), begin, begin + size);
  Checksum checksum;
  checksum.add(std::span<const std::byte>(sealed));
  const uint64_t value = checksum.value();
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  sealed.insert(sealed.end(), bytes, bytes + sizeof(value));
  (void)parse_device_file(sealed, device);
  return 0;
}
