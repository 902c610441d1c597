#include "tuning/tune_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "kernel/class_costs.h"
#include "shaders/common/step.h"
#include "support/files/paths.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "tuning/sample_steps.h"

using namespace pumice;

TEST_CASE("with the profile of a common GPU, attention is measured too, and none of its variants is wrong") {
  DeviceContext context = test_context();
  context.profile = forced_profile("");
  context.profile.matrix_shapes = TestGpu::get().profile.matrix_shapes;
  const auto model = Model::load(stories_model().string(), context);
  if (!model.ok()) FAIL(model.error().text());
  TuneOptions options;
  options.seconds = 1e9;
  options.samples = 1;
  options.sample_seconds = 0;
  const auto tuning = tune_model(*model, options);
  if (!tuning.ok()) FAIL(tuning.error().text());
  size_t attentions = 0;
  for (const TunedClass& tuned : tuning->classes) {
    CAPTURE(tuned.shape_class);
    if (!tuned.shape_class.starts_with("attention")) continue;
    ++attentions;
    for (const VariantResult& variant : tuned.variants) {
      CAPTURE(variant.variant);
      CHECK(variant.blocked == "");
    }
    CHECK(tuning->choices.at(tuned.shape_class) == tuned.winner);
  }
  MESSAGE(attentions << " classes of attention");
  // Without cooperative matrices there is nothing to choose from for many rows, and the plain one apart, one
  // for few.
  CHECK((attentions > 0 || context.profile.matrix_shapes.empty()));

  // What each class cost is kept, and predicts its launches.
  const auto pipelines = Pipelines::create(context.device, {});
  REQUIRE(pipelines.ok());
  keep_tuning(*tuning, **pipelines, [](const std::string&) {});
  const ClassCosts costs = ClassCosts::stored(**pipelines);
  REQUIRE(!tuning->classes.empty());
  for (const TunedClass& tuned : tuning->classes) {
    CAPTURE(tuned.shape_class);
    const auto winner = std::ranges::find(tuned.variants, tuned.winner, &VariantResult::variant);
    REQUIRE(winner != tuned.variants.end());
    Dispatch dispatch;
    dispatch.flops = winner->flops;
    dispatch.bytes = winner->bytes / 2;
    CHECK(costs.seconds(tuned.shape_class, dispatch).value_or(0) ==
          doctest::Approx(winner->seconds).epsilon(1e-2));
  }
}

TEST_CASE("what is measured is a step with tokens, in the midst of a context") {
  const auto model = load_model(stories_model());
  DirectWork work(model->context().device);
  SessionSize size;
  size.context = 64;
  size.chunk = 16;
  auto steps = SampleSteps::create(model, ModelPart::decoder, size, work);
  if (!steps.ok()) FAIL(steps.error().text());
  for (uint32_t tokens : {1u, 16u, 7u}) {
    const Status written = steps->write(tokens);
    if (!written.ok()) FAIL(written.error().text());
    const Buffer& block = steps->runner().buffer({Space::step, 0, 0, 4});
    const auto* quads = reinterpret_cast<const uint32_t*>(block.mapped().data());
    CHECK(quads[0] == tokens);
    CHECK(quads[1] == 1);                          // the last one is an output
    CHECK(quads[STEP_HEADER_QUADS * 4 + 1] == 32); // the first one's position
  }
}
