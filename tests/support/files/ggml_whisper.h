#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/model_file.h"
#include "io/quantize.h"
#include "io/tensor_type.h"
#include "support/files/fixtures.h"

// Writes a file of whisper.cpp (ggml-*.bin).
class GgmlWhisperBuilder {
public:
  std::vector<uint32_t> sizes = {320, 50, 64, 4, 2, 64, 64, 4, 2, 80}; // the fixture's, in the file's order
  uint32_t type = 0;                                                   // of the file
  uint32_t mels = 80, bins = 201;
  std::vector<std::string> words; // their bytes

  // The 256 bytes and what `more` has.
  explicit GgmlWhisperBuilder(const std::vector<std::string>& more = {}) {
    for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, static_cast<char>(byte));
    words.insert(words.end(), more.begin(), more.end());
  }

  // shape: outermost first.
  void tensor(const std::string& name, const std::vector<uint64_t>& shape, pumice::TensorType of,
              const std::string& data) {
    tensors_ += u32(static_cast<uint32_t>(shape.size())) + u32(static_cast<uint32_t>(name.size())) +
                u32(pumice::info(of).gguf_id);
    for (size_t i = shape.size(); i-- > 0;) tensors_ += u32(static_cast<uint32_t>(shape[i]));
    tensors_ += name + data;
  }

  std::string build() const {
    std::string bytes = "lmgg";
    for (uint32_t size : sizes) bytes += u32(size);
    bytes += u32(type) + u32(mels) + u32(bins) + std::string(size_t{mels} * bins * 4, '\0');
    bytes += u32(static_cast<uint32_t>(words.size()));
    for (const std::string& word : words) bytes += u32(static_cast<uint32_t>(word.size())) + word;
    return bytes + tensors_;
  }

private:
  static std::string u32(uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }

  std::string tensors_;
};

// The fixture's weights under whisper.cpp's names: matrices of this type where whisper.cpp's own programs
// would write it, all others as they write them.
inline void add_whisper_tensors(GgmlWhisperBuilder& builder, pumice::TensorType matrices) {
  const auto file = pumice::ModelFile::open(fixtures().model("whisper"));
  const std::pair<const char*, const char*> names[] = {
      {"model.encoder.embed_positions.weight", "encoder.positional_embedding"},
      {"model.decoder.embed_positions.weight", "decoder.positional_embedding"},
      {"embed_tokens", "token_embedding"},
      {"model.encoder.layer_norm", "encoder.ln_post"},
      {"model.decoder.layer_norm", "decoder.ln"},
      {"self_attn_layer_norm", "attn_ln"},
      {"encoder_attn_layer_norm", "cross_attn_ln"},
      {"final_layer_norm", "mlp_ln"},
      {"self_attn.out_proj", "attn.out"},
      {"encoder_attn.out_proj", "cross_attn.out"},
      {"self_attn.q_proj", "attn.query"},
      {"self_attn.k_proj", "attn.key"},
      {"self_attn.v_proj", "attn.value"},
      {"encoder_attn.q_proj", "cross_attn.query"},
      {"encoder_attn.k_proj", "cross_attn.key"},
      {"encoder_attn.v_proj", "cross_attn.value"},
      {"fc1", "mlp.0"},
      {"fc2", "mlp.2"},
      {"layers", "blocks"},
      {"model.", ""}};
  for (const pumice::TensorView& tensor : file->tensors()) {
    std::string name = tensor.name;
    if (name == "proj_out.weight") continue; // the table of tokens
    for (const auto& [own, other] : names) {
      if (const size_t at = name.find(own); at != std::string::npos)
        name.replace(at, std::strlen(own), other);
    }
    std::vector<uint64_t> shape = tensor.shape;
    if (name.ends_with("conv1.bias") || name.ends_with("conv2.bias")) shape.push_back(1);
    const bool plain = shape.size() < 2 || shape.back() == 1 || name.ends_with("positional_embedding");
    const bool quantised = pumice::info(matrices).block_size > 1;
    const pumice::TensorType type = plain                            ? pumice::TensorType::f32
                                    : quantised && shape.size() != 2 ? pumice::TensorType::f16
                                                                     : matrices;
    const size_t columns = tensor.shape.back();
    std::vector<float> row(columns);
    std::string data;
    for (size_t at = 0; at < tensor.data.size(); at += columns * 4) {
      std::memcpy(row.data(), tensor.data.data() + at, columns * 4);
      std::string bytes(pumice::row_bytes(type, columns), '\0');
      pumice::quantize_row(type, row, reinterpret_cast<std::byte*>(bytes.data()));
      data += bytes;
    }
    builder.tensor(name, shape, type, data);
  }
}
