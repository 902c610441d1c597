#include "kernel/scoring/scoring.h"

#include <doctest/doctest.h>

#include "kernel/sampling_batch.h"
#include "kernel/sampling_reference.h"

using namespace pumice;

namespace {

struct Scored {
  std::vector<std::vector<float>> logits; // of each output
  std::vector<uint32_t> targets;
  uint32_t capacity = 0;

  // result[row][32], with a row more than there are outputs.
  std::vector<float> run(const DeviceProfile& profile) const {
    TestGpu& gpu = TestGpu::get();
    const uint32_t columns = static_cast<uint32_t>(logits[0].size()), stride = (columns + 31) / 32 * 32;
    const uint32_t rows = static_cast<uint32_t>(logits.size()) + 1;
    std::vector<float> padded(size_t{rows} * stride, 1e9f); // not zeros: nothing may count on them
    for (size_t j = 0; j < logits.size(); ++j) {
      std::copy(logits[j].begin(), logits[j].end(), padded.begin() + static_cast<ptrdiff_t>(j * stride));
    }
    std::vector<Quad> block(1 + 2 * capacity, Quad{77, 77, 77, 77});
    block[0] = {capacity, rows - 1, 0, 0};
    for (uint32_t j = 0; j + 1 < rows; ++j) block[1 + capacity + j] = {j, targets[j], 0, 0};
    LogLikelihoodArgs args;
    args.logits = {gpu.upload(padded), rows, ROWS_OUTPUTS, columns, stride};
    args.result = {gpu.upload(std::vector<float>(size_t{rows} * 32, -7.0f)), rows, ROWS_OUTPUTS, 1, 32};
    args.step = gpu.upload(block);
    args.step_capacity = capacity;
    gpu.run(log_likelihood(profile, args));
    std::vector<float> result = gpu.read<float>(args.result.buffer);
    gpu.clear();
    return result;
  }
};

} // namespace

TEST_CASE("log-likelihoods agree with the reference") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 2u, 5u, 31u, 32u, 33u, 1000u, 128256u}) {
      for (uint32_t rows : {1u, 3u, 17u}) {
        if (columns > 1000 && rows > 3) continue;
        CAPTURE(columns);
        CAPTURE(rows);
        Scored scored;
        scored.capacity = rows + 2;
        for (uint32_t j = 0; j < rows; ++j) {
          scored.logits.push_back(random_logits(columns, 10 * rows + j, 4.0f));
          for (float& v : scored.logits.back()) v += j % 2 ? 50.0f : -80.0f;
          scored.targets.push_back(j == 0 ? columns - 1 : j * 31 % columns);
        }
        scored.logits[0][columns / 3] = columns > 3 ? -INFINITY : 1.0f;
        const std::vector<float> result = scored.run(profile);
        for (uint32_t j = 0; j < rows; ++j) {
          CAPTURE(j);
          const double expected = reference_log_softmax(scored.logits[j])[scored.targets[j]];
          CHECK(std::abs(result[32 * j] - expected) <= 1e-5);
          for (uint32_t i = 1; i < 32; ++i) REQUIRE(result[32 * j + i] == 0.0f);
        }
        CHECK(result[32 * rows] == -7.0f); // no output
      }
    }
  }
}

TEST_CASE("a log-likelihood does not depend on the rows beside it") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Scored alone{{random_logits(4001, 1)}, {17}, 1}, among;
    for (uint32_t j = 0; j < 6; ++j) among.logits.push_back(random_logits(4001, 50 + j));
    among.logits[4] = alone.logits[0];
    among.targets = {1, 2, 3, 4, 17, 5};
    among.capacity = 9;
    CHECK(alone.run(profile)[0] == among.run(profile)[4 * 32]);
  }
}

TEST_CASE("a row with a NaN or plus infinity gives NaN") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Scored scored{std::vector<std::vector<float>>(3, random_logits(100, 1)), {5, 6, 7}, 3};
    scored.logits[0][50] = NAN;
    scored.logits[1][51] = INFINITY;
    scored.logits[2][7] = -INFINITY;
    const std::vector<float> result = scored.run(profile);
    CHECK(std::isnan(result[0]));
    CHECK(std::isnan(result[32]));
    CHECK(result[64] == -INFINITY);
  }
}
