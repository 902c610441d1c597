#include "io/formats/ctranslate2_tensors.h"

#include <cstring>

#include <fmt/format.h>

#include "base/align.h"
#include "io/tensor_type.h"

namespace pumice {

namespace {

using Array = Ctranslate2File::Array;
using ArrayType = Ctranslate2File::Type;

constexpr uint64_t tensor_alignment = 64;
constexpr uint64_t quantised_block = 32, quantised_bytes = 34; // of Q8_0

void put_half(std::byte* to, float value) {
  const uint16_t half = float_to_half(value);
  std::memcpy(to, &half, sizeof half);
}

} // namespace

uint64_t Ctranslate2Tensors::Piece::row_bytes() const {
  return type == TensorType::q8_0 ? columns / quantised_block * quantised_bytes
                                  : columns * (type == TensorType::f32 ? 4 : 2);
}

void Ctranslate2Tensors::Piece::write_row(uint64_t row, std::byte* to) const {
  const uint64_t size = ctranslate2_type_bytes(from->type), begin = (first + row) * columns;
  const std::byte* source = from->data.data() + begin * size;
  if (!scale) {
    std::memcpy(to, source, columns * size);
    return;
  }
  const uint64_t scales = scale->data.size() / 4;
  const float inverse = 1 / ctranslate2_element<float>(scale->data, scales > 1 ? first + row : 0);
  if (type == TensorType::q8_0) {
    for (uint64_t block = 0; block < columns / quantised_block; ++block, to += quantised_bytes) {
      put_half(to, inverse);
      std::memcpy(to + 2, source + block * quantised_block, quantised_block);
    }
    return;
  }
  for (uint64_t i = 0; i < columns; ++i) {
    const float whole = from->type == ArrayType::i8
                            ? static_cast<float>(ctranslate2_element<int8_t>(from->data, begin + i))
                            : static_cast<float>(ctranslate2_element<int16_t>(from->data, begin + i));
    const float value = whole * inverse;
    std::memcpy(to + i * 4, &value, 4);
  }
}

Error Ctranslate2Tensors::error(const std::string& what) const {
  return {Code::unsupported, fmt::format("{}: {}", file_.path, what)};
}

Result<std::string> Ctranslate2Tensors::activation(const std::string& from, double fallback,
                                                   const std::array<const char*, 4>& names) const {
  const double number = file_.number(from, fallback);
  if (number >= 0 && number < static_cast<double>(names.size()))
    return std::string(names[static_cast<size_t>(number)]);
  return error(fmt::format("activation {} is not supported", number));
}

Result<const Array*> Ctranslate2Tensors::array(const std::string& name) const {
  if (const Array* found = file_.find(name)) return found;
  return Error{Code::invalid_file, fmt::format("{}: expected a tensor \"{}\", found none", file_.path, name)};
}

Status Ctranslate2Tensors::add(const std::string& name, const std::string& from, uint64_t first,
                               uint64_t rows, uint64_t zeros_before, uint64_t zeros_after) {
  Piece piece;
  piece.name = name;
  PUMICE_TRY(piece.from, array(from));
  const std::vector<uint64_t>& shape = piece.from->shape;
  if (shape.empty() || shape.size() > 3)
    return error(fmt::format("tensor \"{}\": expected one to three dimensions", from));
  for (size_t i = 1; i < shape.size(); ++i) piece.columns *= shape[i];
  piece.rows = rows ? rows : shape[0];
  piece.first = first;
  piece.zeros_before = zeros_before;
  piece.zeros_after = zeros_after;
  if (first + piece.rows > shape[0]) {
    return error(
        fmt::format("tensor \"{}\": expected {} rows, found {}", from, first + piece.rows, shape[0]));
  }
  piece.shape = {zeros_before + piece.rows + zeros_after};
  piece.shape.insert(piece.shape.end(), shape.begin() + 1, shape.end());
  switch (piece.from->type) {
  case ArrayType::f32:
    break;
  case ArrayType::f16:
    piece.type = TensorType::f16;
    break;
  case ArrayType::bf16:
    piece.type = TensorType::bf16;
    break;
  case ArrayType::i32:
    return error(fmt::format("tensor \"{}\": expected numbers of another type than int32", from));
  case ArrayType::i8:
  case ArrayType::i16: {
    PUMICE_TRY(piece.scale, array(from + "_scale"));
    const uint64_t scales = piece.scale->data.size() / 4;
    if (piece.scale->type != ArrayType::f32 || (scales != 1 && scales != shape[0])) {
      return error(fmt::format("tensor \"{}_scale\": expected one float for each row", from));
    }
    const bool fits = piece.from->type == ArrayType::i8 && piece.columns % quantised_block == 0;
    piece.type = fits ? TensorType::q8_0 : TensorType::f32;
    break;
  }
  }
  pieces_.push_back(std::move(piece));
  return {};
}

Status Ctranslate2Tensors::add_linear(const std::string& name, const std::string& from, uint64_t part,
                                      uint64_t rows) {
  PUMICE_CHECK(add(name + ".weight", from + "/weight", part * rows, rows));
  return file_.find(from + "/bias") ? add(name + ".bias", from + "/bias", part * rows, rows) : Status();
}

Status Ctranslate2Tensors::add_norm(const std::string& name, const std::string& from) {
  PUMICE_CHECK(add(name + ".weight", from + "/gamma"));
  return file_.find(from + "/beta") ? add(name + ".bias", from + "/beta") : Status();
}

Status Ctranslate2Tensors::add_attention(const std::string& prefix, const std::string& from, bool cross,
                                         uint64_t columns, const std::array<const char*, 4>& names,
                                         bool key_biases) {
  const std::string first = from + "/linear_0", second = from + "/linear_1";
  const std::string& keys = cross ? second : first;
  const uint64_t key_part = cross ? 0 : 1;
  PUMICE_CHECK(add_linear(prefix + names[0], first, 0, columns));
  PUMICE_CHECK(key_biases
                   ? add_linear(prefix + names[1], keys, key_part, columns)
                   : add(prefix + names[1] + ".weight", keys + "/weight", key_part * columns, columns));
  PUMICE_CHECK(add_linear(prefix + names[2], keys, key_part + 1, columns));
  return add_linear(prefix + names[3], cross ? from + "/linear_2" : second);
}

Result<uint64_t> Ctranslate2Tensors::add_bart_layers(const std::string& side, uint64_t columns,
                                                     bool key_biases) {
  constexpr std::array<const char*, 4> names = {"q_proj", "k_proj", "v_proj", "out_proj"};
  uint64_t layers = 0;
  for (; file_.find(fmt::format("{}/layer_{}/ffn/linear_1/weight", side, layers)); ++layers) {
    const std::string to = fmt::format("model.{}.layers.{}.", side, layers),
                      from = fmt::format("{}/layer_{}/", side, layers);
    PUMICE_CHECK(
        add_attention(to + "self_attn.", from + "self_attention", false, columns, names, key_biases));
    PUMICE_CHECK(add_norm(to + "self_attn_layer_norm", from + "self_attention/layer_norm"));
    if (side == "decoder") {
      PUMICE_CHECK(add_attention(to + "encoder_attn.", from + "attention", true, columns, names, key_biases));
      PUMICE_CHECK(add_norm(to + "encoder_attn_layer_norm", from + "attention/layer_norm"));
    }
    PUMICE_CHECK(add_linear(to + "fc1", from + "ffn/linear_0"));
    PUMICE_CHECK(add_linear(to + "fc2", from + "ffn/linear_1"));
    PUMICE_CHECK(add_norm(to + "final_layer_norm", from + "ffn/layer_norm"));
  }
  return layers;
}

void Ctranslate2Tensors::add_leading_dimension() {
  pieces_.back().shape.insert(pieces_.back().shape.begin(), 1);
}

Result<Ctranslate2Tensors::Written> Ctranslate2Tensors::write() const {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces_) bytes = align(bytes, tensor_alignment) + piece.bytes();
  PUMICE_TRY(MappedFile block, MappedFile::reserve(bytes, file_.path));
  Written written{std::move(block), {}};
  uint64_t at = 0;
  for (const Piece& piece : pieces_) {
    at = align(at, tensor_alignment);
    const uint64_t row_bytes = piece.row_bytes(), begin = at + piece.zeros_before * row_bytes;
    std::vector<std::byte> row(row_bytes);
    for (uint64_t n = 0; n < piece.rows; ++n) {
      piece.write_row(n, row.data());
      const auto copy = [&](uint64_t from, std::span<std::byte> to) {
        std::memcpy(to.data(), row.data() + (from - begin - n * row_bytes), to.size());
        return true;
      };
      PUMICE_CHECK(written.weights.read(copy, begin + n * row_bytes, row_bytes));
    }
    written.tensors.push_back(
        {piece.name, piece.type, piece.shape, written.weights.bytes().subspan(at, piece.bytes()), {}});
    at += piece.bytes();
  }
  return written;
}

} // namespace pumice
