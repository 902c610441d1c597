#include "kernel/weight_packing.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <cstring>
#include <vector>

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
    return {4, false};
  case QuantScales::exponent:
    return {1, false};
  case QuantScales::signed_bytes:
    return {format.parts, true};
  case QuantScales::bytes_minimum:
  case QuantScales::nibbles_minimum:
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
  case QuantScales::exponent:
    return run.scale;
  case QuantScales::half_minimum:
    return run.scale | uint32_t{run.minimum} << 16;
  case QuantScales::signed_bytes:
    return byte(run.scales[0], 0) | (format.parts == 2 ? byte(run.scales[1], 1) : 0);
  case QuantScales::bytes_minimum:
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

// A row's bytes as a file has them one after the other. Those of a transposed weight are put into `gathered`
// first.
const std::byte* source_row(const WeightView& weight, uint64_t row, std::vector<std::byte>& gathered) {
  const uint64_t stride = weight.tensor_row_bytes();
  const std::byte* data = weight.tensor->data.data();
  if (!weight.transposed) return data + weight.source_row(row) * stride;
  const uint64_t element = info(weight.type()).block_bytes;
  gathered.resize(weight.columns * element);
  data += weight.source_row(row) * element;
  for (uint64_t column = 0; column < weight.columns; ++column) {
    std::memcpy(gathered.data() + column * element, data + column * stride, element);
  }
  return gathered.data();
}

// The rows of a tile in the format's type, whatever the file's.
class RowReader {
public:
  RowReader(const PackedFormat& format, const WeightView& weight) : format_(format), weight_(weight) {
    if (weight.type() == format.type) return;
    const uint64_t block = info(format.type).block_size;
    values_.resize((format.columns + block - 1) / block * block);
    quantised_.resize(row_bytes(format.type, values_.size()));
  }

  const std::byte* read(uint64_t row) {
    const std::byte* bytes = source_row(weight_, row, gathered_);
    if (quantised_.empty()) return bytes;
    decode_row(weight_.type(), bytes, std::span(values_).first(format_.columns));
    quantize_row(format_.type, values_, quantised_.data());
    return quantised_.data();
  }

private:
  const PackedFormat& format_;
  const WeightView& weight_;
  std::vector<std::byte> gathered_, quantised_;
  std::vector<float> values_; // past the columns: zeros
};

// Row `row` of a tile's payload, which takes a block's dwords one after the other.
class LaneWriter {
public:
  LaneWriter(const PackedFormat& format, std::span<std::byte> payload, uint32_t row)
      : payload_(payload), row_(row), dwords_(format.payload_dwords()), chunk_(format.chunk) {}

  void write(const uint32_t* words) {
    for (uint32_t word = 0; word < dwords_; word += chunk_) {
      const size_t width = size_t{std::min(chunk_, dwords_ - word)} * 4;
      std::memcpy(payload_.data() + at_ + row_ * width, words + word, width);
      at_ += width * 8;
    }
  }

private:
  std::span<std::byte> payload_;
  uint32_t row_, dwords_, chunk_;
  size_t at_ = 0;
};

// Plain numbers are the payload as they are; a last block that is not full ends in zeros.
void pack_plain_row(const PackedFormat& format, const std::byte* in, LaneWriter& lane) {
  const uint32_t element = info(format.type).block_bytes;
  for (uint32_t block = 0; block < format.blocks(); ++block, in += size_t{32} * element) {
    uint32_t words[32] = {};
    std::memcpy(words, in, size_t{std::min(32u, format.columns - block * 32)} * element);
    lane.write(words);
  }
}

void pack_quant_row(const PackedFormat& format, const QuantFormat& quant, const std::byte* in,
                    LaneWriter& lane, uint32_t row, std::span<std::byte> scales) {
  const TensorTypeInfo& type = info(format.type);
  const uint32_t runs = type.block_size / 32;
  const ScaleShape shape = scale_shape(quant);
  std::vector<std::byte> bytes(size_t{format.scale_dwords()} * 4);
  QuantRun run = {};
  for (uint32_t block = 0; block < format.blocks(); ++block) {
    quant.read(in + size_t{block / runs} * type.block_bytes, block % runs, run);
    uint32_t words[8];
    pack_codes(quant, run, words);
    lane.write(words);
    const uint32_t own = block_scales(quant, run), at = scale_offset(shape, block);
    std::memcpy(bytes.data() + at, &own, shape.block_bytes);
    if (shape.head && block % blocks_of_head == 0) {
      const uint32_t head = run.scale | uint32_t{run.minimum} << 16;
      std::memcpy(bytes.data() + at - 4, &head, 4);
    }
  }
  for (size_t word = 0; word < format.scale_dwords(); ++word) {
    std::memcpy(scales.data() + (word * 8 + row) * 4, bytes.data() + word * 4, 4);
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
  std::string name(info(type).name);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales) {
  assert(payload.size() == format.tile_payload_bytes() && scales.size() == format.tile_scale_bytes());
  if (source.rows < 8) {
    std::memset(payload.data(), 0, payload.size());
    if (!scales.empty()) std::memset(scales.data(), 0, scales.size());
  }
  if (source.rows == 0) return;
  const QuantFormat* quant = find_quant_format(format.type);
  RowReader rows(format, *source.weight);
  for (uint32_t row = 0; row < source.rows; ++row) {
    const std::byte* in = rows.read(source.first_row + row);
    LaneWriter lane(format, payload, row);
    if (quant) {
      pack_quant_row(format, *quant, in, lane, row, scales);
    } else {
      pack_plain_row(format, in, lane);
    }
  }
}

} // namespace pumice
