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
                        {TensorType::q2_k, 0.33},
                        {TensorType::q3_k, 0.18},
                        {TensorType::q4_k, 0.078},
                        {TensorType::q5_k, 0.04},
                        {TensorType::iq4_nl, 0.085},
                        {TensorType::iq4_xs, 0.085},
                        {TensorType::mxfp4, 0.13},
                        {TensorType::nvfp4, 0.11},
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
    constexpr TensorType fine[] = {TensorType::q4_k, TensorType::q5_k, TensorType::q6_k};
    constexpr TensorType exact[] = {TensorType::f32,  TensorType::f16,  TensorType::bf16, TensorType::q8_0,
                                    TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1};
    if (std::ranges::find(fine, entry.type) != std::end(fine)) {
      CHECK(relative_error(back, values) < 0.02);
    } else if (std::ranges::find(exact, entry.type) != std::end(exact)) {
      CHECK(back == values);
    }
  }
}

TEST_CASE("quantise: numbers of three values, of two, and of tables are kept") {
  const auto kept = [](TensorType type, const std::vector<float>& values) {
    CAPTURE(info(type).name);
    CHECK(there_and_back(type, values) == values);
  };
  std::vector<float> three, two, small;
  for (int i = 0; i < 512; ++i) {
    three.push_back(static_cast<float>(i * 7 % 3 - 1) * 0.5f);
    two.push_back(i * 7 % 5 < 2 ? 0.25f : -0.25f);
    constexpr float sizes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    small.push_back((i % 16 == 0 ? 6 : sizes[i * 5 % 8]) * (i % 3 == 0 ? -0.25f : 0.25f));
  }
  kept(TensorType::tq1_0, three);
  kept(TensorType::tq2_0, three);
  kept(TensorType::q2_0, three);
  kept(TensorType::q1_0, two);
  kept(TensorType::mxfp4, small);
  kept(TensorType::nvfp4, small);
  std::vector<float> nonlinear;
  constexpr float numbers[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  for (int i = 0; i < 512; ++i) nonlinear.push_back(numbers[i * 7 % 16] * 0.125f);
  kept(TensorType::iq4_nl, nonlinear);
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
      const float weight = std::abs(values[i]); // large values do more
      error += weight * (values[i] - decoded[i]) * (values[i] - decoded[i]);
      plain_error += weight * (values[i] - plain) * (values[i] - plain);
    }
  }
  CHECK(error < plain_error * 0.95);
}

TEST_CASE("quantise: the types that a file's tensors become") {
  CHECK(quantized_type(TensorType::f16, TensorType::q4_0) == TensorType::q4_0);
  CHECK(quantized_type(TensorType::q6_k, TensorType::q4_0) == TensorType::q6_k);
  CHECK(quantized_type(TensorType::f16, {}) == TensorType::f16);
  CHECK(!can_quantize(TensorType::iq2_xxs));
  CHECK(quantizable_type_names() ==
        "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, "
        "NVFP4, TQ1_0, TQ2_0, Q1_0, Q2_0");
}
