// safetensors headers from anyone: whatever the bytes, parsing them and reading all that it gave is defined
// behaviour.
#include "io/formats/safetensors.h"

#include <cstdint>

using namespace pumice;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      SafetensorsFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.safetensors");
  if (!file) {
    if (!file.error().message.starts_with("fuzz.safetensors"))
      __builtin_trap(); // every message begins with the file
    return 0;
  }
  for (const SafetensorsFile::Entry& entry : file->entries) {
    (void)SafetensorsFile::floats(entry);
    (void)SafetensorsFile::integers(entry);
    (void)file->find(entry.name);
  }
  return 0;
}
