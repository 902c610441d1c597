#include "io/tensor_type.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/formats/safetensors.h"
#include "support/files/paths.h"

using namespace pumice;

namespace {

// The value of a half by its definition, to check the conversion by bits.
double half_value(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -size : size;
}

std::vector<std::byte> block(uint16_t scale, const std::vector<int>& bytes) {
  std::vector<std::byte> out(2);
  std::memcpy(out.data(), &scale, 2);
  for (const int value : bytes) out.push_back(static_cast<std::byte>(value));
  return out;
}

} // namespace

TEST_CASE("tensor types: look-up by type, name, GGUF number and safetensors name") {
  for (const TensorTypeInfo& entry : tensor_types()) {
    CHECK(&info(entry.type) == &entry);
    CHECK(find_gguf_type(entry.gguf_id) == (entry.gguf_id < 1000 ? &entry : nullptr));
    CHECK(find_type_named(entry.name) == &entry);
    if (!entry.safetensors_name.empty()) CHECK(find_safetensors_type(entry.safetensors_name) == &entry);
  }
  CHECK(find_type_named("q8_0") == &info(TensorType::q8_0));
  CHECK(find_type_named("bf16") == &info(TensorType::bf16));
  CHECK(find_type_named("Q8") == nullptr);
  CHECK(find_type_named("") == nullptr);
  CHECK(find_gguf_type(999) == nullptr);
  CHECK(find_safetensors_type("") == nullptr);
  CHECK(find_safetensors_type("I64") == nullptr);
  CHECK(tensor_type_names().find("Q4_0") != std::string::npos);
}

TEST_CASE("tensor types: bytes of rows and tensors") {
  CHECK(row_bytes(TensorType::f32, 5) == 20);
  CHECK(row_bytes(TensorType::q8_0, 64) == 68);
  CHECK(row_bytes(TensorType::q4_0, 64) == 36);
  using Shape = std::vector<uint64_t>;
  CHECK(tensor_bytes(TensorType::f32, Shape{}) == 4);
  CHECK(tensor_bytes(TensorType::f16, Shape{3, 5}) == 30);
  CHECK(tensor_bytes(TensorType::q4_0, Shape{3, 64}) == 108);
  CHECK(tensor_bytes(TensorType::f32, Shape{3, 0}) == 0);
  CHECK(tensor_bytes(TensorType::q4_0, Shape{64, 3}) == std::nullopt);
  CHECK(tensor_bytes(TensorType::f32, Shape{1ull << 62}) == std::nullopt);
  CHECK(tensor_bytes(TensorType::f32, Shape{1ull << 32, 1ull << 32}) == std::nullopt);
}

TEST_CASE("half: every value is decoded correctly and survives the round trip") {
  int wrong_values = 0, wrong_bits = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if ((bits & 0x7c00) == 0x7c00) {
      const bool infinite = (bits & 0x3ff) == 0;
      wrong_values += infinite ? !std::isinf(value) : !std::isnan(value);
      wrong_bits += float_to_half(value) != (infinite ? half : static_cast<uint16_t>(half | 0x200));
    } else {
      wrong_values += value != half_value(half) || std::signbit(value) != (bits >= 0x8000);
      wrong_bits += float_to_half(value) != half;
    }
  }
  CHECK(wrong_values == 0);
  CHECK(wrong_bits == 0);
}

TEST_CASE("half: rounds to the nearest, ties to even") {
  int wrong = 0;
  for (uint16_t half = 0; half < 0x7bff; ++half) { // each finite half except the largest, and the next one
    const double low = half_value(half), high = half_value(static_cast<uint16_t>(half + 1));
    const auto middle = static_cast<float>((low + high) / 2); // exact, because a float has more bits
    const auto even = static_cast<uint16_t>(half % 2 == 0 ? half : half + 1);
    wrong += float_to_half(middle) != even;
    wrong += float_to_half(std::nextafter(middle, 0.0f)) != half;
    wrong += float_to_half(std::nextafter(middle, 1e6f)) != half + 1;
    wrong += float_to_half(-middle) != (even | 0x8000);
  }
  CHECK(wrong == 0);
  CHECK(float_to_half(65504.0f) == 0x7bff);
  CHECK(float_to_half(65519.9f) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0);
}

TEST_CASE("bfloat16: round trip, and rounding to the nearest even") {
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto bf16 = static_cast<uint16_t>(bits);
    const float value = bf16_to_float(bf16);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    wrong += is_nan ? !std::isnan(bf16_to_float(float_to_bf16(value))) : float_to_bf16(value) != bf16;
  }
  CHECK(wrong == 0);
  CHECK(float_to_bf16(std::bit_cast<float>(0x3f808000u)) == 0x3f80); // a tie, to even
  CHECK(float_to_bf16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);
  CHECK(float_to_bf16(std::bit_cast<float>(0x3f808001u)) == 0x3f81);
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7f80); // infinity
}

TEST_CASE("decode: F32, F16 and BF16 rows, at an odd address") {
  const float values[] = {1.5f, -2, 0.25f};
  std::vector<std::byte> bytes(1 + sizeof(values));
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  std::vector<float> out(3);
  decode_row(TensorType::f32, bytes.data() + 1, out);
  CHECK(out == std::vector<float>{1.5f, -2, 0.25f});
  for (const TensorType type : {TensorType::f16, TensorType::bf16}) {
    for (size_t i = 0; i < 3; ++i) {
      const uint16_t bits = type == TensorType::f16 ? float_to_half(values[i]) : float_to_bf16(values[i]);
      std::memcpy(bytes.data() + 1 + 2 * i, &bits, 2);
    }
    out.assign(3, 0);
    decode_row(type, bytes.data() + 1, out);
    CHECK(out == std::vector<float>{1.5f, -2, 0.25f});
  }
}

TEST_CASE("decode: Q8_0 is a half scale times signed bytes") {
  std::vector<int> quants;
  for (int i = 0; i < 32; ++i) quants.push_back(i * 8 - 128);
  std::vector<std::byte> bytes = block(float_to_half(0.5f), quants);
  const std::vector<std::byte> second = block(float_to_half(-2), std::vector<int>(32, 127));
  bytes.insert(bytes.end(), second.begin(), second.end());
  REQUIRE(bytes.size() == row_bytes(TensorType::q8_0, 64));
  std::vector<float> out(64);
  decode_row(TensorType::q8_0, bytes.data(), out);
  for (int i = 0; i < 32; ++i) {
    CHECK(out[i] == 0.5f * static_cast<float>(i * 8 - 128));
    CHECK(out[32 + i] == -254);
  }
}

TEST_CASE("decode: Q4_0 has the first half of a block in the low nibbles") {
  std::vector<int> quants;
  for (int i = 0; i < 16; ++i) quants.push_back(i | (15 - i) << 4);
  const std::vector<std::byte> bytes = block(float_to_half(0.25f), quants);
  REQUIRE(bytes.size() == row_bytes(TensorType::q4_0, 32));
  std::vector<float> out(32);
  decode_row(TensorType::q4_0, bytes.data(), out);
  for (int i = 0; i < 16; ++i) {
    CHECK(out[i] == 0.25f * static_cast<float>(i - 8));
    CHECK(out[16 + i] == 0.25f * static_cast<float>(7 - i));
  }
}

TEST_CASE("decode: types with five bits and types with a minimum") {
  // d = 0.5, m = -3; codes 0 to 15 in the low nibbles, 15 to 0 in the high ones; the fifth bit of odd
  // elements.
  const uint32_t fifth = 0xaaaaaaaau;
  const auto make = [&](bool added, bool bits) {
    std::vector<std::byte> out = block(float_to_half(0.5f), {});
    const auto append = [&](const void* from, size_t size) {
      const auto* bytes = static_cast<const std::byte*>(from);
      out.insert(out.end(), bytes, bytes + size);
    };
    const uint16_t m = float_to_half(-3);
    if (added) append(&m, 2);
    if (bits) append(&fifth, 4);
    for (int i = 0; i < 16; ++i) out.push_back(static_cast<std::byte>(i | (15 - i) << 4));
    return out;
  };
  struct Case {
    TensorType type;
    bool added, bits;
    int zero;
  };
  for (const Case& c : {Case{TensorType::q4_1, true, false, 0},
                        {TensorType::q5_0, false, true, 16},
                        {TensorType::q5_1, true, true, 0}}) {
    CAPTURE(info(c.type).name);
    const std::vector<std::byte> bytes = make(c.added, c.bits);
    REQUIRE(bytes.size() == row_bytes(c.type, 32));
    std::vector<float> out(32);
    decode_row(c.type, bytes.data(), out);
    for (int i = 0; i < 32; ++i) {
      const int code = (i < 16 ? i : 31 - i) + (c.bits && i % 2 ? 16 : 0) - c.zero;
      CHECK(out[i] == 0.5f * static_cast<float>(code) + (c.added ? -3.0f : 0.0f));
    }
  }
}

TEST_CASE("decode: tables of numbers, and MXFP4's exponent") {
  std::vector<int> quants;
  for (int i = 0; i < 16; ++i) quants.push_back(i | (15 - i) << 4);
  const int nonlinear[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<std::byte> bytes = block(float_to_half(2), quants);
  std::vector<float> out(32);
  decode_row(TensorType::iq4_nl, bytes.data(), out);
  for (int i = 0; i < 16; ++i) {
    CHECK(out[i] == 2.0f * static_cast<float>(nonlinear[i]));
    CHECK(out[16 + i] == 2.0f * static_cast<float>(nonlinear[15 - i]));
  }
  bytes.erase(bytes.begin());
  bytes[0] = std::byte{130}; // 2^3
  decode_row(TensorType::mxfp4, bytes.data(), out);
  for (int i = 0; i < 16; ++i) {
    CHECK(out[i] == (i < 8 ? 8 : -8) * e2m1[i % 8]);
    CHECK(out[16 + i] == (i < 8 ? -8 : 8) * e2m1[7 - i % 8]);
  }
}

// Random bytes: of types of grids each point that they name, and every scale.
TEST_CASE("decode: blocks of every quantised type are the numbers that ggml's Python library makes of them") {
  const auto file = SafetensorsFile::open(source_folder() / "tests" / "fixtures" / "blocks.safetensors");
  REQUIRE(file.ok());
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (entry.block_size == 1 || entry.gguf_id >= 1000) continue;
    CAPTURE(std::string(entry.name));
    const SafetensorsFile::Entry* bytes = file->find(fmt::format("{}.bytes", entry.name));
    const SafetensorsFile::Entry* numbers = file->find(entry.name);
    REQUIRE(bytes);
    REQUIRE(numbers);
    REQUIRE(bytes->data.size() == 2 * entry.block_bytes);
    const auto wanted = SafetensorsFile::floats(*numbers);
    REQUIRE(wanted.ok());
    REQUIRE(wanted->size() == 2 * entry.block_size);
    std::vector<float> got(wanted->size());
    decode_row(entry.type, bytes->data.data(), got);
    float most = 0, worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      most = std::max(most, std::abs((*wanted)[i]));
      worst = std::max(worst, std::abs(got[i] - (*wanted)[i]));
    }
    CAPTURE(worst);
    CHECK(worst <= 1e-6f * most);
  }
}
