// Devices that no machine here has, as public reports describe them: what Pumice does on each keeps its
// limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "gpu/kernel_table.h"
#include "gpu/timestamps.h"
#include "kernel/probe/open_device.h"
#include "kernel/probe/probe.h"
#include "step/memory_needs.h"
#include "step/runner_layout.h"
#include "support/answers.h"
#include "support/fixtures.h"
#include "support/gpu.h"
#include "support/limited_vulkan.h"
#include "support/messages.h"
#include "support/model.h"
#include "support/session.h"
#include "support/temporary_folder.h"
#include "tuning/tune_model.h"

using namespace pumice;

namespace {

using Driver = LimitedVulkan::Driver;

template <class T>
T require(Result<T> result) {
  if (!result.ok()) FAIL(result.error().text());
  return *std::move(result);
}
void require(const Status& status) {
  if (!status.ok()) FAIL(status.error().text());
}

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

// Of all sets: subcases come again for each test case, not for each set.
std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> found;
  for (const FixtureSet& set : fixture_sets()) {
    for (const std::string& name : set.ggufs()) {
      const std::filesystem::path model = set.gguf(name);
      found.push_back({model, expected_of(model)});
    }
    for (const std::string& name : set.models()) {
      const std::filesystem::path model = set.model(name), gguf = model / "model.gguf";
      found.push_back({model, model / "expected.safetensors"});
      if (std::filesystem::exists(gguf)) found.push_back({gguf, model / "expected.safetensors"});
    }
  }
  return found;
}

// Plans and records steps of all sizes, and submits one of the fixture's inputs.
void run_pass(const std::shared_ptr<const Model>& model, const Answers& answers) {
  const bool encodes = model->shape().encoder.has_value();
  std::vector<ForcedInput> inputs = encodes ? answers.inputs() : answers.sequences();
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

// Generates tokens, with sampling on the device, for two sequences.
void generate(const std::shared_ptr<const Model>& model, const Answers& answers) {
  SessionOptions options;
  options.size.context = 64;
  options.size.sequences = 1;
  const auto session = require(Session::create(model, options));
  require(session->prefill(answers.sequences().front().tokens, {}));
  take(*session, 2);
}

} // namespace

TEST_CASE("every fixture is planned, recorded and submitted within each device's limits") {
  const std::vector<Fixture> found = all_fixtures();
  for_each_device(Driver::idle, [&](const LimitedVulkan& vulkan) {
    const DeviceContext context = open(vulkan);
    for (const Fixture& fixture : found) {
      CAPTURE(fixture.model.string());
      const auto model = require(Model::load(fixture.model, context));
      const Answers answers(fixture.answers);
      run_pass(model, answers);
      if (!model->shape().encoder) generate(model, answers);
    }
  });
}
