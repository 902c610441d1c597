#include "io/quantize.h"

#include <algorithm>
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
  // The expected error is about step / sqrt(12), where the step is the range of 32 such values (about four
  // standard deviations) divided by the number of the type's steps.
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
    if (c.error > 0) CHECK(error >= c.error / 3); // a much smaller error would mean another type
  }
}

TEST_CASE("quantise: values that a type can represent are kept exactly") {
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (!can_quantize(entry.type)) continue;
    CAPTURE(entry.name);
    CHECK(there_and_back(entry.type, std::vector<float>(512)) == std::vector<float>(512));
    // Small integers whose lowest and highest value make the scale 1.
    std::vector<float> values;
    for (int i = 0; i < 512; ++i) values.push_back(static_cast<float>(i * 7 % 16 - 8));
    if (entry.type == TensorType::q8_0) {
      for (float& value : values) value = std::round(value * 127 / 8);
    } else if (entry.type == TensorType::q5_0 || entry.type == TensorType::q5_1) {
      for (size_t i = 0; i < values.size(); i += 2)
        values[i] = i % 32 == 0 ? -16 : i % 32 == 2 ? 15 : values[i];
    }
    const std::vector<float> back = there_and_back(entry.type, values);
    if (entry.type == TensorType::q4_k || entry.type == TensorType::q6_k) {
      CHECK(relative_error(back, values) < 0.02);
    } else {
      CHECK(back == values);
    }
  }
}

TEST_CASE("quantise: Q8_0 rounds as in other implementations") {
  std::vector<float> values(32);
  values[0] = -127;
  values[1] = 2.5f; // rounded to the nearest, ties away from zero
  values[2] = -2.5f;
  values[3] = 2.4f;
  std::vector<std::byte> bytes(34);
  quantize_row(TensorType::q8_0, values, bytes.data());
  const int wanted[] = {-127, 3, -3, 2};
  for (int i = 0; i < 4; ++i) CHECK(static_cast<int8_t>(bytes[2 + i]) == wanted[i]);
}

TEST_CASE("quantise: Q4_0 keeps values that fit, and is not worse than a scale from the largest value") {
  std::vector<float> values(32), decoded(32);
  std::vector<std::byte> bytes(18);
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(i % 16 - 8) * 0.25f;
  quantize_row(TensorType::q4_0, values, bytes.data());
  decode_row(TensorType::q4_0, bytes.data(), decoded);
  CHECK(decoded == values);

  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  double error = 0, plain_error = 0;
  for (int block = 0; block < 200; ++block) {
    for (float& value : values) value = normal(random);
    quantize_row(TensorType::q4_0, values, bytes.data());
    decode_row(TensorType::q4_0, bytes.data(), decoded);
    const float peak = *std::max_element(values.begin(), values.end(),
                                         [](float a, float b) { return std::abs(a) < std::abs(b); });
    const float scale = peak / -8;
    for (int i = 0; i < 32; ++i) {
      const float plain = std::clamp(std::round(values[i] / scale), -8.0f, 7.0f) * scale;
      error += (values[i] - decoded[i]) * (values[i] - decoded[i]);
      plain_error += (values[i] - plain) * (values[i] - plain);
    }
  }
  CHECK(error < plain_error * 0.95);
}

TEST_CASE("quantise: the types that a file's tensors become") {
  CHECK(quantized_type(TensorType::f16, TensorType::q4_0) == TensorType::q4_0);
  CHECK(quantized_type(TensorType::q6_k, TensorType::q4_0) == TensorType::q6_k);
  CHECK(quantized_type(TensorType::f16, {}) == TensorType::f16);
  CHECK(!can_quantize(TensorType::q2_k));
  CHECK(quantizable_type_names() == "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q6_K");
}
