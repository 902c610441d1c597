// Long launches in parts: what devices of different speeds are given, and that the parts change no bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "kernel/class_costs.h"
#include "plan/division.h"
#include "step/runner_layout.h"
#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/files/sparse_model.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/limited_vulkan.h"

using namespace pumice;

namespace {

constexpr DeviceSpeed phone = {20e9, 5e9}, data_center = {50e12, 2e12};

DeviceContext with_speed(DeviceProfile profile, const DeviceSpeed& speed) {
  DeviceContext context = test_context();
  context.profile = std::move(profile);
  context.profile.speed = speed;
  return context;
}

double longest(const Plan& plan, const DeviceSpeed& speed) {
  double seconds = 0;
  for (const PlannedDispatch& planned : plan.dispatches) {
    seconds = std::max(seconds, speed.seconds(planned.dispatch));
  }
  return seconds;
}

// The profiles of the test device and of common GPUs.
std::vector<DeviceProfile> some_profiles() {
  DeviceProfile subgroups = forced_profile(""), tiles = subgroups, splits = subgroups;
  tiles.forced = "tiled";
  splits.forced = "split-kv";
  return {TestGpu::get().profile, forced_profile("portable"), subgroups, tiles, splits};
}

} // namespace

namespace {

// One layer of a model with a large vocabulary and a long context.
const SparseModel& large_model() {
  static const SparseModel model({{"model_type", "llama"},
                                  {"architectures", {"LlamaForCausalLM"}},
                                  {"hidden_size", 4096},
                                  {"intermediate_size", 14336},
                                  {"num_attention_heads", 32},
                                  {"num_key_value_heads", 8},
                                  {"num_hidden_layers", 1},
                                  {"vocab_size", 128256},
                                  {"rms_norm_eps", 1e-5},
                                  {"rope_theta", 500000.0},
                                  {"max_position_embeddings", 8192},
                                  {"tie_word_embeddings", true}});
  return model;
}

// Its plans for steps like those of perplexity.
Result<std::vector<Plan>> large_plans(const DeviceContext& context) {
  RunnerOptions options;
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"logits"};
  options.size.context = 8192;
  options.size.chunk = 128;
  PUMICE_TRY(const auto model, large_model().plan(context));
  PUMICE_TRY(RunnerLayout layout, lay_out_runner(*model, options, nullptr));
  return std::move(layout.plans);
}

void check_short(const std::vector<Plan>& plans, const DeviceSpeed& speed) {
  for (const Plan& plan : plans) {
    CAPTURE(plan.bucket.tokens);
    CHECK(longest(plan, speed) <= longest_dispatch_seconds * (1 + 1e-9));
  }
}

} // namespace

TEST_CASE("no launch of a large vocabulary and a long context is predicted to take long on a slow phone") {
  for (const DeviceProfile& profile : some_profiles()) {
    CAPTURE(profile.cpu8);
    CAPTURE(profile.forced);
    const std::vector<Plan> slow = require(large_plans(with_speed(profile, phone)));
    const std::vector<Plan> fast = require(large_plans(with_speed(profile, data_center)));
    check_short(slow, phone);
    CHECK(fast.back().flops() == doctest::Approx(slow.back().flops()));
    CHECK(longest(fast.back(), phone) > 4 * longest_dispatch_seconds); // what a phone would have to take
    CHECK(slow.back().dispatches.size() > 50 + fast.back().dispatches.size());
  }
}

TEST_CASE("a class of shapes that was measured to be slow is divided, others are not") {
  const DeviceProfile profile = forced_profile("portable");
  DeviceContext context = with_speed(profile, data_center);
  context.pipelines = require(Pipelines::create(context.device, {}));
  const auto launches_of = [&](const std::string& family) {
    const Plan plan = require(large_plans(context)).back();
    size_t count = 0;
    for (const PlannedDispatch& planned : plan.dispatches) {
      CHECK(planned.seconds >= data_center.seconds(planned.dispatch));
      CHECK(planned.seconds <= longest_dispatch_seconds * (1 + 1e-9));
      count += planned.choice && plan.choices[*planned.choice].shape_class.starts_with(family);
    }
    return count;
  };
  const size_t products = launches_of("matmul"), attention = launches_of("attention");
  // As it would be measured in a shorter context, and at fewer rows: the nearest class counts.
  const Plan plan = require(large_plans(context)).back();
  std::string name;
  double flops = 0, bytes = 0;
  for (const PlannedDispatch& planned : plan.dispatches) {
    if (!planned.choice || !planned.dispatch.kernel.starts_with("attention_portable.")) continue;
    const ClassName divided = divide_class(plan.choices[*planned.choice].shape_class);
    name = std::string(divided.before) + "16" + std::string(divided.after);
    flops = planned.dispatch.flops;
    bytes = planned.dispatch.bytes;
  }
  REQUIRE(flops > 0);
  store_costs(*context.pipelines, {{name, {flops / 8, bytes / 8, 4 * longest_dispatch_seconds / 8}}});
  CHECK(launches_of("matmul") == products);
  CHECK(launches_of("attention") >= attention + 3);
  // What a damaged file says does not count.
  context.pipelines->set_tuning_result("cost " + name, "nonsense");
  CHECK(launches_of("attention") == attention);
}

TEST_CASE("no launch is predicted to take long on any device") {
  size_t planned = 0;
  for (const ReportedDevice& device : reported_devices()) {
    CAPTURE(device.name);
    const LimitedVulkan vulkan(device, LimitedVulkan::Driver::idle);
    const auto instance = require(Instance::create(vulkan.options()));
    const DeviceContext context = require(open_device(instance, require(instance->choose("")), {}));
    const auto plans = large_plans(context);
    if (!plans.ok()) {
      CHECK(plans.error().code == Code::unsupported); // it does not reach so much
      continue;
    }
    ++planned;
    check_short(*plans, context.profile.speed);
  }
  CHECK(planned > reported_devices().size() / 2);
}

namespace {

// So slow that launches of the fixtures, which are small, take long.
constexpr DeviceSpeed snail = {5e6, 1e6};

struct Fixture {
  std::filesystem::path model, answers;
};

std::vector<std::string> all_tensors(const Answers& answers) {
  std::vector<std::string> names;
  for (const char* name : {"logits", "last_hidden_state", "encoder_last_hidden_state", "text_embeds"}) {
    if (answers.floats.contains(name)) names.emplace_back(name);
  }
  return names;
}

// The tensors of a fixture's inputs at this speed, one after the other. Checks the plan's launches.
std::vector<float> run(const Fixture& fixture, const std::shared_ptr<const Model>& loaded,
                       const DeviceProfile& given, const DeviceSpeed& speed, size_t& launches) {
  DeviceProfile profile = given;
  profile.speed = speed;
  const std::shared_ptr<const Model> model = loaded->with_profile(profile);
  const Answers answers(fixture.answers);
  ForcedPassOptions options;
  options.readable = all_tensors(answers);
  const auto& encoder = model->shape().encoder;
  const std::vector<ForcedInput> inputs =
      encoder ? answers.inputs(encoder->picture_rows) : answers.sequences();
  options.inputs = static_cast<uint32_t>(inputs.size());
  if (model->shape().encoder) options.input_tokens = model->shape().encoder->context * options.inputs;
  const auto pass = require(ForcedPass::create(model, options));
  if (const Status status = pass->run(inputs); !status.ok()) FAIL(status.error().text());
  std::vector<float> values;
  for (const std::string& name : options.readable) {
    for (size_t input = 0; input < inputs.size(); ++input) {
      const std::vector<float> more = require(pass->read(name, input));
      values.insert(values.end(), more.begin(), more.end());
    }
  }
  for (Runner* runner : {pass->decoder(), pass->encoder() ? &pass->encoder()->runner() : nullptr}) {
    if (runner) launches += require(runner->plan(runner->size().chunk))->dispatches.size();
  }
  return values;
}

// Runs a fixture whole and in parts, in the test device's profile and in that of a common GPU, which take
// turns in a short run.
void check_bits(const Fixture& fixture, size_t turn) {
  CAPTURE(fixture.model.string());
  for (const DeviceProfile& profile : turn_of(std::array{TestGpu::get().profile, forced_profile("")}, turn)) {
    CAPTURE(profile.cpu8);
    const auto model = require(Model::load(fixture.model, with_speed(profile, data_center)));
    size_t few = 0, many = 0;
    const std::vector<float> whole = run(fixture, model, profile, data_center, few);
    const std::vector<float> parts = run(fixture, model, profile, snail, many);
    REQUIRE(!whole.empty());
    CHECK(many > few);
    CHECK(whole == parts);
  }
}

} // namespace

// Attention, a mixture, an encoder with a decoder, quantised weights; a long run has every fixture.
FIXTURE_TEST_CASE("launches in parts give the same bits") {
  std::vector<std::string> models = {"llama-gqa", "mixtral-moe", "whisper"}, ggufs = {"random-Q4_K_M"};
  if (every_case()) models = fixtures().models(), ggufs = fixtures().ggufs();
  size_t turn = 0;
  for (const std::string& name : models)
    check_bits({fixtures().model(name), fixtures().model(name) / "expected.safetensors"}, turn++);
  for (const std::string& name : ggufs)
    check_bits({fixtures().gguf(name), expected_of(fixtures().gguf(name))}, turn++);
}

FIXTURE_TEST_CASE("sampling in parts gives the same text") {
  const auto model = load_model(fixtures().story());
  DeviceProfile profile = model->context().profile;
  profile.speed = snail;
  const std::vector<uint32_t> prompt = {1, 300, 400};
  CHECK(continue_greedily(model, prompt, 30, 128) ==
        continue_greedily(model->with_profile(profile), prompt, 30, 128));
}
