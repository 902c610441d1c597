#include "convert/tensor_rows.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/workers.h"
#include "io/bytes.h"
#include "io/quantize.h"

namespace pumice {

namespace {

constexpr uint64_t elements_at_once = uint64_t{1} << 22; // elements that are quantised before each write
constexpr uint64_t elements_of_tile = uint64_t{1} << 16; // elements that one thread holds as floats

void read_view_row(const WeightView& view, uint64_t row, float* out) {
  const uint64_t stride = view.tensor_row_bytes();
  const std::byte* data = view.tensor->data.data();
  if (view.in_rows()) {
    decode_row(view.type(), data + view.source_row(row) * stride, {out, view.columns});
    return;
  }
  if (!view.transposed) {
    const uint64_t blocks = view.columns / info(view.type()).block_size;
    std::vector<std::byte> joined(stride);
    join_blocks(*view.tensor, view.source_row(row) * blocks, blocks, joined.data());
    decode_row(view.type(), joined.data(), {out, view.columns});
    return;
  }
  data += view.first_column * stride + view.source_row(row) * info(view.type()).block_bytes;
  for (uint64_t column = 0; column < view.columns; ++column) {
    decode_row(view.type(), data + column * stride, {out + column, 1});
  }
}

// Whether the last dimensions have so many elements.
bool ends_shape(const std::vector<uint64_t>& shape, uint64_t elements) {
  uint64_t last = 1;
  for (size_t i = shape.size(); i-- > 0 && last < elements;) last *= shape[i];
  return last == elements;
}

// Calls work(first, count) from several threads, each with rows of its own.
Status share(Workers& workers, uint64_t rows, const auto& work) {
  const uint64_t each = (rows + workers.threads() - 1) / workers.threads();
  return workers.run((rows + each - 1) / each, [&](size_t i) {
    const uint64_t first = i * each;
    work(first, std::min(each, rows - first));
  });
}

} // namespace

Result<TensorRows> TensorRows::of(const GgufTensor& tensor) {
  TensorRows rows(tensor);
  uint64_t elements = 1;
  for (uint64_t size : tensor.shape) elements *= size;
  uint64_t found = tensor.values.size();
  bool fits = true;
  rows.columns_ = tensor.values.empty() ? 0 : found;
  rows.rows_ = tensor.values.empty() ? 0 : 1;
  for (const WeightView& part : tensor.parts) {
    if (rows.columns_ == 0) rows.columns_ = part.columns;
    fits = fits && part.columns == rows.columns_;
    rows.rows_ += part.rows;
    found += part.rows * part.columns;
  }
  // Rows of one element can be written as rows of any size, and so can several of the last dimensions at
  // once.
  if (tensor.shape.size() > 1 && tensor.values.empty() && rows.columns_ != 1)
    fits = fits && ends_shape(tensor.shape, rows.columns_);
  if (tensor.rotary_heads > 0) {
    const uint64_t head = rows.rows_ / tensor.rotary_heads;
    fits = fits && rows.rows_ % tensor.rotary_heads == 0 && tensor.rotary_dim <= head &&
           (tensor.rotary_dim ? tensor.rotary_dim : head) % 2 == 0;
  }
  fits =
      fits && (tensor.part_scales.empty() || tensor.part_scales.size() == tensor.parts.size()) &&
      (tensor.tiled_groups == 0 || rows.columns_ % (uint64_t{tensor.tiled_groups} * tensor.tiled_dim) == 0);
  if (fits && found == elements && found > 0) return rows;
  return Error{
      Code::invalid_file,
      fmt::format("tensor '{}': expected parts with the shape {} in {} heads, found {} elements in rows "
                  "of {}",
                  tensor.name, shape_text(tensor.shape), tensor.rotary_heads, found, rows.columns_)};
}

uint64_t TensorRows::source_row(uint64_t row) const {
  if (tensor_->rotary_heads == 0) return row;
  const uint64_t head = rows_ / tensor_->rotary_heads;
  const uint64_t rotated = tensor_->rotary_dim ? tensor_->rotary_dim : head;
  const uint64_t of_head = row % head;
  if (of_head >= rotated) return row;
  return row - of_head + of_head / 2 + (of_head % 2 ? rotated / 2 : 0);
}

void TensorRows::tile_columns(float* row) const {
  const uint64_t groups = tensor_->tiled_groups, dim = tensor_->tiled_dim;
  const uint64_t heads = columns_ / groups / dim; // of a group
  const std::vector<float> from(row, row + columns_);
  for (uint64_t head = 0; head < heads * groups; ++head) {
    const uint64_t source = head % groups * heads + head / groups;
    std::copy_n(from.data() + source * dim, dim, row + head * dim);
  }
}

void TensorRows::read(uint64_t first, uint64_t count, float* out) const {
  if (!tensor_->values.empty()) {
    std::copy(tensor_->values.begin(), tensor_->values.end(), out);
  }
  for (uint64_t i = 0; i < count && tensor_->values.empty(); ++i) {
    uint64_t row = source_row(first + i);
    auto part = tensor_->parts.begin();
    for (; row >= part->rows; ++part) row -= part->rows;
    float* to = out + i * columns_;
    read_view_row(*part, row, to);
    if (!tensor_->part_scales.empty()) {
      const float scale = tensor_->part_scales[static_cast<size_t>(part - tensor_->parts.begin())];
      for (uint64_t column = 0; column < columns_; ++column) to[column] *= scale;
    }
    if (tensor_->tiled_groups > 0) tile_columns(to);
  }
  if (tensor_->negative_exp) {
    for (uint64_t i = 0; i < count * columns_; ++i) out[i] = -std::exp(out[i]);
  }
  if (tensor_->offset == 0 && tensor_->scale == 1) return;
  for (uint64_t i = 0; i < count * columns_; ++i) out[i] = (out[i] + tensor_->offset) * tensor_->scale;
}

Status write_rows(const TensorRows& rows, TensorType type, const WriteBytes& write, const Progress& progress,
                  uint64_t& done, uint64_t total, const RowImportance& importance) {
  const uint64_t columns = rows.columns();
  const uint64_t bytes_of_row = row_bytes(type, columns);
  const uint64_t at_once = std::min(rows.rows(), std::max<uint64_t>(1, elements_at_once / columns));
  const uint64_t tile = std::max<uint64_t>(1, elements_of_tile / columns);
  Workers workers(at_once * columns <= elements_of_tile ? 1 : SIZE_MAX);
  std::vector<std::byte> bytes(at_once * bytes_of_row);
  for (uint64_t first = 0; first < rows.rows(); first += at_once) {
    const uint64_t count = std::min(at_once, rows.rows() - first);
    PUMICE_CHECK(share(workers, count, [&](uint64_t begin, uint64_t size) {
      std::vector<float> floats(std::min(tile, size) * columns);
      for (uint64_t row = 0; row < size; row += tile) {
        const uint64_t some = std::min(tile, size - row);
        rows.read(first + begin + row, some, floats.data());
        for (uint64_t i = 0; i < some; ++i) {
          quantize_row(type, {floats.data() + i * columns, columns},
                       bytes.data() + (begin + row + i) * bytes_of_row,
                       importance ? importance(first + begin + row + i) : nullptr);
        }
      }
    }));
    PUMICE_CHECK(write(std::span(bytes).first(count * bytes_of_row)));
    done += count * bytes_of_row;
    if (progress && !progress(done, total)) return Error{Code::cancelled, "stopped"};
  }
  return {};
}

} // namespace pumice
