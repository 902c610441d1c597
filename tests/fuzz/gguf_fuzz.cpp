// GGUF headers from anyone: whatever the bytes, parsing them and walking all that it gave is defined
// behaviour.
#include "io/gguf.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

using namespace pumice;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf");
  if (!file) {
    if (!file.error().message.starts_with("fuzz.gguf: "))
      __builtin_trap(); // every message begins with the file
    return 0;
  }
  (void)file->metadata.dump(); // throws where text is no UTF-8, which the parser rules out
  for (const auto& [key, array] : file->arrays) {
    (void)array.strings();
    (void)array.floats();
    (void)array.integers();
  }
  for (const TensorView& tensor : file->tensors) {
    // The last elements of the data are the ones that a wrong size would put outside of it.
    const TensorTypeInfo& type = info(tensor.type);
    const size_t blocks = std::min<size_t>(tensor.data.size() / type.block_bytes, 64);
    std::vector<float> values(blocks * type.block_size);
    decode_row(tensor.type, tensor.data.data() + tensor.data.size() - blocks * type.block_bytes, values);
  }
  return 0;
}
