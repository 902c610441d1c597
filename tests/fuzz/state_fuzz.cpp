// Saved sessions from anyone: whatever the bytes, parsing them and reading all that it gave is defined
// behaviour.
#include "step/cache/state_file.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "io/checksum.h"

using namespace pumice;

namespace {

void parse(std::span<const std::byte> bytes) {
  const auto snapshot = parse_state_file(bytes, "fuzz.state");
  if (!snapshot) {
    if (!snapshot.error().message.starts_with("fuzz.state: "))
      __builtin_trap(); // every message begins with the file
    return;
  }
  uint64_t sum = 0;
  for (uint32_t token : snapshot->tokens) sum += token;
  for (const SnapshotLayer& layer : snapshot->layers) {
    if (layer.data.size() != layer.bytes) __builtin_trap();
    for (std::byte byte : layer.data) sum += static_cast<uint64_t>(byte);
  }
  volatile uint64_t read = sum;
  (void)read;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  parse({begin, size});
  // What comes after size and checksum is only reached where those are right.
  if (size < 28) return 0;
  std::vector<std::byte> sealed(begin, begin + size);
  const uint64_t bytes = size;
  std::memcpy(sealed.data() + 12, &bytes, 8);
  Checksum checksum;
  checksum.add(std::span<const std::byte>(sealed).first(size - 8));
  const uint64_t value = checksum.value();
  std::memcpy(sealed.data() + size - 8, &value, 8);
  parse(sealed);
  return 0;
}
