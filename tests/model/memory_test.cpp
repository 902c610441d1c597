// What a model takes, against what was said it would.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "support/fixtures.h"
#include "support/model.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped =
    std::filesystem::path(PUMICE_SOURCE_DIR) / "models" / "pretrained" / "stories-2m.gguf";

#ifdef __linux__
// Anonymous memory of this process in bytes.
uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}
#endif

} // namespace

TEST_CASE("device memory is what the plan said, within 2 %") {
  const std::shared_ptr<Device>& device = test_context().device;
  for (uint32_t context : {64u, 512u}) {
    const uint64_t before = device->allocated_bytes();
    const auto model = load_model(shipped);
    SessionOptions options;
    options.size.context = context;
    auto session = Session::create(model, options);
    REQUIRE(session.ok());

    const auto graph = build_graph(model->definition(), model->file(), {true, {}, context, 0});
    REQUIRE(graph.ok());
    const MemoryPlan memory = plan_memory(model->shape(), test_context(), (*session)->size());
    WeightStore store(test_context().style, device->capabilities());
    uint64_t scratch = 0;
    for (uint32_t tokens : {1u, (*session)->size().chunk}) {
      const auto plan = make_plan(*graph, memory.plan_context(test_context(), store), {tokens, 1});
      REQUIRE(plan.ok());
      scratch = std::max(scratch, plan->scratch_bytes);
    }
    uint64_t sum = Buffer::allocated_bytes(scratch) + memory.state_bytes();
    for (uint64_t part : store.part_bytes()) sum += Buffer::allocated_bytes(part);
    for (uint64_t part : memory.cache_part_bytes) sum += Buffer::allocated_bytes(part);
    const double planned = static_cast<double>(sum);
    const double allocated = static_cast<double>(device->allocated_bytes() - before);
    CAPTURE(planned);
    CAPTURE(allocated);
    CHECK(std::abs(planned - allocated) <= 0.02 * allocated);
  }
}

TEST_CASE("a session and a model give their memory back") {
  const std::shared_ptr<Device>& device = test_context().device;
  const uint64_t before = device->allocated_bytes();
  for (int i = 0; i < 3; ++i) {
    const auto model = load_model(shipped);
    CHECK(Session::create(model, {}).ok());
  }
  CHECK(device->allocated_bytes() == before);
}

#ifdef __linux__
TEST_CASE("loading takes at most 64 MB of the host's memory beside the device's") {
  const std::shared_ptr<Device>& device = test_context().device;
  std::vector<std::filesystem::path> models = {shipped};
  if (const auto root = fixtures()) models.push_back(*root / "gguf" / "random-F32.gguf");
  for (const auto& path : models) {
    const uint64_t before = anonymous_bytes();
    uint64_t peak = 0;
    auto model = Model::load(path, test_context(), [&](uint64_t, uint64_t) {
      peak = std::max(peak, anonymous_bytes());
      return true;
    });
    REQUIRE(model.ok());
    peak = std::max(peak, anonymous_bytes());
    // A CPU driver's device memory may be the process's own.
    const uint64_t allowed = before + (64u << 20) + (*model)->weight_bytes();
    CHECK(peak <= allowed);
    CHECK(device->allocated_bytes() >= (*model)->weight_bytes());
  }
}
#endif
