#include "kernel/weight_packing.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

#include "base/ascii.h"
#include "io/quant_run.h"
#include "io/quantize.h"

namespace pumice {

namespace {

// Blocks whose scales share a dword that scales them all.
constexpr uint32_t blocks_of_head = 8;

// Bytes of one block's own scales, and whether a dword for all of them comes before those of eight blocks.
struct ScaleShape {
  uint32_t block_bytes;
  bool head;
};

ScaleShape scale_shape(const QuantFormat& format) {
  switch (format.scales) {
  case QuantScales::half:
    return {2, false};
  case QuantScales::half_minimum:
  case QuantScales::half_zero:
  case QuantScales::single:
    return {4, false};
  case QuantScales::exponent:
    return {1, false};
  case QuantScales::small_floats:
    return {format.parts, false};
  case QuantScales::signed_bytes:
    return {format.parts, true};
  case QuantScales::bytes_minimum:
  case QuantScales::nibbles_minimum:
  case QuantScales::bytes_eighths:
    return {2, true};
  }
  return {};
}

// Where a block's scales begin among its row's bytes of scales.
uint32_t scale_offset(const ScaleShape& shape, uint32_t block) {
  const uint32_t heads = shape.head ? block / blocks_of_head + 1 : 0;
  return heads * 4 + block * shape.block_bytes;
}

// One block's own scales as the kernels read them, from the lowest byte on.
uint32_t block_scales(const QuantFormat& format, const QuantRun& run) {
  const auto byte = [](auto value, uint32_t at) { return uint32_t{static_cast<uint8_t>(value)} << 8 * at; };
  switch (format.scales) {
  case QuantScales::half:
  case QuantScales::single:
  case QuantScales::exponent:
    return run.scale;
  case QuantScales::half_minimum:
  case QuantScales::half_zero:
    return run.scale | uint32_t{run.minimum} << 16;
  case QuantScales::small_floats:
  case QuantScales::signed_bytes:
    return byte(run.scales[0], 0) | (format.parts == 2 ? byte(run.scales[1], 1) : 0);
  case QuantScales::bytes_minimum:
  case QuantScales::bytes_eighths:
    return byte(run.scales[0], 0) | byte(run.minimums[0], 1);
  case QuantScales::nibbles_minimum:
    return byte(run.scales[0] | run.minimums[0] << 4, 0) | byte(run.scales[1] | run.minimums[1] << 4, 1);
  }
  return 0;
}

// Codes as the planes that the header describes, eight dwords of four codes each to `bits` dwords.
void pack_codes(const QuantFormat& format, const QuantRun& run, uint32_t* words) {
  uint32_t quads[8];
  std::memcpy(quads, run.codes, 32);
  for (uint32_t& quad : quads) quad ^= format.zero * 0x01010101u;
  uint32_t below = 0;
  for (uint32_t plane : {8u, 4u, 2u, 1u}) {
    if (!(format.bits & plane)) continue;
    const uint32_t mask = ((1u << plane) - 1) * 0x01010101u;
    std::memset(words, 0, plane * 4);
    for (uint32_t j = 0; j < 8; ++j) words[j % plane] |= (quads[j] >> below & mask) << plane * (j / plane);
    words += plane;
    below += plane;
  }
}

// Codes that a file keeps in the order that the kernels want: where in a block they begin, and what to flip
// in each dword of them and in the scales before them.
struct ReadyBlock {
  TensorType type;
  uint32_t codes, flipped_codes, flipped_scales;
};

constexpr ReadyBlock ready_blocks[] = {
    {TensorType::q8_0, 2, 0, 0},   {TensorType::q4_0, 2, 0x88888888, 0}, {TensorType::q4_1, 4, 0, 0x80000000},
    {TensorType::iq4_nl, 2, 0, 0}, {TensorType::mxfp4, 1, 0, 0},         {TensorType::f8_e4m3, 4, 0, 0},
    {TensorType::int8, 4, 0, 0},   {TensorType::int4, 4, 0x88888888, 0}, {TensorType::uint4, 4, 0, 0},
    {TensorType::nf4, 4, 0, 0},
};

const ReadyBlock* find_ready_block(TensorType type) {
  const auto* found = std::ranges::find(ready_blocks, type, &ReadyBlock::type);
  return found == std::end(ready_blocks) ? nullptr : found;
}

// A place in each of a tile's rows.
using RowPointers = std::array<const std::byte*, 8>;

// The rows of a tile in the format's type, whatever the file's and however they lie in it.
class TileRows {
public:
  TileRows(const PackedFormat& format, const TileSource& source) {
    const WeightView& weight = *source.weight;
    if (weight.transposed) {
      gather(weight, source);
    } else if (!weight.in_rows()) {
      join(weight, source);
    } else {
      const uint64_t stride = weight.tensor_row_bytes();
      for (uint32_t row = 0; row < source.rows; ++row) {
        rows_[row] = weight.tensor->data.data() + weight.source_row(source.first_row + row) * stride;
      }
    }
    if (weight.type() != format.type) quantize(format, weight.type(), source.rows);
  }
  TileRows(const TileRows&) = delete;
  TileRows& operator=(const TileRows&) = delete;

  const RowPointers& rows() const { return rows_; }

private:
  void gather(const WeightView& weight, const TileSource& source) {
    const uint64_t stride = weight.tensor_row_bytes(), element = info(weight.type()).block_bytes;
    const uint64_t row_size = weight.columns * element;
    gathered_.resize(source.rows * row_size);
    RowPointers from = {};
    for (uint32_t row = 0; row < source.rows; ++row) {
      from[row] = weight.tensor->data.data() + weight.first_column * stride +
                  weight.source_row(source.first_row + row) * element;
      rows_[row] = gathered_.data() + row * row_size;
    }
    for (uint64_t column = 0; column < weight.columns; ++column) {
      for (uint32_t row = 0; row < source.rows; ++row) {
        std::memcpy(gathered_.data() + row * row_size + column * element, from[row] + column * stride,
                    element);
      }
    }
  }

  void join(const WeightView& weight, const TileSource& source) {
    const uint64_t stride = weight.tensor_row_bytes();
    const uint64_t blocks = weight.tensor_columns / info(weight.type()).block_size;
    gathered_.resize(source.rows * stride);
    for (uint32_t row = 0; row < source.rows; ++row) {
      std::byte* to = gathered_.data() + row * stride;
      join_blocks(*weight.tensor, weight.source_row(source.first_row + row) * blocks, blocks, to);
      rows_[row] = to;
    }
  }

  void quantize(const PackedFormat& format, TensorType from, uint32_t count) {
    const uint64_t block = info(format.type).block_size;
    std::vector<float> values((format.columns + block - 1) / block * block); // past the columns: zeros
    const uint64_t row_size = row_bytes(format.type, values.size());
    quantized_.resize(count * row_size);
    for (uint32_t row = 0; row < count; ++row) {
      std::byte* to = quantized_.data() + row * row_size;
      decode_row(from, rows_[row], std::span(values).first(format.columns));
      quantize_row(format.type, values, to);
      rows_[row] = to;
    }
  }

  RowPointers rows_ = {};
  std::vector<std::byte> gathered_, quantized_;
};

// Fills a tile's payload from its start to its end: where the host writes to a device's memory, anything else
// is slow.
class PayloadWriter {
public:
  PayloadWriter(const PackedFormat& format, uint32_t rows, std::span<std::byte> payload)
      : lane_bytes_(format.lane_bytes), rows_(rows), at_(payload.data()) {}

  // As many bytes of each row as whole blocks have; `bytes` of one block.
  void write(const RowPointers& from, size_t count, size_t bytes) {
    if (rows_ == 8 && lane_bytes_ == 16 && bytes % 16 == 0) return write_groups<16>(from, count * bytes);
    if (rows_ == 8 && lane_bytes_ == 2) return write_groups<2>(from, count * bytes);
    if (rows_ == 8 && lane_bytes_ == 4) return write_groups<4>(from, count * bytes);
    for (size_t block = 0; block < count; ++block) {
      for (size_t begin = 0; begin < bytes; begin += lane_bytes_) {
        const size_t width = std::min(lane_bytes_, bytes - begin);
        for (uint32_t row = 0; row < rows_; ++row) {
          std::memcpy(at_ + row * width, from[row] + block * bytes + begin, width);
        }
        at_ += 8 * width;
      }
    }
  }

private:
  template <size_t width>
  void write_groups(const RowPointers& rows, size_t bytes) {
    const RowPointers from = rows; // which nothing that is written can change
    std::byte* to = at_;
    for (size_t begin = 0; begin < bytes; begin += width, to += 8 * width) {
      for (uint32_t row = 0; row < 8; ++row) std::memcpy(to + row * width, from[row] + begin, width);
    }
    at_ = to;
  }

  size_t lane_bytes_;
  uint32_t rows_;
  std::byte* at_;
};

// Plain numbers are the payload as they are; a last block that is not full ends in zeros.
void pack_plain(const PackedFormat& format, const RowPointers& rows, uint32_t count,
                std::span<std::byte> payload) {
  const size_t element = info(format.type).block_bytes, block = 32 * element;
  const size_t whole = format.columns / 32, rest = format.columns % 32 * element;
  PayloadWriter writer(format, count, payload);
  writer.write(rows, whole, block);
  if (rest == 0) return;
  std::byte last[8][128] = {};
  RowPointers ends = {};
  for (uint32_t row = 0; row < count; ++row) {
    std::memcpy(last[row], rows[row] + whole * block, rest);
    ends[row] = last[row];
  }
  writer.write(ends, 1, block);
}

// Packs quantised blocks of one row at a time, each at most eight dwords, and keeps their scales.
class QuantRowPacker {
public:
  QuantRowPacker(const PackedFormat& format, const QuantFormat& quant)
      : quant_(quant), ready_(find_ready_block(format.type)), shape_(scale_shape(quant)),
        block_bytes_(info(format.type).block_bytes), runs_(info(format.type).block_size / 32) {}

  // Block `block` of 32 columns of a row: its codes, and its scales among those of the row.
  void pack(const std::byte* row, uint32_t block, uint32_t* words, std::byte* scales) {
    const std::byte* in = row + size_t{block / runs_} * block_bytes_;
    std::byte* own_scales = scales + scale_offset(shape_, block);
    uint32_t own = 0;
    if (ready_) {
      std::memcpy(words, in + ready_->codes, size_t{quant_.bits} * 4);
      for (uint32_t word = 0; word < quant_.bits; ++word) words[word] ^= ready_->flipped_codes;
      std::memcpy(&own, in, shape_.block_bytes);
      own ^= ready_->flipped_scales;
    } else {
      read_run(quant_, in, block % runs_, run_);
      pack_codes(quant_, run_, words);
      own = block_scales(quant_, run_);
      const uint32_t head = run_.scale | uint32_t{run_.minimum} << 16;
      if (shape_.head && block % blocks_of_head == 0) std::memcpy(own_scales - 4, &head, 4);
    }
    std::memcpy(own_scales, &own, shape_.block_bytes);
  }

private:
  const QuantFormat& quant_;
  const ReadyBlock* ready_;
  ScaleShape shape_;
  uint32_t block_bytes_, runs_;
  QuantRun run_ = {};
};

void pack_quantized(const PackedFormat& format, const QuantFormat& quant, const RowPointers& rows,
                    uint32_t count, std::span<std::byte> payload, std::span<std::byte> scales) {
  const size_t row_scales = size_t{format.scale_dwords()} * 4;
  std::vector<std::byte> row_major(8 * row_scales);
  QuantRowPacker packer(format, quant);
  PayloadWriter writer(format, count, payload);
  uint32_t words[8][8];
  RowPointers blocks = {};
  for (uint32_t row = 0; row < 8; ++row) blocks[row] = reinterpret_cast<const std::byte*>(words[row]);
  for (uint32_t block = 0; block < format.blocks(); ++block) {
    for (uint32_t row = 0; row < count; ++row) {
      packer.pack(rows[row], block, words[row], row_major.data() + row * row_scales);
    }
    writer.write(blocks, 1, size_t{quant.bits} * 4);
  }
  for (size_t word = 0; word < row_scales; word += 4) {
    for (uint32_t row = 0; row < count; ++row) {
      std::memcpy(scales.data() + word * 8 + row * 4, row_major.data() + row * row_scales + word, 4);
    }
  }
}

} // namespace

uint32_t PackedFormat::payload_dwords() const {
  const QuantFormat* quant = find_quant_format(type);
  return quant ? quant->bits : info(type).block_bytes * 8;
}

uint32_t PackedFormat::scale_dwords() const {
  const QuantFormat* quant = find_quant_format(type);
  return quant && columns
             ? (scale_offset(scale_shape(*quant), blocks() - 1) + scale_shape(*quant).block_bytes + 3) / 4
             : 0;
}

std::string kernel_variant(TensorType type) {
  return lower_case(info(type).name);
}

std::string cpu8_kernel_variant(const PackedFormat& format) {
  return kernel_variant(format.type) + (format.lane_bytes == 2 ? "_halves" : "");
}

void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales) {
  assert(payload.size() == format.tile_payload_bytes() && scales.size() == format.tile_scale_bytes());
  if (source.rows < 8) {
    std::memset(payload.data(), 0, payload.size());
    if (!scales.empty()) std::memset(scales.data(), 0, scales.size());
  }
  if (source.rows == 0) return;
  const TileRows tile(format, source);
  if (const QuantFormat* quant = find_quant_format(format.type)) {
    pack_quantized(format, *quant, tile.rows(), source.rows, payload, scales);
  } else {
    pack_plain(format, tile.rows(), source.rows, payload);
  }
}

} // namespace pumice
