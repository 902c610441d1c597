#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "kernel/activation_ref.h"
#include "support/vulkan/gpu.h"

// Activations for tests of kernels, and what lies around them.

constexpr float sentinel = -54321.5f;                                   // what a kernel must not touch
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(); // what a kernel must not use

inline std::vector<float> random_values(size_t count, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = scale * (static_cast<float>(random() >> 8) / float{1 << 23} - 1); // the same with any library
  }
  return values;
}

// Rows that lie `columns` apart in `values` go to the device; after each follow zeros to a multiple of 32 and
// then `gap` more columns that nothing may use. As a view, the zeros are missing too.
inline pumice::ActivationRef upload_rows(const std::vector<float>& values, uint32_t columns, uint32_t gap = 0,
                                         bool view = false, uint32_t rows_kind = 0,
                                         bool padded_rows = false) {
  pumice::ActivationRef ref;
  ref.rows = static_cast<uint32_t>(values.size() / columns);
  ref.rows_kind = rows_kind;
  ref.columns = columns;
  ref.stride = ref.padded_columns() + gap;
  const uint32_t all_rows = padded_rows ? ref.padded_rows() : ref.rows;
  std::vector<float> padded(size_t{all_rows} * ref.stride, not_a_number);
  for (uint32_t row = 0; row < ref.rows; ++row) {
    float* out = padded.data() + size_t{row} * ref.stride;
    if (!view) std::fill_n(out, ref.padded_columns(), 0.0f);
    std::copy_n(values.data() + size_t{row} * columns, columns, out);
  }
  ref.buffer = TestGpu::get().upload(padded);
  return ref;
}

// Rows for a kernel to write.
inline pumice::ActivationRef blank_rows(uint32_t rows, uint32_t columns, uint32_t gap = 0,
                                        uint32_t rows_kind = 0) {
  pumice::ActivationRef ref;
  ref.rows = rows;
  ref.rows_kind = rows_kind;
  ref.columns = columns;
  ref.stride = ref.padded_columns() + gap;
  ref.buffer = TestGpu::get().upload(std::vector<float>(size_t{rows} * ref.stride, sentinel));
  return ref;
}

// Holds what a kernel wrote against `expected`, whose rows lie `columns` apart, row by row: those rows and no
// others, then zeros to a multiple of 32, and nothing past them. A row whose root mean square is below
// `magnitude` is held to that: sums can cancel. Returns the largest relative error of a row.
inline double check_rows(const pumice::ActivationRef& ref, const std::vector<double>& expected,
                         double tolerance, double magnitude = 0) {
  const std::vector<float> got = TestGpu::get().read<float>(ref.buffer);
  const size_t count = expected.size() / ref.columns;
  double worst = 0;
  size_t padding_wrong = 0, touched = 0;
  for (size_t row = 0; row < ref.rows; ++row) {
    const float* out = got.data() + row * ref.stride;
    if (row < count) {
      double difference = 0, total = 0;
      for (uint32_t i = 0; i < ref.columns; ++i) {
        const double wanted = expected[row * ref.columns + i];
        difference += (out[i] - wanted) * (out[i] - wanted);
        total += wanted * wanted;
      }
      total = std::max(total, magnitude * magnitude * ref.columns);
      const double error = total > 0 ? std::sqrt(difference / total) : std::sqrt(difference);
      if (!(error <= worst)) worst = error;
      for (uint32_t i = ref.columns; i < ref.padded_columns(); ++i) padding_wrong += out[i] != 0;
      for (uint32_t i = ref.padded_columns(); i < ref.stride; ++i) touched += out[i] != sentinel;
    } else {
      for (uint32_t i = 0; i < ref.stride; ++i) touched += out[i] != sentinel;
    }
  }
  CHECK(worst <= tolerance);
  CHECK(padding_wrong == 0);
  CHECK(touched == 0);
  return worst;
}
