// What a model takes, against what was said it would.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/model.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped = stories_model();

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
  for (const auto& path : {shipped, fixtures().gguf("random-F32")}) {
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
