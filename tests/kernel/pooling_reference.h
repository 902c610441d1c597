#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

// The mean of rows that lie one after the other, in 64 bits; zeros of none.
inline std::vector<double> mean_reference(std::span<const float> rows, size_t columns) {
  std::vector<double> mean(columns);
  for (size_t i = 0; i < rows.size(); ++i) mean[i % columns] += rows[i];
  const double count = static_cast<double>(std::max<size_t>(rows.size() / columns, 1));
  for (double& v : mean) v /= count;
  return mean;
}

// A row divided by its length, in 64 bits.
inline std::vector<double> unit_length_reference(std::span<const float> row) {
  double squares = 0;
  for (float v : row) squares += double{v} * v;
  const double length = std::max(std::sqrt(squares), 1e-12);
  std::vector<double> out(row.begin(), row.end());
  for (double& v : out) v /= length;
  return out;
}
