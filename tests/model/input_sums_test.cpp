// Importance matrices: sums of the squares of what matrices are multiplied by.
#include <cmath>

#include <doctest/doctest.h>

#include "convert/importance.h"
#include "io/tensor_floats.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "task/quality/input_sums.h"

using namespace pumice;

namespace {

const std::vector<uint32_t> ids = {3, 17, 99, 250, 8, 8, 41, 12, 90, 5, 7};

std::unique_ptr<InputSums> sums_of(const std::filesystem::path& path, uint32_t chunk) {
  SessionSize size;
  size.context = 32;
  size.chunk = chunk;
  size.cache = CacheType::f32;
  auto sums = require(InputSums::create(load_model(path), size));
  require(sums->read(ids));
  return sums;
}

} // namespace

TEST_CASE(
    "an importance matrix has the squares of what each matrix reads, from a folder and from a GGUF file") {
  const std::filesystem::path folder = fixtures().model("llama-gqa");
  const auto sums = sums_of(folder, 4), gguf = sums_of(folder / "model.gguf", 32);
  CHECK(sums->tokens() == ids.size());
  CHECK(sums->matrices() == 14);
  CHECK(gguf->matrices() == 14);
  // The first norm of the embeddings, by hand.
  const auto model = load_model(folder);
  const auto states = forward(model, ids, {.readable = {"hidden_states.0"}}).at("hidden_states.0");
  const std::vector<float> weight =
      tensor_floats(*model->file().find("model.layers.0.input_layernorm.weight"));
  const size_t columns = weight.size();
  std::vector<double> expected(columns);
  for (size_t row = 0; row < ids.size(); ++row) {
    double squares = 0;
    for (size_t i = 0; i < columns; ++i)
      squares += double{states[row * columns + i]} * states[row * columns + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (size_t i = 0; i < columns; ++i)
      expected[i] += std::pow(states[row * columns + i] * scale * double{weight[i]}, 2);
  }
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    REQUIRE(sums->of(name).size() == columns);
    for (size_t i = 0; i < columns; ++i) {
      CHECK(sums->of(name)[i] == doctest::Approx(expected[i]).epsilon(1e-5));
      CHECK(gguf->of(name)[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
  }
  const std::span<const double> down = sums->of("blk.1.ffn_down.weight");
  REQUIRE(down.size() == 160);
  for (size_t i = 0; i < down.size(); ++i)
    CHECK(down[i] == doctest::Approx(gguf->of("blk.1.ffn_down.weight")[i]).epsilon(1e-4));

  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.path() / "imatrix.gguf";
  require(sums->write(file, "text.txt"));
  const Importance read = require(Importance::open(file));
  CHECK(read.size() == 14);
  const float* means = require(read.of_row("blk.1.ffn_down.weight", 0, 64, 160));
  REQUIRE(means);
  CHECK(means[7] == doctest::Approx(down[7] / static_cast<double>(ids.size())).epsilon(1e-5));
}
