// gpt-oss as it is published: experts in MXFP4, a tensor's codes and exponents apart.
#include <cmath>
#include <deque>
#include <random>

#include <doctest/doctest.h>

#include "io/formats/safetensors.h"
#include "io/model_file.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

// A safetensors file in the making.
struct Tensors {
  std::deque<std::vector<std::byte>> data;
  std::vector<SafetensorsFile::Entry> entries;

  void add(std::string name, std::string dtype, std::vector<uint64_t> shape, const void* from, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    const auto& own = data.emplace_back(begin, begin + bytes);
    entries.push_back({std::move(name), std::move(dtype), std::move(shape), own});
  }
};

// Experts of random codes, in both forms: [experts, rows, blocks] of 32 columns, and floats as
// [experts, columns, rows].
void add_experts(const SafetensorsFile::Entry& like, std::mt19937& random, Tensors& packed, Tensors& plain) {
  const uint64_t experts = like.shape[0], columns = like.shape[1], rows = like.shape[2],
                 blocks = columns / 32;
  std::vector<uint8_t> codes(experts * rows * blocks * 16), exponents(experts * rows * blocks);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random());
  for (uint8_t& exponent : exponents) exponent = static_cast<uint8_t>(121 + random() % 3);
  constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<float> floats(experts * columns * rows);
  for (uint64_t row = 0; row < experts * rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      const uint64_t block = row * blocks + column / 32;
      const unsigned code = codes[block * 16 + column % 32 / 2] >> column % 2 * 4 & 15;
      const double value = std::ldexp(magnitudes[code & 7], exponents[block] - 127);
      floats[(row / rows * columns + column) * rows + row % rows] =
          static_cast<float>(code & 8 ? -value : value);
    }
  }
  packed.add(like.name + "_blocks", "U8", {experts, rows, blocks, 16}, codes.data(), codes.size());
  packed.add(like.name + "_scales", "U8", {experts, rows, blocks}, exponents.data(), exponents.size());
  plain.add(like.name, "F32", like.shape, floats.data(), floats.size() * 4);
}

void write_folder(const std::filesystem::path& folder, const Tensors& tensors) {
  std::filesystem::create_directory(folder);
  std::filesystem::copy(fixtures().model("gpt-oss/config.json"), folder / "config.json");
  REQUIRE(write_safetensors(folder / "model.safetensors", tensors.entries).ok());
}

} // namespace

TEST_CASE("experts in MXFP4 of a Hugging Face folder are read as they are") {
  const auto file = SafetensorsFile::open(fixtures().model("gpt-oss") / "model.safetensors");
  REQUIRE(file.ok());
  Tensors packed, plain;
  std::mt19937 random(1);
  for (const SafetensorsFile::Entry& entry : file->entries) {
    if (entry.name.ends_with("_proj")) {
      add_experts(entry, random, packed, plain);
      continue;
    }
    for (Tensors* tensors : {&packed, &plain})
      tensors->add(entry.name, entry.dtype, entry.shape, entry.data.data(), entry.data.size());
  }
  const TemporaryFolder temporary;
  const auto in_mxfp4 = temporary.path() / "mxfp4", in_f32 = temporary.path() / "f32";
  write_folder(in_mxfp4, packed);
  write_folder(in_f32, plain);

  const auto opened = ModelFile::open(in_mxfp4);
  REQUIRE(opened.ok());
  const TensorView* gate_up = opened->find("model.layers.0.mlp.experts.gate_up_proj");
  REQUIRE(gate_up != nullptr);
  CHECK(gate_up->type == TensorType::mxfp4);
  CHECK(gate_up->shape == std::vector<uint64_t>{4, 320, 64});
  CHECK(opened->find("model.layers.0.mlp.experts.gate_up_proj_blocks") == nullptr);

  const std::vector<uint32_t> ids = {5, 77, 300, 8, 41, 19, 260, 133, 9};
  const std::vector<float> expected = forward(load_model(in_f32), ids, 128);
  const std::vector<float> logits = forward(load_model(in_mxfp4), ids, 128);
  CHECK(relative_rms(logits, expected) <= 1e-5);
  const std::string out = (temporary.path() / "model.gguf").string();
  const CommandResult converted =
      pumice_command({"convert", in_mxfp4.string(), out, "--type", "F32", "--no-vocabulary"});
  CAPTURE(converted.err);
  REQUIRE(converted.status == 0);
  CHECK(relative_rms(forward(load_model(out), ids, 128), expected) <= 1e-5);
}
