// Devices that no machine here has, as public reports describe them: what Pumice does on each keeps its
// limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "kernel/choices.h"
#include "kernel/probe/open_device.h"
#include "kernel/probe/probe.h"
#include "step/runner_layout.h"
#include "support/command/answers.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/sparse_model.h"
#include "support/model.h"
#include "support/require.h"
#include "support/session.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/limited_vulkan.h"
#include "tuning/tune_model.h"

using namespace pumice;

namespace {

using Driver = LimitedVulkan::Driver;

DeviceContext open(const LimitedVulkan& vulkan) {
  const auto instance = require(Instance::create(vulkan.options()));
  return require(open_device(instance, require(instance->choose("")), {}));
}

// Runs `body` for each device, as a subcase with its name.
template <class Body>
void for_each_device(Driver driver, const Body& body) {
  for (const ReportedDevice& device : reported_devices()) {
    SUBCASE(device.name.c_str()) {
      CAPTURE(device.name);
      LimitedVulkan vulkan(device, driver);
      body(vulkan);
      CHECK(vulkan.violations() == "");
      for (uint32_t heap = 0; heap < device.heaps.size(); ++heap) CHECK(vulkan.used_bytes(heap) == 0);
    }
  }
}

struct Fixture {
  std::filesystem::path model, answers;
};

std::vector<Fixture> fixtures_of(const FixtureSet& set) {
  std::vector<Fixture> found;
  for (const std::string& name : set.ggufs()) {
    const std::filesystem::path model = set.gguf(name);
    found.push_back({model, expected_of(model)});
  }
  for (const std::string& name : set.models()) {
    const std::filesystem::path model = set.model(name), gguf = model / "model.gguf";
    found.push_back({model, model / "expected.safetensors"});
    if (std::filesystem::exists(gguf)) found.push_back({gguf, model / "expected.safetensors"});
  }
  return found;
}

// Of all sets, with what another set has of the repository's models beside its own list.
std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> found;
  for (const FixtureSet& set : fixture_sets()) {
    for (Fixture& fixture : fixtures_of(set)) found.push_back(std::move(fixture));
    const std::vector<std::string> listed = set.models();
    for (const std::string& name : fixtures().models()) {
      const std::filesystem::path answers = set.model(name) / "expected.safetensors";
      if (std::ranges::find(listed, name) == listed.end() && std::filesystem::exists(answers))
        found.push_back({set.model(name), answers});
    }
  }
  return found;
}

// Plans and records steps of all sizes, and submits one of the fixture's inputs.
void run_pass(const std::shared_ptr<const Model>& model, const Answers& answers) {
  const auto& encoder = model->shape().encoder;
  std::vector<ForcedInput> inputs = encoder ? answers.inputs(encoder->picture_rows) : answers.sequences();
  REQUIRE(!inputs.empty());
  inputs.resize(1);
  ForcedPassOptions options;
  options.readable = {model->shape().has_decoder() ? "logits" : "last_hidden_state"};
  options.chunk = 32;
  const auto pass = require(ForcedPass::create(model, options));
  if (pass->encoder()) require(pass->encoder()->runner().prepare_all());
  if (pass->decoder()) require(pass->decoder()->prepare_all());
  require(pass->run(inputs));
}

// Generates tokens, with sampling on the device.
void generate(const std::shared_ptr<const Model>& model, const Answers& answers) {
  SessionOptions options;
  options.size.context = std::min(128u, model->shape().context);
  const auto session = require(Session::create(model, options));
  require(session->prefill(answers.sequences().front().tokens, {}));
  take(*session, 2);
}

nlohmann::json llama(uint32_t vocabulary, uint32_t hidden, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                     uint32_t feed_forward, uint32_t context) {
  return {{"model_type", "llama"},
          {"vocab_size", vocabulary},
          {"hidden_size", hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"head_dim", hidden / heads},
          {"intermediate_size", feed_forward},
          {"max_position_embeddings", context},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_theta", 500000.0}, {"rope_type", "default"}}}};
}

// What planning promises is checked here, as nothing is recorded; pipelines are made, within the device's
// limits.
void check_plan(const Plan& plan, const DeviceContext& context, const ReportedDevice& device) {
  for (const PlannedDispatch& planned : plan.dispatches) {
    const Dispatch& dispatch = planned.dispatch;
    CAPTURE(dispatch.kernel);
    CAPTURE(dispatch.label);
    for (size_t axis = 0; axis < 3; ++axis) CHECK(dispatch.groups[axis] <= device.limits.workgroups[axis]);
    for (const Dispatch::Binding& binding : dispatch.bindings) {
      CHECK(binding.buffer.bytes <= device.limits.storage_range);
      CHECK(binding.buffer.offset % device.limits.offset_alignment == 0);
    }
    require(context.pipelines->get(dispatch.kernel, dispatch.constants));
  }
}

// Whether a session of this size can be planned; if not, the error says what to do.
bool plans(const Model& model, const SessionSize& size, const DeviceContext& context,
           const ReportedDevice& device) {
  RunnerOptions options;
  options.size = size;
  options.sampling = true;
  const auto layout = lay_out_runner(model, options, nullptr);
  if (!layout.ok()) {
    CHECK(layout.error().code == Code::unsupported);
    const bool advises =
        says(layout, {"try a smaller chunk"}) == "" || says(layout, {"ask for fewer sequences"}) == "";
    CHECK_MESSAGE(advises, layout.error().text());
    return false;
  }
  for (const Plan& plan : layout->plans) check_plan(plan, context, device);
  return true;
}

// The largest difference of logits from a fixture's reference, relative to their size.
double worst_difference(const std::shared_ptr<const Model>& model, const Answers& answers, uint32_t chunk) {
  const std::vector<uint32_t> ids = answers.sequences().front().tokens;
  return relative_rms(forward(model, ids, chunk),
                      answers.row("logits", 0).first(ids.size() * model->shape().vocabulary));
}

void compute(const LimitedVulkan& vulkan) {
  const DeviceContext context = open(vulkan);
  for (const char* name : {"llama-gqa", "gemma2"}) {
    const std::filesystem::path folder = fixtures().model(name);
    const auto model = require(Model::load(folder, context));
    const Answers answers(folder / "expected.safetensors");
    CHECK(worst_difference(model, answers, 128) <= 1e-4);
    CHECK(worst_difference(model, answers, 1) <= 1e-4);
  }
}

} // namespace

namespace {

// With pictures of the fixture's size, which is not always the one that convolutions are made for.
std::shared_ptr<const Model> load(const Fixture& fixture, const Answers& answers,
                                  const DeviceContext& context) {
  auto model = require(Model::load(fixture.model, context));
  const auto pixels = answers.shapes.find("pixel_values");
  const auto& encoder = model->shape().encoder;
  if (pixels == answers.shapes.end() || !encoder || encoder->kind != InputKind::pixels) return model;
  LoadOptions options;
  options.picture_height = static_cast<uint32_t>(pixels->second[2]);
  options.picture_width = static_cast<uint32_t>(pixels->second[3]);
  if (options.picture_height == encoder->input_shape[1] && options.picture_width == encoder->input_shape[2])
    return model;
  return require(Model::load(fixture.model, context, {}, options));
}

void plan_all(const DeviceContext& context, std::span<const Fixture> found) {
  for (const Fixture& fixture : found) {
    CAPTURE(fixture.model.string());
    const Answers answers(fixture.answers);
    const auto model = load(fixture, answers, context);
    run_pass(model, answers);
    if (!model->shape().encoder) generate(model, answers);
  }
}

} // namespace

TEST_CASE("fixtures are planned, recorded and submitted within each device's limits") {
  // They take turns, so that each is planned for several devices: the long test has all for all.
  constexpr size_t turns = 5;
  const std::vector<Fixture> found = fixtures_of(fixtures());
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const auto turn = static_cast<size_t>(
        std::ranges::find(reported_devices(), vulkan.device().name, &ReportedDevice::name) -
        reported_devices().begin());
    std::vector<Fixture> own;
    for (size_t i = turn % turns; i < found.size(); i += turns) own.push_back(found[i]);
    plan_all(open(vulkan), own);
  });
}

TEST_CASE("every fixture is planned, recorded and submitted within each device's limits" *
          doctest::test_suite("long")) {
  const std::vector<Fixture> found = all_fixtures();
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) { plan_all(open(vulkan), found); });
}

TEST_CASE("every kernel variant that a device could use keeps its limits" * doctest::test_suite("long")) {
  std::vector<Fixture> found;
  for (const char* name : {"llama-gqa", "gemma3", "t5", "whisper", "vit", "mixtral-moe"}) {
    const std::filesystem::path model = fixtures().model(name);
    found.push_back({model, model / "expected.safetensors"});
  }
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const DeviceContext context = open(vulkan);
    for (const std::string& variant : variant_names()) {
      CAPTURE(variant);
      DeviceContext forced = context;
      forced.profile.forced = variant;
      for (const Fixture& fixture : found) {
        CAPTURE(fixture.model.string());
        LoadOptions options;
        if (variant == "dot") options.weights = TensorType::q8_0; // it has no kernels for plain numbers
        run_pass(require(Model::load(fixture.model, forced, {}, options)), Answers(fixture.answers));
      }
    }
  });
}

TEST_CASE("matrices of a whole workgroup are used where their granularity divides those of products") {
  struct Offer {
    std::vector<MatrixGranularity> granularities;
    uint32_t reserved_bytes = 0; // of shared memory
    bool used = false;
    uint32_t workgroup = 0;
  };
  const MatrixGranularity subgroup = {{16, 16, 16}, 0}, nvidia = {{32, 16, 16}, 128};
  const Offer offers[] = {
      {{}, 0, false, 0},
      {{subgroup}, 0, true, 0},
      {{nvidia}, 0, true, 128}, // 32 is no divisor of 16
      {{nvidia, subgroup}, 0, true, 128},
      {{subgroup, nvidia}, 0, true, 128},
      {{{{32, 32, 16}, 256}, {{64, 16, 16}, 128}, {{32, 16, 32}, 128}}, 0, false, 0},
      {{nvidia, subgroup}, 48 * 1024, true, 0}, // the driver leaves too little
  };
  LimitedVulkan vulkan(reported_device("NVIDIA GeForce RTX 5080"));
  const auto instance = require(Instance::create(vulkan.options()));
  for (const Offer& offer : offers) {
    Capabilities chosen = require(instance->choose(""));
    chosen.matrix_granularities = offer.granularities;
    chosen.matrix_reserved_bytes = offer.reserved_bytes;
    const auto device = require(Device::create(instance, chosen));
    const DeviceProfile profile = require(choose_profile(device, require(Pipelines::create(device, {}))));
    CHECK(profile.cm2 == offer.used);
    CHECK(profile.cm2_workgroup == offer.workgroup);
  }
  (void)vulkan.violations(); // the report does not have the extension of such matrices
}

TEST_CASE("weights are copied by a queue of their own, where a device has one") {
  const std::filesystem::path folder = fixtures().model("llama-gqa");
  const auto copies_of = [&](const char* name, uint32_t family) {
    LimitedVulkan vulkan(reported_device(name));
    const auto model = require(Model::load(folder, open(vulkan)));
    CHECK(vulkan.violations() == "");
    return vulkan.submissions(family);
  };
  CHECK(copies_of("NVIDIA GeForce GTX 1650", 1) > 0);
  CHECK(copies_of("Least device of Vulkan 1.2", 0) > 0);
}

TEST_CASE("models as large as people use are planned for each device, or refused with advice") {
  // As Llama 3.2 with a billion parameters, and as a model with one of the largest vocabularies. Subcases
  // come here again and again.
  static const SparseModel small_weights(llama(128256, 2048, 2, 32, 8, 8192, 131072));
  static const SparseModel large_weights(llama(256000, 8192, 2, 64, 8, 28672, 131072));
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const DeviceContext context = open(vulkan);
    const ReportedDevice& device = vulkan.device();
    for (const SparseModel* weights : {&small_weights, &large_weights}) {
      const std::shared_ptr<const Model> model = require(weights->plan(context));
      CAPTURE(model->shape().vocabulary);
      CHECK(plans(*model, {.context = 4096, .chunk = 128}, context, device));
      plans(*model, {.context = 4096, .chunk = 512}, context, device);
      plans(*model, {.context = 131072, .chunk = 128}, context, device);
      plans(*model, {.context = 131072, .chunk = 512, .cache = CacheType::f32}, context, device);
      plans(*model, {.context = 2048, .chunk = 128, .sequences = 64}, context, device);
    }
    const auto small = require(small_weights.plan(context));
    CHECK(plans(*small, {.context = 32768, .chunk = 128}, context, device));
  });
}

TEST_CASE("logits of a large vocabulary are read, whatever memory can be mapped") {
  static const SparseModel weights(llama(128256, 32, 1, 2, 2, 32, 1024));
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const DeviceContext context = open(vulkan);
    const auto model = require(Model::load(weights.folder(), context));
    for (const uint32_t chunk : {128u, 512u}) {
      CAPTURE(chunk);
      RunnerOptions options;
      options.size.chunk = chunk;
      options.sampling = false;
      options.all_outputs = true;
      options.readable = {"logits"};
      auto runner = Runner::create(model, options);
      if (!runner.ok() && uint64_t{chunk} * 128256 * 4 > vulkan.device().limits.storage_range) {
        CHECK(says(runner, {"try a smaller chunk"}) == "");
        continue;
      }
      const auto made = require(std::move(runner));
      std::vector<StepToken> rows;
      for (uint32_t i = 0; i < chunk; ++i) rows.push_back({i, i, 0, 0, true});
      require(made->write_step(rows));
      require(made->submit(chunk));
      CHECK(require(made->read("logits", chunk)).size() == uint64_t{chunk} * 128256);
    }
  });
}

TEST_CASE("measuring keeps each device's limits") {
  const std::filesystem::path path = fixtures().model("llama-gqa");
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const DeviceContext context = open(vulkan);
    require(measure_ceilings(context.device, context.pipelines));
    TuneOptions options;
    options.everything = true;
    options.samples = 1;
    options.sample_seconds = 0;
    options.seconds = 60;
    LoadOptions q8_0;
    q8_0.weights = TensorType::q8_0;
    for (const LoadOptions& load_options : {LoadOptions(), q8_0}) {
      const auto model = require(Model::load(path, context, {}, load_options));
      require(tune_model(model, options));
      RunnerOptions runner_options;
      const auto runner = require(Runner::create(model, runner_options));
      const bool has_clock = context.device->capabilities().timestamps;
      const auto times = runner->time_dispatches(1);
      CHECK(times.ok() == has_clock);
      if (!times.ok()) {
        CHECK(says(times, {"no timestamps"}) == "");
        continue;
      }
      // The clock passes its greatest value after two seconds.
      for (const double seconds : *times) CHECK((seconds >= 0 && seconds < 1));
    }
  });
}

TEST_CASE("a small model computes the reference's logits within the limits of a Raspberry Pi") {
  LimitedVulkan vulkan(reported_device("V3D 7.1 (Raspberry Pi 5)"), Driver::machine);
  compute(vulkan);
  CHECK(vulkan.violations() == "");
}

TEST_CASE("small models compute the reference's logits within each device's limits" *
          doctest::test_suite("long")) {
  for_each_device(Driver::machine, [](const LimitedVulkan& vulkan) { compute(vulkan); });
}
