#include "io/quantize.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

std::vector<float> bell_curve(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = 0;
    for (int i = 0; i < 12; ++i) value += static_cast<float>(random() >> 8) / float{1 << 24} - 0.5f;
  }
  return values;
}

std::vector<float> there_and_back(TensorType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(row_bytes(type, values.size()) + 16, std::byte{0x5a});
  quantize_row(type, values, bytes.data());
  for (size_t i = bytes.size() - 16; i < bytes.size(); ++i) CHECK(bytes[i] == std::byte{0x5a});
  std::vector<float> out(values.size());
  decode_row(type, bytes.data(), out);
  return out;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0, total = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += (double{got[i]} - wanted[i]) * (double{got[i]} - wanted[i]);
    total += double{wanted[i]} * wanted[i];
  }
  return std::sqrt(difference / total);
}

} // namespace

TEST_CASE("quantise: the error is what the type's bits allow") {
  const std::vector<float> values = bell_curve(8192, 1);
  struct Case {
    TensorType type;
    double error;
  };
  // Bounds a tenth above what was measured; a uniform quantiser of 16 steps over 32 such values has about 0.08.
  for (const Case& c : {Case{TensorType::f32, 0},
                        {TensorType::f16, 2.5e-4},
                        {TensorType::bf16, 2e-3},
                        {TensorType::q8_0, 6e-3},
                        {TensorType::q4_0, 0.095},
                        {TensorType::q4_1, 0.085},
                        {TensorType::q5_0, 0.048},
                        {TensorType::q5_1, 0.042},
                        {TensorType::q4_k, 0.078},
                        {TensorType::q6_k, 0.02}}) {
    CAPTURE(info(c.type).name);
    const double error = relative_error(there_and_back(c.type, values), values);
    CAPTURE(error);
    CHECK(error <= c.error);
    if (c.error > 0) CHECK(error >= c.error / 3); // or it is not the type that it claims to be
  }
}

TEST_CASE("quantise: what a type can hold comes back as it was") {
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (!can_quantize(entry.type)) continue;
    CAPTURE(entry.name);
    CHECK(there_and_back(entry.type, std::vector<float>(512)) == std::vector<float>(512));
    // Small whole numbers with a lowest and a highest that make the scale 1.
    std::vector<float> values;
    for (int i = 0; i < 512; ++i) values.push_back(static_cast<float>(i * 7 % 16 - 8));
    if (entry.type == TensorType::q8_0) {
      for (float& value : values) value = std::round(value * 127 / 8);
    } else if (entry.type == TensorType::q5_0 || entry.type == TensorType::q5_1) {
      for (size_t i = 0; i < values.size(); i += 2) values[i] = i % 32 == 0 ? -16 : i % 32 == 2 ? 15 : values[i];
    }
    const std::vector<float> back = there_and_back(entry.type, values);
    if (entry.type == TensorType::q4_k || entry.type == TensorType::q6_k) {
      CHECK(relative_error(back, values) < 0.02);
    } else {
      CHECK(back == values);
    }
  }
}

TEST_CASE("quantise: Q8_0 and Q4_0 round as everybody's do") {
  std::vector<float> values(32);
  values[0] = -127;
  values[1] = 2.5f; // to the nearest, halves away from zero
  values[2] = -2.5f;
  values[3] = 2.4f;
  std::vector<std::byte> bytes(34);
  quantize_row(TensorType::q8_0, values, bytes.data());
  const int wanted[] = {-127, 3, -3, 2};
  for (int i = 0; i < 4; ++i) CHECK(static_cast<int8_t>(bytes[2 + i]) == wanted[i]);

  values.assign(32, 0);
  values[0] = 8; // the value of the largest size is code 0, so that the scale is -1
  values[1] = -8;  // 16 does not fit
  values[2] = 0.5f;
  values[3] = 0.6f;
  values[4] = -0.5f;
  quantize_row(TensorType::q4_0, values, bytes.data());
  uint16_t scale;
  std::memcpy(&scale, bytes.data(), 2);
  CHECK(half_to_float(scale) == -1);
  const int codes[] = {0, 15, 8, 7, 9};
  for (int i = 0; i < 5; ++i) CHECK((std::to_integer<int>(bytes[2 + i]) & 15) == codes[i]);
}

TEST_CASE("quantise: what becomes of a file's types") {
  CHECK(quantized_type(TensorType::f16, TensorType::q4_0) == TensorType::q4_0);
  CHECK(quantized_type(TensorType::q6_k, TensorType::q4_0) == TensorType::q6_k);
  CHECK(quantized_type(TensorType::f16, {}) == TensorType::f16);
  CHECK(!can_quantize(TensorType::q2_k));
  CHECK(quantizable_type_names() == "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q6_K");
}
