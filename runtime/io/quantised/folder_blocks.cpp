#include "io/quantised/folder_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"
#include "io/quantised/nvfp4_blocks.h"
#include "io/quantised/ternary_blocks.h"
#include "io/tensor_type.h"

namespace pumice {
namespace {

using nlohmann::json;

constexpr uint64_t run = 32; // weights of a block

// A whole number that is not negative.
std::optional<uint64_t> whole(const json& value) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0)) return {};
  return value.get<uint64_t>();
}

void put_nibbles(const uint8_t* codes, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(codes[i] | codes[i + 16] << 4);
}

// Codes of eight bits as they are, each with the scale of its rows and columns. With zero points, which have
// the places of scales, they are numbers.
class ByteBlocks : public BlockSource {
public:
  std::span<const std::byte> codes;
  FolderArray scales;
  std::optional<FolderArray> zeros; // of I8
  uint64_t columns = 0, rows_each = 1, columns_each = 1, scale_columns = 1;
  float factor = 1; // of every scale

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    if (zeros) {
      for (uint64_t weight = first; weight < first + count; ++weight, to += 4) {
        const int code = static_cast<int8_t>(codes[weight]) - zeros->at<int8_t>(scale_of(weight));
        const float value = scale(weight) * static_cast<float>(code);
        std::memcpy(to, &value, 4);
      }
      return;
    }
    for (uint64_t weight = first * run; weight < (first + count) * run; weight += run, to += 4 + run) {
      const float own = scale(weight);
      std::memcpy(to, &own, 4);
      std::memcpy(to + 4, codes.data() + weight, run);
    }
  }

private:
  uint64_t scale_of(uint64_t weight) const {
    return weight / columns / rows_each * scale_columns + weight % columns / columns_each;
  }
  float scale(uint64_t weight) const { return factor * scales.float_at(scale_of(weight)); }
};

// Codes of fewer bits in words of 32, with zero points. Where codes of a row and of a group of its columns
// are, and their scale and zero, is what formats differ in.
class WordBlocks : public BlockSource {
public:
  enum class Layout { inputs, outputs, rows }; // what neighbours in a word are: GPTQ; AWQ; compressed-tensors

  Layout layout = Layout::rows;
  TensorType type = TensorType::f32;
  FolderArray words, scales;
  std::optional<FolderArray> zeros, group_of; // of words, and of I32
  uint64_t rows = 0, columns = 0, group_size = 0, groups = 0;
  uint32_t bits = 4, zero_offset = 0;

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    const TensorTypeInfo& of = info(type);
    for (uint64_t block = first; block < first + count; ++block, to += of.block_bytes) {
      const uint64_t weight = block * of.block_size, row = weight / columns, column = weight % columns;
      if (type == TensorType::f32) {
        const uint64_t group = group_at(column);
        const float value = scale(row, group) * static_cast<float>(static_cast<int>(code(row, column)) -
                                                                   static_cast<int>(zero(row, group)));
        std::memcpy(to, &value, 4);
        continue;
      }
      put_block(row, column, to);
    }
  }

  uint32_t zero(uint64_t row, uint64_t group) const {
    if (!zeros) return 1u << (bits - 1);
    switch (layout) {
    case Layout::inputs:
      return (word(*zeros, group * (rows / per()) + row / per()) >> bits * (row % per()) & mask()) +
             zero_offset;
    case Layout::outputs:
      return word(*zeros, group * (rows / per()) + row / per()) >> bits * place(row) & mask();
    case Layout::rows:
      return word(*zeros, row / per() * groups + group) >> bits * (row % per()) & mask();
    }
    return 0;
  }
  float scale(uint64_t row, uint64_t group) const {
    return scales.float_at(layout == Layout::rows ? row * groups + group : group * rows + row);
  }

private:
  uint64_t per() const { return 32 / bits; }
  uint32_t mask() const { return (1u << bits) - 1; }
  static uint32_t word(const FolderArray& array, uint64_t i) { return array.at<uint32_t>(i); }
  // AWQ has the even ones of eight neighbours before the odd ones.
  static uint32_t place(uint64_t row) { return static_cast<uint32_t>(row % 8 / 2 + row % 2 * 4); }
  uint64_t group_at(uint64_t column) const {
    if (group_of) return std::min<uint64_t>(group_of->at<uint32_t>(column), groups - 1);
    return column / group_size;
  }

  uint32_t code(uint64_t row, uint64_t column) const {
    switch (layout) {
    case Layout::inputs:
      return word(words, column / per() * rows + row) >> bits * (column % per()) & mask();
    case Layout::outputs:
      return word(words, column * (rows / per()) + row / per()) >> bits * place(row) & mask();
    case Layout::rows:
      return word(words, row * (columns / per()) + column / per()) >> bits * (column % per()) & mask();
    }
    return 0;
  }

  void put_block(uint64_t row, uint64_t column, std::byte* to) const {
    const uint64_t group = group_at(column);
    uint8_t codes[run];
    for (uint64_t i = 0; i < run; ++i) codes[i] = static_cast<uint8_t>(code(row, column + i));
    if (type == TensorType::uint4) {
      const uint16_t half = float_to_half(scale(row, group)), taken = static_cast<uint16_t>(zero(row, group));
      std::memcpy(to, &half, 2);
      std::memcpy(to + 2, &taken, 2);
    } else {
      const float own = scale(row, group);
      std::memcpy(to, &own, 4);
    }
    if (type == TensorType::int8) {
      for (uint64_t i = 0; i < run; ++i) to[4 + i] = static_cast<std::byte>(codes[i] ^ 0x80);
    } else {
      put_nibbles(codes, to + 4);
    }
  }
};

// NF4: neighbours in the halves of a byte, the first in the upper one; blocks with a scale each, which may be
// quantised itself.
class NormalFloatBlocks : public BlockSource {
public:
  std::span<const std::byte> codes;
  FolderArray scales;
  std::optional<FolderArray> scale_numbers,
      scale_scales; // what the scales' codes stand for, and their scales
  uint64_t block = 64, scale_block = 256;
  float offset = 0;

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    for (uint64_t weight = first * run; weight < (first + count) * run; weight += run, to += 20) {
      const float scale = scale_at(weight / block);
      std::memcpy(to, &scale, 4);
      uint8_t own[run];
      for (uint64_t i = 0; i < run; ++i)
        own[i] = std::to_integer<uint8_t>(codes[(weight + i) / 2]) >> (i % 2 ? 0 : 4) & 15;
      put_nibbles(own, to + 4);
    }
  }

private:
  float scale_at(uint64_t i) const {
    if (!scale_numbers) return scales.float_at(i);
    return scale_numbers->float_at(std::to_integer<uint8_t>(scales.data[i])) *
               scale_scales->float_at(i / scale_block) +
           offset;
  }
};

// The name of the library that quantised a folder, which does not say so where it is an older one.
std::string method_of(const json& settings) {
  const json method = settings.is_object() ? settings.value("quant_method", json()) : json();
  return method.is_string() ? method.get<std::string>() : "";
}

// Looks for the weights of one kind of folder.
class Finder {
public:
  Finder(const json& settings, const FindArray& find, const std::string& path)
      : settings_(settings), find_(find), path_(path) {}

  FolderWeights found;

  Status fp8(const std::string& weight) {
    const auto codes = find_(weight);
    if (!codes || codes->dtype != "F8_E4M3" || codes->shape.size() != 2) return {};
    for (const char* name : {"_scale_inv", "_scale"}) {
      if (const auto scales = find_(weight + name); scales && scales->is_float()) {
        take({weight, weight + name});
        return add_bytes(weight, *codes, *scales, TensorType::f8_e4m3, 1);
      }
    }
    return {};
  }

  Status int8(const std::string& weight, const std::string& scale_name, float factor) {
    const auto codes = find_(weight), scales = find_(scale_name);
    if (!codes || codes->dtype != "I8" || codes->shape.size() != 2 || !scales || !scales->is_float())
      return {};
    const std::string zero_name = weight + "_zero_point";
    std::optional<FolderArray> zeros = find_(zero_name);
    if (zeros && (zeros->dtype != "I8" || zeros->elements() != scales->elements())) return wrong(zero_name);
    if (zeros && std::ranges::all_of(zeros->data, [](std::byte zero) { return zero == std::byte{0}; }))
      zeros.reset();
    take({weight, scale_name, zero_name});
    return add_bytes(weight, *codes, *scales, TensorType::int8, factor, std::move(zeros));
  }

  Status gptq_or_awq(const std::string& packed, bool awq) {
    const std::string name = packed.substr(0, packed.size() - std::string_view("qweight").size());
    const auto words = find_(packed), scales = find_(name + "scales"), zeros = find_(name + "qzeros");
    if (!words || !scales || !zeros) return {};
    auto blocks = std::make_shared<WordBlocks>();
    blocks->layout = awq ? WordBlocks::Layout::outputs : WordBlocks::Layout::inputs;
    const bool shaped = words->dtype == "I32" && words->shape.size() == 2 && scales->shape.size() == 2 &&
                        scales->is_float() && zeros->dtype == "I32" && zeros->shape.size() == 2;
    if (!shaped || scales->elements() == 0) return wrong(packed);
    // Rules for single modules are regular expressions of Python's; the arrays say the same.
    const uint64_t bits = settings_.contains("dynamic") ? zeros->shape[1] * 32 / scales->shape[1]
                                                        : number("bits", number("w_bit", 4));
    PUMICE_TRY(blocks->bits, bits_of(bits, packed));
    const uint64_t per = 32 / blocks->bits;
    if (awq && blocks->bits != 4) return wrong(packed);
    blocks->columns = words->shape[0] * (awq ? 1 : per);
    blocks->rows = words->shape[1] * (awq ? per : 1);
    blocks->groups = scales->shape[0];
    if (blocks->groups == 0 || scales->shape[1] != blocks->rows || zeros->shape[0] != blocks->groups ||
        zeros->shape[1] * per != blocks->rows || blocks->columns % blocks->groups != 0)
      return wrong(packed);
    blocks->group_size = blocks->columns / blocks->groups;
    blocks->words = *words;
    blocks->scales = *scales;
    blocks->zeros = *zeros;
    blocks->zero_offset = !awq && text("checkpoint_format") != "gptq_v2" ? 1 : 0;
    if (const auto groups = find_(name + "g_idx"); groups && !awq) {
      PUMICE_CHECK(group_columns(*blocks, *groups, name + "g_idx"));
    }
    take({packed, name + "scales", name + "qzeros", name + "g_idx"});
    return add_words(name + "weight", std::move(blocks));
  }

  Status packed(const std::string& array) {
    const std::string weight = array.substr(0, array.size() - std::string_view("_packed").size());
    const auto words = find_(array), scales = find_(weight + "_scale");
    if (!words || !scales) return {};
    if (words->dtype == "U8") return nvfp4(array, weight, weight + "_global_scale", true);
    auto blocks = std::make_shared<WordBlocks>();
    if (words->dtype != "I32" || words->shape.size() != 2 || scales->shape.size() != 2 || !scales->is_float())
      return wrong(array);
    blocks->rows = words->shape[0];
    blocks->groups = scales->shape[1];
    uint64_t bits = 4;
    if (settings_.contains("config_groups") && settings_["config_groups"].is_object()) {
      for (const auto& [group, each] : settings_["config_groups"].items()) {
        if (each.is_object() && each.contains("weights") && each["weights"].is_object())
          bits = whole(each["weights"].value("num_bits", json())).value_or(bits);
      }
    }
    const auto shape = find_(weight + "_shape"); // of the weight: groups may differ in their bits
    if (shape && shape->dtype == "I64" && shape->elements() == 2) {
      const uint64_t columns = shape->at<uint64_t>(1);
      if (columns > 0) bits = words->shape[1] * 32 / columns;
    }
    PUMICE_TRY(blocks->bits, bits_of(bits, array));
    blocks->columns = words->shape[1] * 32 / blocks->bits;
    if (blocks->groups == 0 || scales->shape[0] != blocks->rows || blocks->columns % blocks->groups != 0)
      return wrong(array);
    blocks->group_size = blocks->columns / blocks->groups;
    blocks->words = *words;
    blocks->scales = *scales;
    if (const auto zeros = find_(weight + "_zero_point")) {
      if (zeros->dtype != "I32" || zeros->shape.size() != 2 || zeros->shape[1] != blocks->groups ||
          zeros->shape[0] * 32 / blocks->bits < blocks->rows)
        return wrong(weight + "_zero_point");
      blocks->zeros = *zeros;
    }
    take({array, weight + "_scale", weight + "_zero_point", weight + "_shape", weight + "_g_idx"});
    if (const auto groups = find_(weight + "_g_idx")) {
      PUMICE_CHECK(group_columns(*blocks, *groups, weight + "_g_idx"));
    }
    return add_words(weight, std::move(blocks));
  }

  // `factor_name`: of what all scales are times, or with `divided` over.
  Status nvfp4(const std::string& array, const std::string& weight, const std::string& factor_name,
               bool divided) {
    const auto codes = find_(array), scales = find_(weight + "_scale"), factor = find_(factor_name);
    if (!codes || codes->dtype != "U8" || !scales || !factor) return {};
    const bool fits = codes->shape.size() == 2 && codes->shape[1] % 8 == 0 && scales->dtype == "F8_E4M3" &&
                      scales->shape == std::vector<uint64_t>{codes->shape[0], codes->shape[1] / 8} &&
                      factor->dtype == "F32" && factor->elements() == 1;
    if (!fits) return wrong(array);
    const float given = factor->float_at(0);
    const std::string name = weight.substr(0, weight.size() - std::string_view("weight").size());
    take({array, weight + "_scale", factor_name, name + "input_scale", name + "input_global_scale"});
    found.tensors.push_back({weight,
                             TensorType::f32,
                             {codes->shape[0], codes->shape[1] * 2},
                             codes->data,
                             {},
                             nvfp4_blocks(*codes, *scales, divided ? 1 / given : given)});
    return {};
  }

  Status bitnet(const std::string& weight) {
    const auto array = find_(weight);
    if (!array || array->shape.size() != 2 || array->elements() == 0) return {};
    const std::string scale_name = weight + "_scale";
    const auto scale = find_(scale_name);
    if (array->dtype == "U8") {
      if (!scale || !scale->is_float() || scale->elements() != 1) return wrong(weight);
      const float given = scale->float_at(0);
      take({weight, scale_name});
      add_ternary(weight, *array,
                  packed_ternary(*array, text("linear_class") == "autobitlinear" ? given : 1 / given));
    } else if (scale) {
      return wrong(weight);
    } else if (text("quantization_mode") == "online" && array->is_float() && is_rounded(weight)) {
      take({weight});
      add_ternary(weight, *array, rounded_ternary(*array));
    }
    return {};
  }

  // Whether the settings are such that a matrix' weights are all that they change.
  Status check_bitnet() const {
    const auto norms = settings_.find("use_rms_norm");
    if (norms == settings_.end() || norms->is_null() || *norms == false) return {};
    return Error{
        Code::unsupported,
        fmt::format("{}: field 'quantization_config.use_rms_norm': expected false: norms before each "
                    "matrix are not supported",
                    path_)};
  }

  Status nf4(const std::string& weight) {
    const auto codes = find_(weight), scales = find_(weight + ".absmax");
    const std::string state_name = weight + ".quant_state.bitsandbytes__nf4";
    const auto state_bytes = find_(state_name);
    if (!codes || codes->dtype != "U8" || !scales || !state_bytes) return {};
    const json state = json::parse(as_text(state_bytes->data), nullptr, /*allow_exceptions=*/false);
    auto blocks = std::make_shared<NormalFloatBlocks>();
    if (!state.is_object() || !state.contains("shape") || !state["shape"].is_array())
      return wrong(state_name);
    std::vector<uint64_t> shape;
    uint64_t weights = 1;
    for (const json& size : state["shape"]) {
      const auto given = whole(size);
      if (!given || !multiply(weights, *given, weights)) return wrong(state_name);
      shape.push_back(*given);
    }
    blocks->block = whole(state.value("blocksize", json())).value_or(64);
    if (shape.size() != 2 || weights == 0 || shape.back() % run != 0 || blocks->block == 0 ||
        blocks->block % run != 0 || codes->data.size() != weights / 2)
      return wrong(state_name);
    const uint64_t count = (weights + blocks->block - 1) / blocks->block;
    blocks->codes = codes->data;
    blocks->scales = *scales;
    if (scales->elements() != count || (scales->dtype != "U8" && !scales->is_float()))
      return wrong(weight + ".absmax");
    if (scales->dtype == "U8") {
      blocks->scale_numbers = find_(weight + ".nested_quant_map");
      blocks->scale_scales = find_(weight + ".nested_absmax");
      blocks->scale_block =
          std::max<uint64_t>(1, whole(state.value("nested_blocksize", json())).value_or(256));
      blocks->offset =
          state.value("nested_offset", json(0)).is_number() ? state.value("nested_offset", 0.0f) : 0;
      const bool nested =
          blocks->scale_numbers && blocks->scale_numbers->is_float() &&
          blocks->scale_numbers->elements() == 256 && blocks->scale_scales &&
          blocks->scale_scales->is_float() &&
          blocks->scale_scales->elements() >= (count + blocks->scale_block - 1) / blocks->scale_block;
      if (!nested) return wrong(weight + ".nested_absmax");
    }
    take({weight, weight + ".absmax", weight + ".quant_map", weight + ".nested_absmax",
          weight + ".nested_quant_map", state_name});
    found.tensors.push_back({weight, TensorType::nf4, shape, codes->data, {}, std::move(blocks)});
    return {};
  }

private:
  uint64_t number(const char* name, uint64_t otherwise) const {
    const auto value = settings_.find(name);
    return value == settings_.end() ? otherwise : whole(*value).value_or(otherwise);
  }
  std::string text(const char* name) const {
    const auto value = settings_.find(name);
    return value != settings_.end() && value->is_string() ? value->get<std::string>() : "";
  }
  Result<uint32_t> bits_of(uint64_t bits, const std::string& array) const {
    if (bits == 2 || bits == 4 || bits == 8) return static_cast<uint32_t>(bits);
    return Error{Code::unsupported, fmt::format("{}: tensor '{}': expected codes of 2, 4 or 8 bits, found {}",
                                                path_, array, bits)};
  }
  Error wrong(const std::string& array) const {
    return {Code::invalid_file, fmt::format("{}: tensor '{}': its shape or type, or that of a tensor beside "
                                            "it, is not what the folder's quantization_config says",
                                            path_, array)};
  }
  // Of online rounding: the matrices of layers, but for those that are named.
  bool is_rounded(const std::string& weight) const {
    const std::string module = weight.substr(0, weight.size() - std::string_view(".weight").size());
    if (module.find("layers.") == std::string::npos) return false;
    const auto kept = settings_.find("modules_to_not_convert");
    if (kept == settings_.end() || !kept->is_array()) return true;
    return std::ranges::none_of(*kept, [&](const json& each) {
      const std::string name = each.is_string() ? each.get<std::string>() : "";
      return !name.empty() &&
             (module == name || module.starts_with(name + ".") || module.ends_with("." + name));
    });
  }
  void add_ternary(const std::string& weight, const FolderArray& array, TernaryMatrix matrix) {
    found.tensors.push_back(
        {weight, matrix.type, std::move(matrix.shape), array.data, {}, std::move(matrix.blocks)});
  }
  void take(std::initializer_list<std::string> names) { found.taken.insert(names); }

  // Columns whose groups a list says. One that says only that neighbours belong together changes nothing.
  Status group_columns(WordBlocks& blocks, const FolderArray& groups, const std::string& name) const {
    if (groups.dtype != "I32" || groups.elements() != blocks.columns) return wrong(name);
    for (uint64_t i = 0; i < blocks.columns && !blocks.group_of; ++i) {
      if (groups.at<uint32_t>(i) != i / blocks.group_size) blocks.group_of = groups;
    }
    return {};
  }

  // Scales of the whole, of rows, or of blocks of rows and columns.
  Status add_bytes(const std::string& weight, const FolderArray& codes, const FolderArray& scales,
                   TensorType type, float factor, std::optional<FolderArray> zeros = {}) {
    auto blocks = std::make_shared<ByteBlocks>();
    const uint64_t rows = codes.shape[0], columns = codes.shape[1];
    uint64_t scale_rows = scales.elements(), scale_columns = 1;
    if (scales.shape.size() == 2) {
      scale_rows = scales.shape[0];
      scale_columns = scales.shape[1];
    }
    if (scale_rows == 0 || scale_columns == 0 || rows == 0 || columns % run != 0) return wrong(weight);
    blocks->rows_each = (rows + scale_rows - 1) / scale_rows;
    blocks->columns_each = (columns + scale_columns - 1) / scale_columns;
    const auto sizes = settings_.find("weight_block_size");
    if (scale_rows * scale_columns > 1 && sizes != settings_.end() && sizes->is_array() &&
        sizes->size() == 2) {
      blocks->rows_each = std::max<uint64_t>(1, whole((*sizes)[0]).value_or(1));
      blocks->columns_each = std::max<uint64_t>(1, whole((*sizes)[1]).value_or(1));
    }
    const bool covered = (rows + blocks->rows_each - 1) / blocks->rows_each == scale_rows &&
                         (columns + blocks->columns_each - 1) / blocks->columns_each == scale_columns;
    if (!covered || (scale_columns > 1 && blocks->columns_each % run != 0)) return wrong(weight);
    blocks->codes = codes.data;
    blocks->scales = scales;
    blocks->columns = columns;
    blocks->scale_columns = scale_columns;
    blocks->factor = factor;
    if (zeros) type = TensorType::f32;
    blocks->zeros = std::move(zeros);
    found.tensors.push_back({weight, type, codes.shape, codes.data, {}, std::move(blocks)});
    return {};
  }

  Status add_words(const std::string& weight, std::shared_ptr<WordBlocks> blocks) {
    blocks->type = exact_type(*blocks);
    found.tensors.push_back(
        {weight, blocks->type, {blocks->rows, blocks->columns}, blocks->words.data, {}, std::move(blocks)});
    return {};
  }

  static TensorType exact_type(const WordBlocks& blocks) {
    if (blocks.group_of || blocks.group_size % run != 0 || blocks.bits == 2) return TensorType::f32;
    bool centred = true, halves = true;
    for (uint64_t group = 0; group < blocks.groups; ++group) {
      for (uint64_t row = 0; row < blocks.rows; ++row) {
        centred = centred && blocks.zero(row, group) == 1u << (blocks.bits - 1);
        const float scale = blocks.scale(row, group);
        halves = halves && half_to_float(float_to_half(scale)) == scale;
      }
    }
    if (centred) return blocks.bits == 4 ? TensorType::int4 : TensorType::int8;
    return blocks.bits == 4 && halves ? TensorType::uint4 : TensorType::f32;
  }

  const json& settings_;
  const FindArray& find_;
  const std::string& path_;
};

} // namespace

Result<FolderWeights> quantised_weights(const json& config, const std::vector<std::string>& names,
                                        const FindArray& find, const std::string& path) {
  const auto given = config.find("quantization_config");
  const json settings = given == config.end() ? json() : *given;
  if (!settings.is_object() && !settings.is_null()) return FolderWeights();
  const std::string method = method_of(settings);
  const bool modelopt = method.empty() || method.starts_with("modelopt");
  Finder finder(settings, find, path);
  if (method == "bitnet") PUMICE_CHECK(finder.check_bitnet());
  for (const std::string& name : names) {
    const bool weight = name.ends_with(".weight");
    if (method == "fp8" || method == "fbgemm_fp8" || modelopt) {
      if (weight) PUMICE_CHECK(finder.fp8(name));
      if (weight && modelopt) PUMICE_CHECK(finder.nvfp4(name, name, name + "_scale_2", false));
    } else if (method == "gptq" || method == "awq") {
      if (name.ends_with(".qweight")) PUMICE_CHECK(finder.gptq_or_awq(name, method == "awq"));
    } else if (method == "compressed-tensors") {
      if (name.ends_with(".weight_packed")) PUMICE_CHECK(finder.packed(name));
      if (weight) PUMICE_CHECK(finder.fp8(name));
      if (weight) PUMICE_CHECK(finder.int8(name, name + "_scale", 1));
    } else if (method == "bitsandbytes" && weight) {
      PUMICE_CHECK(finder.nf4(name));
      PUMICE_CHECK(finder.int8(name, name.substr(0, name.size() - 6) + "SCB", 1.0f / 127));
    } else if (method == "bitnet" && weight) {
      PUMICE_CHECK(finder.bitnet(name));
    }
  }
  return std::move(finder.found);
}

} // namespace pumice
