// whisper.cpp's files from anyone: whatever the bytes, parsing them and walking all that it gave is defined
// behaviour.
#include "io/formats/ggml_whisper.h"

#include <cstdint>

#include "decode_end.h"

using namespace pumice;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = read_ggml_whisper(bytes, "fuzz.bin");
  if (!file) {
    if (!file.error().message.starts_with("fuzz.bin: "))
      __builtin_trap(); // every message begins with the file
    return 0;
  }
  (void)file->config.dump();
  size_t letters = 0;
  for (const std::string_view word : file->tokens.words) letters += word.size();
  if (letters > size) __builtin_trap();
  for (const TensorView& tensor : file->tensors) decode_end(tensor);
  return 0;
}
