// GGUF headers from anyone: whatever the bytes, parsing them and walking all that it gave is defined
// behaviour.
#include "io/gguf.h"

#include <cstdint>

#include <nlohmann/json.hpp>

#include "decode_end.h"

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
  for (const TensorView& tensor : file->tensors) decode_end(tensor);
  return 0;
}
