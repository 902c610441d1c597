// Slices and loads keep to their budgets, and the calls for slices are short.
#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <thread>

#include "support/embedding.h"
#include "support/vulkan/external_vulkan.h"
#include "support/vulkan/faulty_vulkan.h"

namespace {

using Clock = std::chrono::steady_clock;

SessionHandle make_warm_session(pumice_model* model, uint32_t chunk) {
  pumice_session_options options = {sizeof options};
  options.chunk = chunk;
  options.warm_up = true;
  return make_session(model, options);
}

// Tokens that have nothing in common with those of another seed.
std::vector<uint32_t> random_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = 3 + random() % 400;
  return tokens;
}

void begin_tokens(pumice_session* session, const std::vector<uint32_t>& tokens, uint32_t max_tokens) {
  pumice_request request = {sizeof request};
  request.tokens = tokens.data();
  request.token_count = tokens.size();
  request.new_conversation = true;
  request.ignore_end = true;
  request.max_tokens = max_tokens;
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
}

pumice_slice advance(pumice_session* session, float budget_us) {
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  require_ok(pumice_work_advance(pumice_session_work(session), budget_us, nullptr, &slice, &error), error);
  return slice;
}

double median(std::vector<double> values) {
  REQUIRE(!values.empty());
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The functions that made something or waited since the last count().
std::string heavy_calls(const FaultyVulkan& vulkan) {
  std::string names;
  for (const FaultyVulkan::Function& function : vulkan.functions()) {
    if (function.calls == 0) continue;
    if (function.name.starts_with("vkCreate") || function.name.starts_with("vkAllocate") ||
        function.name.find("Wait") != std::string::npos)
      names += function.name + " ";
  }
  return names;
}

// Slices of a budget, one after the other: actual to expected times.
std::vector<double> ratios(pumice_session* session, float budget_us, uint32_t tokens) {
  std::vector<double> found;
  begin_tokens(session, random_tokens(4, 1), tokens);
  pumice_slice slice = {sizeof slice};
  uint64_t finished = 0;
  do {
    slice = advance(session, budget_us);
    CHECK((slice.dispatches <= 1 || slice.expected_us <= budget_us));
    if (slice.finished == finished + 1 && slice.predicted_us > 0)
      found.push_back(double{slice.measured_us} / slice.predicted_us);
    finished = slice.finished;
    while (slice.active && slice.dispatches == 0) { // the slices under way are to end
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      slice = advance(session, budget_us);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(budget_us)));
  } while (slice.active);
  return found;
}

} // namespace

TEST_CASE("slices take about as long as was expected") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = make_warm_session(model.get(), 16);
  for (const float budget_us : {500.0f, 2000.0f, 8000.0f}) {
    CAPTURE(budget_us);
    (void)ratios(session.get(), budget_us, 60);
    const double found = median(ratios(session.get(), budget_us, 150));
    MESSAGE("slices of " << budget_us << " us take " << found << " times what was expected");
    CHECK(found > 0.8);
    CHECK(found < 1.25);
  }
}

TEST_CASE("a call for a slice does not wait for other work in the queue") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = make_warm_session(model.get(), 16);
  const SessionHandle other = make_warm_session(model.get(), 128);
  begin_tokens(session.get(), random_tokens(4, 1), 8);
  const pumice_slice first = advance(session.get(), 500);
  CHECK(first.dispatches > 0);
  (void)tell(other.get(), "Once", 1); // in the same queue: the first slice has run as well
  begin_tokens(other.get(), random_tokens(400, 2), 1);
  const auto start = Clock::now();
  const pumice_slice long_one = advance(other.get(), 10e6);
  CHECK(long_one.dispatches > 0);
  const auto submitted = Clock::now();
  const pumice_slice second = advance(session.get(), 500);
  const auto returned = Clock::now();
  CHECK(second.finished == first.finished + 1);
  CHECK(second.measured_us > 0);
  while (advance(other.get(), 500).finished == long_one.finished) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::chrono::duration<double, std::milli> other_ms = Clock::now() - start,
                                                  call_ms = returned - submitted;
  MESSAGE("a call of " << call_ms.count() << " ms while the queue was busy for " << other_ms.count()
                       << " ms");
  CHECK(call_ms < other_ms / 4);
}

TEST_CASE(
    "after warming up, no call for a slice makes anything of Vulkan's or waits, up to the whole context") {
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  ExternalVulkan application(FaultyVulkan::get_instance_proc_addr, false);
  pumice_vulkan given = application.vulkan();
  pumice_device_options options = {sizeof options};
  options.vulkan = &given;
  pumice_device* made = nullptr;
  pumice_error error;
  require_ok(pumice_device_create(&options, &made, &error), error);
  const DeviceHandle device(made);
  const ModelHandle model = load(device.get());
  const SessionHandle session = make_warm_session(model.get(), 16);
  const uint64_t bytes = allocated(device.get());
  std::chrono::duration<double, std::milli> longest{};
  for (const size_t prompt : {1u, 15u, 16u, 17u, 300u, 511u, 3u}) {
    CAPTURE(prompt);
    begin_tokens(session.get(), random_tokens(prompt, static_cast<uint32_t>(prompt)), prompt == 3 ? 0 : 4);
    pumice_slice slice = {sizeof slice};
    for (int number = 0; number == 0 || slice.active; ++number) {
      const bool records = number % 2 != 0;
      VkCommandBuffer commands = records ? application.begin() : VK_NULL_HANDLE;
      vulkan.count();
      const auto start = Clock::now();
      if (records) {
        require_ok(pumice_work_record(pumice_session_work(session.get()), commands, 3000, &slice, &error),
                   error);
      } else {
        slice = advance(session.get(), 3000);
      }
      longest = std::max<std::chrono::duration<double, std::milli>>(longest, Clock::now() - start);
      CHECK(heavy_calls(vulkan) == "");
      if (records) application.run();
      REQUIRE(number < 20'000);
    }
    Story story;
    take_events(session.get(), story);
    CHECK(!story.tokens.empty());
  }
  vulkan.rest();
  MESSAGE("the longest call took " << longest.count() << " ms");
  CHECK(allocated(device.get()) == bytes);
}

namespace {

struct Loaded {
  int submissions = 0;
  std::vector<uint64_t> pieces; // bytes between two calls of progress
  Story story;
};

Loaded load_with_budget(FaultyVulkan& vulkan, pumice_device* device, float budget_us, uint32_t budget_bytes) {
  Loaded loaded;
  pumice_load_options options = {sizeof options};
  options.tune_seconds = -1;
  options.budget_us = budget_us;
  options.budget_bytes = budget_bytes;
  std::vector<uint64_t> reports = {0};
  options.progress = [](void* user, uint64_t done, uint64_t) {
    auto& before = *static_cast<std::vector<uint64_t>*>(user);
    if (done > before.back()) before.push_back(done);
    return true;
  };
  options.user = &reports;
  vulkan.count();
  const ModelHandle model = load(device, stories, options);
  for (const FaultyVulkan::Function& function : vulkan.functions()) {
    if (function.name == "vkQueueSubmit") loaded.submissions = function.calls;
  }
  vulkan.rest();
  for (size_t i = 1; i < reports.size(); ++i) loaded.pieces.push_back(reports[i] - reports[i - 1]);
  pumice_session_options small = {sizeof small};
  small.context = 64;
  loaded.story = tell(make_session(model.get(), small).get(), "Once upon a time", 12);
  return loaded;
}

// Loads with every kind of budget. `copied`: the weights go through a queue.
void check_load_budgets(FaultyVulkan& vulkan, pumice_device* device, bool copied) {
  constexpr uint64_t least = 128 << 10;
  const Loaded free = load_with_budget(vulkan, device, 0, 0);
  CHECK(free.submissions == (copied ? 2 : 0)); // the last one makes kernels wait for the copies
  CHECK(free.pieces.size() == 1);

  const Loaded tiny = load_with_budget(vulkan, device, 0.5f, 0);
  CHECK(std::ranges::max(tiny.pieces) <= least);
  CHECK(tiny.pieces.size() > 15);
  // More than a second: on a busy machine, too, that is more than a piece takes.
  const Loaded large = load_with_budget(vulkan, device, 5e6f, 0);
  CHECK(large.pieces.size() < 8);
  CHECK(large.pieces.front() <= least);
  CHECK(std::ranges::max(large.pieces) > 4 * least);

  const Loaded bytes = load_with_budget(vulkan, device, 0, 512 << 10);
  CHECK(std::ranges::max(bytes.pieces) <= 512 << 10);
  CHECK(bytes.pieces.size() < 12);
  const Loaded both = load_with_budget(vulkan, device, 5e6f, 200 << 10);
  CHECK(std::ranges::max(both.pieces) <= 200 << 10);

  for (const Loaded* each : {&tiny, &large, &bytes, &both}) {
    CHECK(each->submissions == (copied ? static_cast<int>(each->pieces.size()) + 1 : 0));
    CHECK(each->story == free.story);
  }
}

} // namespace

TEST_CASE("a load takes what its budget allows between two calls of progress, and no less than a block") {
  FaultyVulkan vulkan;
  for (const bool copied : {false, true}) {
    CAPTURE(copied);
    vulkan.split_memory(copied);
    pumice_device_options options = {sizeof options};
    options.get_instance_proc_addr = FaultyVulkan::get_instance_proc_addr;
    const DeviceHandle own = make_device(options);
    check_load_budgets(vulkan, own.get(), copied);

    const ExternalVulkan application(FaultyVulkan::get_instance_proc_addr, false);
    pumice_vulkan given = application.vulkan();
    options = {sizeof options};
    options.vulkan = &given;
    const DeviceHandle external = make_device(options);
    check_load_budgets(vulkan, external.get(), copied);
  }
  vulkan.split_memory(false);
}

TEST_CASE("a budget of a load that is no time is refused") {
  const DeviceHandle& device = shared_device();
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  for (const float budget_us : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    pumice_load_options options = {sizeof options};
    options.budget_us = budget_us;
    pumice_model* model = nullptr;
    pumice_error error;
    CHECK(pumice_model_load(device.get(), &source, &options, &model, &error) == PUMICE_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find("options.budget_us is ") == 0);
  }
}
