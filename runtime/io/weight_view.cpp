#include "io/weight_view.h"

#include "base/align.h"
#include "io/quantize.h"

namespace pumice {

std::vector<float> decode_vector(const WeightView& weight) {
  const WeightView whole = WeightView::whole(*weight.tensor);
  std::vector<float> all(whole.rows * whole.columns), values;
  const TensorView& tensor = *weight.tensor;
  if (tensor.in_blocks()) {
    decode_row(tensor.type, tensor.data.data(), all);
  } else {
    std::vector<std::byte> joined(row_bytes(tensor.type, all.size()));
    join_blocks(tensor, 0, all.size() / info(tensor.type).block_size, joined.data());
    decode_row(tensor.type, joined.data(), all);
  }
  for (uint64_t row = 0; row < weight.rows; ++row) {
    for (uint64_t column = 0; column < weight.columns; ++column) {
      const uint64_t from = weight.source_row(row);
      values.push_back(weight.transposed ? all[(weight.first_column + column) * weight.tensor_columns + from]
                                         : all[from * weight.tensor_columns + column]);
    }
  }
  values.resize(align(values.size(), 8));
  return values;
}

} // namespace pumice
