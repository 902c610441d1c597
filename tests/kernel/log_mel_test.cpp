#include "kernel/audio/log_mel.h"

#include <cstring>
#include <fstream>
#include <numbers>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "kernel/log_mel_reference.h"
#include "kernel/run_graph.h"
#include "plan/plan.h"
#include "plan/upload.h"
#include "recording/recording.h"
#include "support/difference.h"
#include "support/files/fixtures.h"
#include "support/require.h"

using namespace pumice;

namespace {

// Beside a loud tone, 32 bits leave a band of noise so many digits.
constexpr double tolerance = 2e-4;

// A tone that rises, with a little noise.
std::vector<float> sound(uint32_t count, uint32_t seed, float loudness = 0.5f) {
  std::vector<float> samples = random_values(count, seed, 1e-3f * loudness);
  for (uint32_t i = 0; i < count; ++i) {
    const double turns = 0.01 * (1 + seed) * i + 2e-6 * i * i;
    samples[i] += loudness * static_cast<float>(std::sin(2 * std::numbers::pi * turns));
  }
  return samples;
}

// Runs the operations alone over inputs that lie one after the other in `samples`.
void check_operations(const DeviceProfile& profile, const LogMelShape& shape,
                      const std::vector<float>& samples) {
  CAPTURE(profile.workgroup);
  CAPTURE(shape.samples);
  CAPTURE(shape.n_fft);
  CAPTURE(shape.hop);
  CAPTURE(shape.mels);
  TestGpu& gpu = TestGpu::get();
  const uint32_t inputs = static_cast<uint32_t>(samples.size() / shape.samples);
  const uint32_t frames = shape.frames(), columns = frames * shape.mels;
  std::vector<double> expected;
  for (uint32_t i = 0; i < inputs; ++i) {
    const auto own = std::span(samples).subspan(size_t{i} * shape.samples, shape.samples);
    const std::vector<double> features = log_mel_reference(own, shape);
    expected.insert(expected.end(), features.begin(), features.end());
  }
  const Graph graph = log_mel_graph(shape);
  const ActivationRef result = blank_rows(inputs + 1, columns, 32, ROWS_OUTPUTS);
  run_graph(profile, graph, gpu.step(inputs * frames, inputs), inputs * frames,
            {{graph.nodes()[0].inputs[0], upload_rows(samples, shape.samples, 32, false, ROWS_OUTPUTS)},
             {graph.nodes()[0].output, blank_rows(inputs * frames, shape.mels, 32)},
             {graph.nodes()[1].output, result}});
  check_rows(result, expected, 1, 1); // what lies around them
  const std::vector<float> rows = gpu.read<float>(result.buffer);
  std::vector<float> got;
  for (uint32_t i = 0; i < inputs; ++i) {
    const auto row = rows.begin() + static_cast<ptrdiff_t>(size_t{i} * result.stride);
    got.insert(got.end(), row, row + columns);
  }
  CHECK(largest_difference(got, expected) <= tolerance);
  gpu.clear();
}

// The graph, planned, recorded and run as a session does it.
class Ears {
public:
  Ears(const LogMelShape& shape, uint32_t inputs) : shape_(shape) {
    const DeviceContext& device = TestGpu::get().context();
    const Capabilities& capabilities = device.device->capabilities();
    WeightStore store(device.profile, capabilities);
    PlanContext context;
    context.profile = device.profile;
    context.device = capabilities;
    context.weights = &store;
    context.step_layout = {shape.frames() * inputs, 1, 0};
    context.step = {Space::step, 0, 0, context.step_layout.bytes()};
    plan_ = require(make_plan(log_mel_graph(shape), context, {shape.frames() * inputs, inputs}));
    REQUIRE(plan_.input);
    REQUIRE(plan_.readable.size() == 1);
    CHECK(plan_.readable[0].name == "input_features");
    weights_ = require(upload_weights(device.device, store, {}));
    step_ = require(Buffer::create(device.device, context.step.bytes, MemoryUse::shared));
    scratch_ = require(Buffer::create(device.device, plan_.scratch_bytes, MemoryUse::device));
    inputs_ = require(Buffer::create(device.device, plan_.input->where.buffer.bytes, MemoryUse::shared));
    outputs_ = require(Buffer::create(device.device, plan_.output_bytes, MemoryUse::shared));
    recording_ = std::make_unique<Recording>(require(Recording::create(
        device, plan_, [this](const BufferRef& ref) -> const Buffer& { return buffer(ref); })));
    const uint32_t header[4] = {shape.frames() * inputs, inputs, 0, 0};
    std::memcpy(step_.mapped().data(), header, sizeof(header));
  }

  // Inputs are followed by silence.
  std::vector<float> hear(const std::vector<std::vector<float>>& inputs) {
    const ActivationRef& in = plan_.input->where;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<float> samples = inputs[i];
      samples.resize(in.stride);
      std::memcpy(inputs_.mapped().data() + i * in.stride * 4, samples.data(), samples.size() * 4);
    }
    const Status status = TestGpu::get().device()->wait(require(recording_->submit()));
    if (!status.ok()) FAIL(status.error().text());
    const ActivationRef& out = plan_.readable[0].where;
    std::vector<float> features;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto* row = reinterpret_cast<const float*>(outputs_.mapped().data() + out.buffer.offset);
      features.insert(features.end(), row + i * out.stride, row + i * out.stride + out.columns);
    }
    return features;
  }

private:
  const Buffer& buffer(const BufferRef& ref) const {
    switch (ref.space) {
    case Space::step:
      return step_;
    case Space::inputs:
      return inputs_;
    case Space::outputs:
      return outputs_;
    case Space::weights:
      return weights_[ref.allocation];
    default:
      return scratch_;
    }
  }

  LogMelShape shape_;
  Plan plan_;
  std::vector<Buffer> weights_;
  Buffer step_, scratch_, inputs_, outputs_;
  std::unique_ptr<Recording> recording_;
};

} // namespace

TEST_CASE("log-mel features of awkward shapes") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const LogMelShape& shape : {LogMelShape{16000, 2, 2, 1, 1},
                                     {16000, 9, 14, 3, 2},
                                     {16000, 1000, 48, 7, 33},
                                     {16000, 1601, 400, 160, 80},
                                     {16000, 3217, 400, 161, 128},
                                     {8000, 777, 202, 50, 40},
                                     {16000, 4000, 1018, 509, 31},
                                     {22050, 2048, 1024, 256, 64}}) {
      check_operations(profile, shape, sound(shape.samples, 1));
    }
  }
}

TEST_CASE("log-mel features of several inputs, each by its own maximum") {
  const LogMelShape shape = {16000, 1000, 80, 100, 20};
  std::vector<float> samples = sound(shape.samples, 1);
  for (const std::vector<float>& more : {std::vector<float>(shape.samples), sound(shape.samples, 2, 1e-3f)}) {
    samples.insert(samples.end(), more.begin(), more.end());
  }
  for (const DeviceProfile& profile : profiles_to_test()) check_operations(profile, shape, samples);
}

TEST_CASE("mel filters have the area 1, and a spectrum is under two of them at most") {
  for (uint32_t mels : {1u, 3u, 80u, 128u}) {
    // So fine that sums are nearly integrals.
    const LogMelShape shape = {16000, 16000, 16000, 160, mels};
    const std::vector<double> filters = mel_filters(shape);
    REQUIRE(filters.size() == size_t{mels} * shape.bins());
    for (uint32_t mel = 0; mel < mels; ++mel) {
      double area = 0;
      for (uint32_t bin = 0; bin < shape.bins(); ++bin) area += filters[size_t{mel} * shape.bins() + bin];
      CHECK(area == doctest::Approx(1).epsilon(2e-3));
    }
    for (uint32_t bin = 0; bin < shape.bins(); ++bin) {
      uint32_t over = 0;
      for (uint32_t mel = 0; mel < mels; ++mel) over += filters[size_t{mel} * shape.bins() + bin] > 0;
      CHECK(over <= 2);
    }
  }
}

FIXTURE_TEST_CASE("log-mel features of the reference") {
  const auto folder = fixtures().model("whisper");
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "preprocessor_config.json"));
  const LogMelShape shape = {config["sampling_rate"], config["n_samples"], config["n_fft"],
                             config["hop_length"], config["feature_size"]};
  CHECK(shape.frames() == config["nb_max_frames"]);
  const SafetensorsFile file = require(SafetensorsFile::open(folder / "expected.safetensors"));
  const std::vector<float> audio = require(SafetensorsFile::floats(*file.find("audio_16khz")));
  const std::vector<float> features = require(SafetensorsFile::floats(*file.find("input_features")));
  const std::vector<double> expected(features.begin(), features.end());
  CHECK(largest_difference(Ears(shape, 1).hear({audio}), expected) <= tolerance);
}

TEST_CASE("features of silence, of one sample and of no samples") {
  const LogMelShape shape = {16000, 16000, 400, 160, 80};
  Ears ears(shape, 2);
  for (const std::vector<float>& samples : {std::vector<float>(16000), {0.7f}, {}}) {
    std::vector<float> padded = samples;
    padded.resize(shape.samples);
    std::vector<double> expected = log_mel_reference(padded, shape);
    expected.insert(expected.end(), expected.begin(), expected.end());
    CHECK(largest_difference(ears.hear({samples, samples}), expected) <= tolerance);
  }
}

TEST_CASE("features of an input are the same bits beside others") {
  const LogMelShape shape;
  const std::vector<float> samples = sound(shape.samples - 1000, 3);
  const std::vector<float> expected = Ears(shape, 1).hear({samples});
  const std::vector<float> both = Ears(shape, 2).hear({sound(shape.samples, 4, 1), samples});
  CHECK(std::memcmp(both.data() + expected.size(), expected.data(), expected.size() * 4) == 0);
}

TEST_CASE("log-mel shapes that cannot be computed are refused") {
  CHECK(check(LogMelShape{}).ok());
  for (const LogMelShape& shape : {LogMelShape{16000, 480000, 0, 160, 80},
                                   {16000, 480000, 401, 160, 80},
                                   {16000, 480000, 1026, 160, 80},
                                   {16000, 480000, 400, 0, 80},
                                   {16000, 480000, 400, 160, 0},
                                   {0, 480000, 400, 160, 80},
                                   {16000, 200, 400, 160, 80},
                                   {16000, 300, 400, 301, 80},
                                   {16000, UINT32_MAX, 400, 160, 80},
                                   {16000, 480000, 400, 1, 10000}}) {
    CAPTURE(shape.samples);
    CAPTURE(shape.n_fft);
    CHECK(!check(shape).ok());
    const Graph graph = log_mel_graph(shape);
    TestLowering lowering(TestGpu::get().profile, graph, {});
    CHECK(!lowering.lower(0).ok());
  }
}
