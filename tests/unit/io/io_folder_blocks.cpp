#include "io/quantised/folder_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/tensor_type.h"
#include "support/command/messages.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::vector<float> values_of(const TensorView& tensor) {
  REQUIRE(tensor.shape.size() == 2);
  const uint64_t count = tensor.shape[0] * tensor.shape[1];
  std::vector<std::byte> joined(row_bytes(tensor.type, count));
  join_blocks(tensor, 0, count / info(tensor.type).block_size, joined.data());
  std::vector<float> values(count);
  decode_row(tensor.type, joined.data(), values);
  return values;
}

// The arrays of a folder, and the random numbers that they are made of.
struct Folder {
  json config;
  std::map<std::string, FolderArray> arrays;
  std::map<std::string, std::vector<std::byte>> bytes;
  std::mt19937 random{7};

  template <class T>
  void add(const std::string& name, const char* dtype, std::vector<uint64_t> shape,
           const std::vector<T>& values) {
    std::vector<std::byte>& own = bytes[name];
    own.resize(values.size() * sizeof(T));
    std::memcpy(own.data(), values.data(), own.size());
    arrays[name] = {dtype, std::move(shape), own};
  }

  std::vector<uint32_t> words(size_t count) {
    std::vector<uint32_t> all(count);
    for (uint32_t& word : all) word = static_cast<uint32_t>(random());
    return all;
  }
  std::vector<uint8_t> some_bytes(size_t count) {
    std::vector<uint8_t> all(count);
    for (uint8_t& byte : all) byte = static_cast<uint8_t>(random());
    return all;
  }
  std::vector<float> scales(size_t count) {
    std::vector<float> all(count);
    for (float& scale : all) scale = static_cast<float>(random() % 1000 + 1) / 65536;
    return all;
  }
  static std::vector<uint16_t> halves(const std::vector<float>& values) {
    std::vector<uint16_t> all;
    for (const float value : values) all.push_back(float_to_half(value));
    return all;
  }

  Result<FolderWeights> read() const {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays) names.push_back(name);
    return quantised_weights(
        config, names,
        [&](const std::string& name) -> std::optional<FolderArray> {
          const auto found = arrays.find(name);
          return found == arrays.end() ? std::nullopt : std::optional(found->second);
        },
        "folder");
  }

  // The type and the numbers of the one weight.
  std::pair<std::string, std::vector<float>> weight() const {
    const auto read_weights = read();
    REQUIRE_MESSAGE(read_weights.ok(), read_weights.error().text());
    REQUIRE(read_weights->tensors.size() == 1);
    const TensorView& tensor = read_weights->tensors[0];
    CHECK(tensor.name == "a.weight");
    return {std::string(info(tensor.type).name), values_of(tensor)};
  }
};

void check_near(const std::vector<float>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  double worst = 0, most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - wanted[i]));
    most = std::max(most, std::abs(wanted[i]));
  }
  CHECK(worst <= 1e-6 * most);
  CHECK(most > 0);
}

double e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return code & 128 ? -size : size;
}

} // namespace

TEST_CASE("folders: FP8 with scales of blocks, of rows, and of the whole") {
  for (const auto& [sizes, scale_shape] :
       {std::pair(json{128, 128}, std::vector<uint64_t>{2, 2}), {json(), {160, 1}}, {json(), {1}}}) {
    Folder folder;
    folder.config["quantization_config"] = {{"quant_method", "fp8"}};
    if (!sizes.is_null()) folder.config["quantization_config"]["weight_block_size"] = sizes;
    const uint64_t rows = 160, columns = 192;
    std::vector<uint8_t> codes = folder.some_bytes(rows * columns);
    for (uint8_t& code : codes)
      if ((code & 127) == 127) code = 5; // no number
    const std::vector<float> scales =
        folder.scales(scale_shape.size() > 1 ? scale_shape[0] * scale_shape[1] : 1);
    folder.add("a.weight", "F8_E4M3", {rows, columns}, codes);
    folder.add("a.weight_scale_inv", "F32", scale_shape, scales);
    std::vector<double> wanted;
    for (uint64_t i = 0; i < rows * columns; ++i) {
      const uint64_t row = i / columns, column = i % columns;
      const size_t scale = scales.size() == 4 ? row / 128 * 2 + column / 128 : scales.size() == 160 ? row : 0;
      wanted.push_back(e4m3(codes[i]) * scales[scale]);
    }
    const auto [type, values] = folder.weight();
    CHECK(type == "F8_E4M3");
    check_near(values, wanted);
  }
}

TEST_CASE("folders: GPTQ, centred and with zero points, and rows in the order of their importance") {
  const uint64_t in = 128, out = 16, groups = 2;
  for (const char* kind : {"INT4", "UINT4", "F32", "INT8"}) {
    CAPTURE(kind);
    Folder folder;
    const uint32_t bits = std::string(kind) == "INT8" ? 8 : 4, per = 32 / bits, mask = (1u << bits) - 1;
    folder.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", 64}};
    const auto words = folder.words(in / per * out);
    auto zeros = folder.words(groups * out / per);
    if (kind[0] == 'I')
      zeros.assign(zeros.size(), bits == 4 ? 0x77777777 : 0x7f7f7f7f); // one less than the middle
    const auto scales = Folder::halves(folder.scales(groups * out));
    std::vector<int32_t> order(in);
    for (uint64_t i = 0; i < in; ++i) order[i] = static_cast<int32_t>(kind[0] == 'F' ? i % 2 : i / 64);
    folder.add("a.qweight", "I32", {in / per, out}, words);
    folder.add("a.qzeros", "I32", {groups, out / per}, zeros);
    folder.add("a.scales", "F16", {groups, out}, scales);
    folder.add("a.g_idx", "I32", {in}, order);
    std::vector<double> wanted;
    for (uint64_t row = 0; row < out; ++row) {
      for (uint64_t column = 0; column < in; ++column) {
        const uint64_t group = static_cast<uint64_t>(order[column]);
        const int code = static_cast<int>(words[column / per * out + row] >> bits * (column % per) & mask);
        const int zero =
            static_cast<int>(zeros[group * out / per + row / per] >> bits * (row % per) & mask) + 1;
        wanted.push_back((code - zero) * double{half_to_float(scales[group * out + row])});
      }
    }
    const auto [type, values] = folder.weight();
    CHECK(type == kind);
    check_near(values, wanted);
  }
}

TEST_CASE("folders: GPTQ whose modules have bits of their own, or are not quantised") {
  Folder folder;
  folder.config["quantization_config"] = {
      {"quant_method", "gptq"},
      {"bits", 4},
      {"group_size", 64},
      {"dynamic", {{"-:.*\\.c", json::object()}, {"+:.*\\.a", {{"bits", 8}, {"group_size", 32}}}}}};
  const uint64_t in = 64, out = 16, groups = 2;
  const auto words = folder.words(in / 4 * out);
  const auto scales = folder.scales(groups * out);
  folder.add("a.qweight", "I32", {in / 4, out}, words);
  folder.add("a.qzeros", "I32", {groups, out / 4}, std::vector<uint32_t>(groups * out / 4, 0x7f7f7f7f));
  folder.add("a.scales", "F32", {groups, out}, scales);
  std::vector<double> wanted;
  for (uint64_t row = 0; row < out; ++row) {
    for (uint64_t column = 0; column < in; ++column) {
      const int code = static_cast<int>(words[column / 4 * out + row] >> 8 * (column % 4) & 255);
      wanted.push_back((code - 128) * double{scales[column / 32 * out + row]});
    }
  }
  const auto [type, values] = folder.weight();
  CHECK(type == "INT8");
  check_near(values, wanted);
  folder.add("b.qweight", "I32", {in / 8, out}, folder.words(in / 8 * out));
  folder.add("b.qzeros", "I32", {1, out / 8}, std::vector<uint32_t>(out / 8, 0x77777777));
  folder.add("b.scales", "F32", {1, out}, folder.scales(out));
  folder.add("c.weight", "F16", {out, in}, std::vector<uint16_t>(out * in));
  const auto read = folder.read();
  REQUIRE_MESSAGE(read.ok(), read.error().text());
  REQUIRE(read->tensors.size() == 2);
  CHECK(read->tensors[1].type == TensorType::int4);
  CHECK(!read->taken.contains("c.weight"));
  folder.add("b.qzeros", "I32", {1, 3}, std::vector<uint32_t>(3)); // six bits
  CHECK(says(folder.read(), {"folder", "'b.qweight'", "2, 4 or 8 bits, found 6"}) == "");
}

TEST_CASE("folders: AWQ") {
  Folder folder;
  const uint64_t in = 64, out = 16, groups = 2;
  folder.config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  const auto words = folder.words(in * out / 8), zeros = folder.words(groups * out / 8);
  const auto scales = Folder::halves(folder.scales(groups * out));
  folder.add("a.qweight", "I32", {in, out / 8}, words);
  folder.add("a.qzeros", "I32", {groups, out / 8}, zeros);
  folder.add("a.scales", "F16", {groups, out}, scales);
  constexpr int place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; // of each of eight neighbours
  std::vector<double> wanted;
  for (uint64_t row = 0; row < out; ++row) {
    for (uint64_t column = 0; column < in; ++column) {
      const auto nibble = [&](uint32_t word) { return static_cast<int>(word >> 4 * place[row % 8] & 15); };
      const uint64_t group = column / 32;
      wanted.push_back((nibble(words[column * 2 + row / 8]) - nibble(zeros[group * 2 + row / 8])) *
                       double{half_to_float(scales[group * out + row])});
    }
  }
  const auto [type, values] = folder.weight();
  CHECK(type == "UINT4");
  check_near(values, wanted);
}

TEST_CASE("folders: compressed-tensors, packed with and without zero points, and bytes") {
  const uint64_t out = 16, in = 128, groups = 2;
  for (const char* kind : {"INT4", "F32", "INT8"}) {
    CAPTURE(kind);
    Folder folder;
    const uint32_t bits = std::string(kind) == "INT8" ? 8 : 4, per = 32 / bits, mask = (1u << bits) - 1;
    folder.config["quantization_config"] = {
        {"quant_method", "compressed-tensors"},
        {"config_groups", {{"group_0", {{"weights", {{"num_bits", bits}}}}}}}};
    const auto words = folder.words(out * in / per), zeros = folder.words(out / per * groups);
    auto scales = folder.scales(out * groups);
    for (float& scale : scales) scale *= 1.0001f; // no halves
    folder.add("a.weight_packed", "I32", {out, in / per}, words);
    folder.add("a.weight_scale", "F32", {out, groups}, scales);
    if (kind[0] == 'F') folder.add("a.weight_zero_point", "I32", {out / per, groups}, zeros);
    std::vector<double> wanted;
    for (uint64_t row = 0; row < out; ++row) {
      for (uint64_t column = 0; column < in; ++column) {
        const uint64_t group = column / 64;
        const int code =
            static_cast<int>(words[row * in / per + column / per] >> bits * (column % per) & mask);
        const int zero =
            kind[0] == 'F' ? static_cast<int>(zeros[row / per * groups + group] >> bits * (row % per) & mask)
                           : 1 << (bits - 1);
        wanted.push_back((code - zero) * double{scales[row * groups + group]});
      }
    }
    const auto [type, values] = folder.weight();
    CHECK(type == kind);
    check_near(values, wanted);
    // Another group's bits stand last in the settings; the weight's own shape tells.
    folder.config["quantization_config"]["config_groups"]["group_1"] = {
        {"weights", {{"num_bits", 12 - bits}}}};
    folder.add("a.weight_shape", "I64", {2}, std::vector<int64_t>{int64_t{out}, int64_t{in}});
    const auto [mixed_type, mixed_values] = folder.weight();
    CHECK(mixed_type == kind);
    check_near(mixed_values, wanted);
    // Columns in the order of their importance: every other one is of the second group.
    std::vector<int32_t> order(in);
    for (uint64_t i = 0; i < in; ++i) order[i] = static_cast<int32_t>(i % groups);
    folder.add("a.weight_g_idx", "I32", {in}, order);
    for (uint64_t i = 0; i < out * in; ++i) {
      const uint64_t row = i / in, column = i % in, group = column % groups;
      const int code = static_cast<int>(words[row * in / per + column / per] >> bits * (column % per) & mask);
      const int zero = kind[0] == 'F'
                           ? static_cast<int>(zeros[row / per * groups + group] >> bits * (row % per) & mask)
                           : 1 << (bits - 1);
      wanted[i] = (code - zero) * double{scales[row * groups + group]};
    }
    const auto [ordered_type, ordered_values] = folder.weight();
    CHECK(ordered_type == "F32");
    check_near(ordered_values, wanted);
  }
  Folder bytes;
  bytes.config["quantization_config"] = {{"quant_method", "compressed-tensors"}};
  const auto codes = bytes.some_bytes(out * in);
  const auto scales = bytes.scales(out);
  bytes.add("a.weight", "I8", {out, in}, codes);
  bytes.add("a.weight_scale", "F32", {out, 1}, scales);
  std::vector<double> wanted;
  for (uint64_t i = 0; i < out * in; ++i)
    wanted.push_back(static_cast<int8_t>(codes[i]) * double{scales[i / in]});
  auto [type, values] = bytes.weight();
  CHECK(type == "INT8");
  check_near(values, wanted);
  bytes.add("a.weight_zero_point", "I8", {out, 1}, std::vector<int8_t>(out));
  CHECK(bytes.weight().first == "INT8");
  std::vector<int8_t> zeros(out);
  for (uint64_t i = 0; i < out; ++i) zeros[i] = static_cast<int8_t>(i * 17 - 128);
  bytes.add("a.weight_zero_point", "I8", {out, 1}, zeros);
  for (uint64_t i = 0; i < out * in; ++i) wanted[i] -= zeros[i / in] * double{scales[i / in]};
  std::tie(type, values) = bytes.weight();
  CHECK(type == "F32");
  check_near(values, wanted);
  bytes.add("a.weight_zero_point", "I8", {1}, std::vector<int8_t>{1});
  CHECK(says(bytes.read(), {"folder", "'a.weight_zero_point'"}) == "");
}

TEST_CASE("folders: NVFP4 of ModelOpt and of compressed-tensors") {
  const uint64_t out = 6, in = 48;
  constexpr double numbers[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const char* method : {"modelopt", "", "compressed-tensors"}) {
    CAPTURE(method);
    Folder folder;
    if (*method)
      folder.config["quantization_config"] = {{"quant_method", method}, {"format", "nvfp4-pack-quantized"}};
    const bool packed = *method == 'c';
    const auto codes = folder.some_bytes(out * in / 2);
    auto scales = folder.some_bytes(out * in / 16);
    for (uint8_t& scale : scales) scale &= 0x77; // neither negative nor no number
    folder.add(packed ? "a.weight_packed" : "a.weight", "U8", {out, in / 2}, codes);
    folder.add("a.weight_scale", "F8_E4M3", {out, in / 16}, scales);
    const float factor = packed ? 300.0f : 0.0033f;
    if (packed)
      folder.add("a.weight_global_scale", "F32", {1}, std::vector<float>{factor});
    else
      folder.add("a.weight_scale_2", "F32", {}, std::vector<float>{factor});
    folder.add(packed ? "a.input_global_scale" : "a.input_scale", "F32", {1}, std::vector<float>{2});
    std::vector<double> wanted;
    for (uint64_t i = 0; i < out * in; ++i) {
      const int code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      const double scale = packed ? e4m3(scales[i / 16]) / factor : e4m3(scales[i / 16]) * factor;
      wanted.push_back((code & 8 ? -1 : 1) * numbers[code & 7] * scale);
    }
    const auto [type, values] = folder.weight();
    CHECK(type == "F32");
    check_near(values, wanted);
    CHECK(folder.read()->taken.contains(packed ? "a.input_global_scale" : "a.input_scale"));
    folder.add("a.weight_scale", "F8_E4M3", {out, 2}, folder.some_bytes(out * 2));
    CHECK(says(folder.read(), {"folder", packed ? "'a.weight_packed'" : "'a.weight'"}) == "");
  }
}

TEST_CASE("folders: BitNet, packed and rounded") {
  const uint64_t out = 8;
  for (const auto& [columns, kind] : {std::pair(uint64_t{256}, "TQ2_0"), {96, "INT4"}, {40, "F32"}}) {
    const std::string smallest = kind;
    CAPTURE(smallest);
    for (const bool automatic : {true, false}) {
      Folder folder;
      folder.config["quantization_config"] = {{"quant_method", "bitnet"}};
      if (automatic) folder.config["quantization_config"]["linear_class"] = "autobitlinear";
      std::vector<uint8_t> codes = folder.some_bytes(out / 4 * columns);
      for (uint8_t& four : codes) four &= 0b10'01'10'01; // each of 0 to 2
      const float scale = automatic ? 1.25f : 0.8f;
      folder.add("a.weight", "U8", {out / 4, columns}, codes);
      folder.add("a.weight_scale", "BF16", {1}, std::vector<uint16_t>{float_to_bf16(scale)});
      const double given = bf16_to_float(float_to_bf16(scale));
      std::vector<double> wanted;
      for (uint64_t row = 0; row < out; ++row) {
        for (uint64_t column = 0; column < columns; ++column) {
          const int code = codes[row % 2 * columns + column] >> row / 2 * 2 & 3;
          wanted.push_back((code - 1) * (automatic ? given : 1 / given));
        }
      }
      const auto [type, values] = folder.weight();
      CHECK(type == (automatic || smallest != "TQ2_0" ? smallest : "INT4"));
      check_near(values, wanted);
      CHECK(folder.read()->taken.size() == 2);
    }
  }

  Folder online;
  json& settings = online.config["quantization_config"];
  settings = {{"quant_method", "bitnet"},
              {"linear_class", "autobitlinear"},
              {"quantization_mode", "online"},
              {"modules_to_not_convert", {"gate"}}};
  std::vector<uint16_t> weights;
  double mean = 0;
  for (float value : online.scales(out * 64)) {
    weights.push_back(float_to_bf16((online.random() % 2 ? 50 : -50) * value));
    mean += std::abs(bf16_to_float(weights.back())) / (out * 64);
  }
  const std::string name = "layers.0.q.weight";
  for (const std::string& each : {name, std::string("layers.0.gate.weight"), std::string("lm_head.weight")})
    online.add(each, "BF16", {out, 64}, weights);
  const auto read = online.read();
  REQUIRE_MESSAGE(read.ok(), read.error().text());
  REQUIRE(read->tensors.size() == 1);
  CHECK(read->taken == std::set<std::string>{name});
  std::vector<double> wanted;
  for (uint16_t weight : weights)
    wanted.push_back(std::clamp(std::nearbyint(bf16_to_float(weight) / mean), -1.0, 1.0) * mean);
  check_near(values_of(read->tensors[0]), wanted);
  settings["quantization_mode"] = "offline";
  CHECK(online.read()->tensors.empty());
  settings["use_rms_norm"] = true;
  CHECK(says(online.read(), {"folder", "quantization_config.use_rms_norm"}) == "");
}

TEST_CASE("folders: NF4 with scales that are quantised, and eight bits of bitsandbytes") {
  Folder folder;
  const uint64_t out = 12, in = 128, blocks = out * in / 64;
  folder.config["quantization_config"] = {{"quant_method", "bitsandbytes"}};
  constexpr double numbers[16] = {-1.0,
                                  -0.6961928009986877,
                                  -0.5250730514526367,
                                  -0.39491748809814453,
                                  -0.28444138169288635,
                                  -0.18477343022823334,
                                  -0.09105003625154495,
                                  0.0,
                                  0.07958029955625534,
                                  0.16093020141124725,
                                  0.24611230194568634,
                                  0.33791524171829224,
                                  0.44070982933044434,
                                  0.5626170039176941,
                                  0.7229568362236023,
                                  1.0};
  const auto codes = folder.some_bytes(out * in / 2), scales = folder.some_bytes(blocks);
  const auto map = folder.scales(256), outer = folder.scales(1);
  const std::string state =
      R"({"quant_type": "nf4", "blocksize": 64, "shape": [12, 128], "nested_blocksize": 256, "nested_offset": 0.25})";
  folder.add("a.weight", "U8", {out * in / 2, 1}, codes);
  folder.add("a.weight.absmax", "U8", {blocks}, scales);
  folder.add("a.weight.nested_absmax", "F32", {1}, outer);
  folder.add("a.weight.nested_quant_map", "F32", {256}, map);
  folder.add("a.weight.quant_map", "F32", {16}, std::vector<float>(numbers, numbers + 16));
  folder.add("a.weight.quant_state.bitsandbytes__nf4", "U8", {state.size()},
             std::vector<char>(state.begin(), state.end()));
  std::vector<double> wanted;
  for (uint64_t i = 0; i < out * in; ++i) {
    const float scale = map[scales[i / 64]] * outer[0] + 0.25f;
    wanted.push_back(numbers[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale);
  }
  const auto [type, values] = folder.weight();
  CHECK(type == "NF4");
  check_near(values, wanted);
  CHECK(folder.read()->taken.size() == 6);

  Folder eight;
  eight.config = folder.config;
  const auto bytes = eight.some_bytes(64 * 2);
  eight.add("a.weight", "I8", {2, 64}, bytes);
  eight.add("a.SCB", "F32", {2}, std::vector<float>{0.5f, 0.25f});
  wanted.clear();
  for (uint64_t i = 0; i < 128; ++i)
    wanted.push_back(static_cast<int8_t>(bytes[i]) * (i < 64 ? 0.5 : 0.25) / 127);
  check_near(eight.weight().second, wanted);
}

TEST_CASE("folders: arrays that do not fit each other are refused by name") {
  Folder folder;
  folder.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  folder.add("a.qweight", "I32", {8, 16}, folder.words(128));
  folder.add("a.qzeros", "I32", {2, 2}, folder.words(4));
  folder.add("a.scales", "F16", {2, 15}, std::vector<uint16_t>(30));
  CHECK(says(folder.read(), {"folder", "'a.qweight'", "quantization_config"}) == "");
  folder.config["quantization_config"]["bits"] = 3;
  CHECK(says(folder.read(), {"folder", "'a.qweight'", "2, 4 or 8 bits, found 3"}) == "");
  folder.config["quantization_config"]["quant_method"] = "other";
  CHECK(folder.read()->tensors.empty());
}
