// What a session asks of the driver, step by step: calls through a replaced dispatch table are noted.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "kernel/probe/open_device.h"
#include "support/files/paths.h"
#include "support/require.h"
#include "support/session.h"

using namespace pumice;

namespace {

VulkanTable real;

// One letter for each call since the last clear: R a recording is begun, S a submission, L a wait for the
// last submission, W a wait for one before it.
std::string calls;
uint64_t last_value = 0;   // of the timeline, which the last submission reaches
uint32_t most_buffers = 0; // of one submission

VKAPI_ATTR VkResult VKAPI_CALL note_begin(VkCommandBuffer buffer, const VkCommandBufferBeginInfo* info) {
  calls += 'R';
  return real.vkBeginCommandBuffer(buffer, info);
}
VKAPI_ATTR VkResult VKAPI_CALL note_submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                           VkFence fence) {
  calls += 'S';
  last_value = *static_cast<const VkTimelineSemaphoreSubmitInfo*>(infos->pNext)->pSignalSemaphoreValues;
  for (uint32_t i = 0; i < count; ++i) most_buffers = std::max(most_buffers, infos[i].commandBufferCount);
  return real.vkQueueSubmit(queue, count, infos, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL note_wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
  calls += *info->pValues == last_value ? 'L' : 'W';
  return real.vkWaitSemaphores(device, info, timeout);
}

std::shared_ptr<const Model> model() {
  static const auto loaded = [] {
    const auto path = stories_model();
    const auto plain = require(Instance::create({}));
    real = require(Device::create(plain, require(plain->choose(""))))->table();
    InstanceOptions options;
    options.table.vkBeginCommandBuffer = note_begin;
    options.table.vkQueueSubmit = note_submit;
    options.table.vkWaitSemaphores = note_wait;
    const auto instance = require(Instance::create(options));
    return require(Model::load(path, require(open_device(instance, require(instance->choose("")), {}))));
  }();
  return loaded;
}

std::unique_ptr<Session> session_of(SessionOptions options) {
  return require(Session::create(model(), options));
}

long count_of(char call) {
  return std::ranges::count(calls, call);
}

const std::vector<uint32_t> prompt = {1, 300, 400, 500, 600};

} // namespace

TEST_CASE("loading a model makes the pipelines that decoding needs") {
  const Pipelines& pipelines = *model()->context().pipelines;
  for (uint32_t context : {512u, 100u}) {
    const size_t made = pipelines.count();
    SessionOptions options;
    options.size.context = context;
    const auto session = session_of(options);
    CHECK(made > 5);
    REQUIRE(session->runner().prepare(1).ok());
    CHECK(pipelines.count() == made);
  }
}

TEST_CASE("decoding never records again") {
  SessionOptions options;
  options.size.context = 128;
  options.steps_per_submit = 1;
  const auto session = session_of(options);
  REQUIRE(session->prefill(prompt, {}).ok());
  take(*session, 1);
  calls.clear();
  take(*session, 100);
  CHECK(count_of('R') == 0);
  CHECK(count_of('S') >= 98); // some were submitted ahead, and some are
  CHECK(count_of('S') <= 102);
}

TEST_CASE("several steps go in one submission") {
  SessionOptions options;
  options.size.context = 128;
  options.steps_per_submit = 5;
  const auto session = session_of(options);
  REQUIRE(session->prefill(prompt, {}).ok());
  take(*session, 1);
  calls.clear();
  most_buffers = 0;
  take(*session, 100);
  CHECK(count_of('R') == 0);
  CHECK(count_of('S') >= 19);
  CHECK(count_of('S') <= 21);
  CHECK(most_buffers == 2 * 5); // the sampling of a step has one of its own
}

TEST_CASE("a fast device gets few submissions, and a slow one as many as keep each short") {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 100; ++i) tokens.push_back(300 + i * 7);
  std::vector<uint32_t> texts[2];
  long submissions[2];
  const DeviceSpeed speeds[] = {{10e12, 1e12}, {100e6, 100e6}};
  for (int i = 0; i < 2; ++i) {
    DeviceProfile profile = model()->context().profile;
    profile.speed = speeds[i];
    SessionOptions options;
    options.size.context = 256;
    options.steps_per_submit = 1;
    const auto session = require(Session::create(model()->with_profile(profile), options));
    calls.clear();
    REQUIRE(session->prefill(tokens, {}).ok());
    submissions[i] = count_of('S');
    texts[i] = take(*session, 10);
  }
  CHECK(submissions[0] <= 3); // the prompt, and what is decoded ahead
  CHECK(submissions[1] >= 10);
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("the next chunk of a prompt is submitted while the one before it runs") {
  SessionOptions options;
  options.size.context = 128;
  options.size.chunk = 8;
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 40; ++i) tokens.push_back(300 + i * 7);
  const auto whole = session_of({}), chunked = session_of(options);
  REQUIRE(whole->prefill(tokens, {}).ok());
  REQUIRE(chunked->prefill(tokens, {}).ok()); // whose recording is made
  REQUIRE(chunked->reset().ok());
  calls.clear();
  REQUIRE(chunked->prefill(tokens, {}).ok());
  const size_t first = calls.find('S'), last = calls.rfind('S');
  CHECK(count_of('S') >= 5); // the chunks, and what is decoded ahead
  // The device always has a chunk to go on with while the host waits.
  CHECK(calls.substr(first, last - first).find('L') == std::string::npos);
  CHECK(take(*whole, 20) == take(*chunked, 20));
}
