#pragma once

#include "io/formats/gguf_array.h"
#include "support/files/byte_writer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Writes a GGUF file, a broken one too: each number in the header can be set to what it should not be.
class GgufBuilder {
public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims; // innermost first, as the file has them
    uint32_t type = 0;          // F32
    uint64_t offset = 0;
    std::optional<uint32_t> dims_claimed = {};
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensors_claimed; // the counts that the header states
  std::optional<uint64_t> pairs_claimed;
  std::vector<Tensor> tensors;
  size_t alignment = 32; // of the data's start
  size_t data_bytes = 0; // filled with 0, 1, 2 ...

  template <class T>
  GgufBuilder& pair(std::string_view key, pumice::GgufType type, T value) {
    begin_pair(key, type);
    pairs_.number(value);
    return *this;
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return pair(key, pumice::GgufType::u32, value); }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    begin_pair(key, pumice::GgufType::string);
    put_string(pairs_, value);
    return *this;
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, pumice::GgufType::string, values.size());
    for (const std::string& value : values) put_string(pairs_, value);
    return *this;
  }
  template <class T>
  GgufBuilder& numbers(std::string_view key, pumice::GgufType type, const std::vector<T>& values) {
    begin_array(key, type, values.size());
    for (const T value : values) pairs_.number(value);
    return *this;
  }
  // A pair of which the caller writes the value.
  ByteWriter& begin_pair(std::string_view key, pumice::GgufType type) {
    ++pair_count_;
    put_string(pairs_, key);
    return pairs_.number(static_cast<uint32_t>(type));
  }
  ByteWriter& begin_array(std::string_view key, pumice::GgufType type, uint64_t count) {
    return begin_pair(key, pumice::GgufType::array).number(static_cast<uint32_t>(type)).number(count);
  }
  GgufBuilder& tensor(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return *this;
  }

  std::vector<std::byte> header() const {
    ByteWriter out;
    out.text(magic).number(version);
    out.number(tensors_claimed.value_or(tensors.size())).number(pairs_claimed.value_or(pair_count_));
    out.raw(pairs_.bytes());
    for (const Tensor& tensor : tensors) {
      put_string(out, tensor.name);
      out.number(tensor.dims_claimed.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (const uint64_t dim : tensor.dims) out.number(dim);
      out.number(tensor.type).number(tensor.offset);
    }
    return out.bytes();
  }

  std::vector<std::byte> build() const {
    ByteWriter out;
    out.raw(header()).pad_to(alignment);
    for (size_t i = 0; i < data_bytes; ++i) out.number(static_cast<uint8_t>(i));
    return out.bytes();
  }

private:
  static void put_string(ByteWriter& out, std::string_view text) {
    out.number(static_cast<uint64_t>(text.size())).text(text);
  }

  ByteWriter pairs_;
  uint64_t pair_count_ = 0;
};

// A small file with nothing wrong in it: seven pairs of the common kinds and two tensors.
inline GgufBuilder small_gguf() {
  using pumice::GgufType;
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("llama.block_count", 2);
  builder.pair("llama.rms_epsilon", GgufType::f32, 1e-5f)
      .pair("llama.parallel", GgufType::boolean, uint8_t{1});
  builder.pair("llama.shift", GgufType::i32, int32_t{-3});
  builder.strings("tokenizer.ggml.tokens", {"<s>", "", "hello"});
  builder.numbers<float>("tokenizer.ggml.scores", GgufType::f32, {0, -1, -2.5f});
  builder.tensor({"token_embd.weight", {4, 3}, 0, 0});     // 48 bytes of F32
  builder.tensor({"blk.0.attn_q.weight", {32, 2}, 8, 64}); // 68 bytes of Q8_0
  builder.data_bytes = 64 + 68;
  return builder;
}
