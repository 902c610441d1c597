// GGUF headers from anyone: whatever the bytes, parsing them and walking all that it gave is defined
// behaviour. So is opening a file that holds a folder, and its tokenizer.
#include "io/formats/gguf.h"
#include "io/model_file.h"
#include "text/tokenizer.h"

#include <cstdint>

#include <nlohmann/json.hpp>

#include "decode_end.h"

using namespace pumice;

namespace {

void read_folder(std::span<const std::byte> bytes) {
  const auto model = ModelFile::from_memory(bytes, "fuzz.gguf");
  if (!model || !model->folder().in_gguf()) return;
  (void)model->config().dump();
  for (const char* name : {"generation_config.json", "1_Pooling/config.json"})
    (void)model->folder().object(name);
  (void)Tokenizer::load(model->folder());
}

} // namespace

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
  read_folder({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
