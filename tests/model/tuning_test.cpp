#include "tuning/tune_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/gpu.h"
#include "support/model.h"
#include "support/paths.h"

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
}
