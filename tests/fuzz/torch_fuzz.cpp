// Files of torch.save() from anyone: whatever the bytes, parsing them and reading all that it gave is defined
// behaviour.
#include "io/formats/torch_file.h"

#include <cstdint>

using namespace pumice;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = TorchFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.bin");
  if (!file) {
    if (!file.error().message.starts_with("fuzz.bin")) __builtin_trap(); // every message begins with the file
    return 0;
  }
  for (const SafetensorsFile::Entry& entry : file->entries) {
    (void)SafetensorsFile::floats(entry);
    (void)SafetensorsFile::integers(entry);
  }
  return 0;
}
