// Cancelling from another thread: what is generated, encoded or loaded. ThreadSanitizer watches this too.
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include <nlohmann/json.hpp>

#include "support/embedding.h"
#include "support/files/random_model.h"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Stands between Pumice and Vulkan, and counts submissions.
class CountedVulkan {
public:
  // Pumice's get_instance_proc_addr, in front of the loader that `device` found.
  static pumice_get_instance_proc_addr in_front_of(const pumice_device* device) {
    pumice_vulkan vulkan = {sizeof vulkan};
    pumice_device_vulkan(device, &vulkan, nullptr);
    get_instance_function = reinterpret_cast<PFN_vkGetInstanceProcAddr>(vulkan.get_instance_proc_addr);
    return reinterpret_cast<pumice_get_instance_proc_addr>(instance_function);
  }
  static uint64_t submissions() { return count; }
  inline static std::function<void()> at_submission; // called before each one

private:
  static PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char* name) {
    const PFN_vkVoidFunction found = get_instance_function(instance, name);
    if (!found || std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
    get_device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(device_function);
  }
  static PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
    const PFN_vkVoidFunction found = get_device_function(device, name);
    if (std::strcmp(name, "vkQueueSubmit") != 0) return found;
    queue_submit = reinterpret_cast<PFN_vkQueueSubmit>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(submit);
  }
  static VkResult VKAPI_CALL submit(VkQueue queue, uint32_t infos, const VkSubmitInfo* info, VkFence fence) {
    ++count;
    if (at_submission) at_submission();
    return queue_submit(queue, infos, info, fence);
  }

  inline static PFN_vkGetInstanceProcAddr get_instance_function = nullptr;
  inline static PFN_vkGetDeviceProcAddr get_device_function = nullptr;
  inline static PFN_vkQueueSubmit queue_submit = nullptr;
  inline static std::atomic<uint64_t> count = 0;
};

// A thread that cancels something a moment after it was told to.
class Canceller {
public:
  struct Done {
    Clock::time_point when;
    uint64_t submissions = 0; // until then
  };

  Canceller() : thread_([this] { work(); }) {}
  ~Canceller() {
    tell([this] { ending_ = true; });
    thread_.join();
  }

  void arm(Seconds delay, std::function<void()> cancel) {
    const Clock::time_point when = Clock::now() + std::chrono::duration_cast<Clock::duration>(delay);
    tell([&] {
      when_ = when;
      cancel_ = std::move(cancel);
    });
  }
  // Waits until it has been done.
  Done wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !cancel_; });
    return done_;
  }

private:
  template <class Change>
  void tell(const Change& change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || cancel_; });
      if (ending_) return;
      lock.unlock();
      std::this_thread::sleep_until(when_);
      const Clock::time_point now = Clock::now();
      cancel_();
      const uint64_t submissions = CountedVulkan::submissions();
      lock.lock();
      done_ = {now, submissions};
      cancel_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> cancel_;
  Clock::time_point when_;
  Done done_;
  bool ending_ = false;
  std::thread thread_;
};

// What came of cancelling.
struct Outcomes {
  size_t all = 0, cancelled = 0;
  Seconds longest{0};
  uint64_t submissions = 0; // the most after one

  // `ended`: when the call that it ended returned, and after how many submissions.
  void add(pumice_status status, const Canceller::Done& done, const Canceller::Done& ended) {
    ++all;
    if (status != PUMICE_CANCELLED) return;
    ++cancelled;
    longest = std::max<Seconds>(longest, ended.when - done.when);
    submissions = std::max(submissions, ended.submissions - std::min(ended.submissions, done.submissions));
  }
};

Canceller::Done now() {
  return {Clock::now(), CountedVulkan::submissions()};
}

// How long something takes that is not cancelled: the least that was seen, since a machine that did something
// else meanwhile says too much, and then every cancel would come too late.
class LeastTime {
public:
  void add(Seconds one) { least_ = std::min(least_, one); }
  template <class Random>
  Seconds a_moment_in_it(Random& random) const {
    return least_ * std::uniform_real_distribution(0.0, 1.1)(random);
  }

private:
  Seconds least_ = Seconds::max();
};

void check_stopped_or_done(pumice_status status, const pumice_error& error) {
  if (status != PUMICE_CANCELLED) require_ok(status, error);
}

// What is said in turns that may be cancelled, against the same without.
class Conversation {
public:
  static constexpr uint32_t length = 16;

  Conversation(pumice_model* model, Canceller& canceller) : canceller_(canceller) {
    pumice_session_options options = {sizeof options};
    options.context = 64;
    options.chunk = 8;
    session_ = make_session(model, options);
    tell(session_.get(), prompt, length);
    expected_ = tell_in_time();
    REQUIRE(expected_.tokens.size() == length);
    prompt_tokens_ = tokens_of(session_.get()).size() - length;
    said_ = length;
  }

  template <class Random>
  void turn(Random& random, Outcomes& outcomes) {
    if (said_ == length || random() % 4 == 0) {
      begin(session_.get(), prompt, length);
      said_ = 0;
    } else {
      go_on();
    }
    canceller_.arm(whole_.a_moment_in_it(random),
                   [this] { pumice_work_cancel(pumice_session_work(session_.get())); });
    pumice_error error;
    const bool sliced = random() % 2;
    std::exponential_distribution<float> budget(1 / 500.0f);
    const pumice_status status = sliced ? advance([&] { return 1 + budget(random); }, error)
                                        : pumice_session_run(session_.get(), &error);
    const Canceller::Done ended = now();
    check_stopped_or_done(status, error);
    outcomes.add(status, canceller_.wait(), ended);
    check(status);
    // Cancelled too late, there is nothing to stop.
    if (status == PUMICE_OK) CHECK(pumice_session_run(session_.get(), &error) == PUMICE_OK);
  }

  void check_whole() {
    CHECK(tell_in_time() == expected_);
    said_ = length;
  }

private:
  static constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

  Story tell_in_time() {
    const Clock::time_point begin = Clock::now();
    Story story = tell(session_.get(), prompt, length);
    whole_.add(Clock::now() - begin);
    return story;
  }
  // With what was not said yet.
  void go_on() {
    pumice_request request = {sizeof request};
    request.max_tokens = static_cast<uint32_t>(length - said_);
    pumice_error error;
    require_ok(pumice_session_generate(session_.get(), &request, &error), error);
  }
  pumice_status advance(const std::function<float()>& budget, pumice_error& error) {
    pumice_slice slice = {sizeof slice};
    pumice_status status;
    do {
      status = pumice_work_advance(pumice_session_work(session_.get()), budget(), nullptr, &slice, &error);
      if (slice.dispatches == 0) std::this_thread::yield();
    } while (status == PUMICE_OK && slice.active);
    return status;
  }
  // The conversation has gone on as it would have, by what came as events, and to the end unless it was
  // cancelled.
  void check(pumice_status status) {
    Story story;
    take_events(session_.get(), story);
    const std::vector<uint32_t> all = tokens_of(session_.get());
    const std::vector<uint32_t> said(all.begin() + static_cast<ptrdiff_t>(prompt_tokens_), all.end());
    REQUIRE(said.size() == said_ + story.tokens.size());
    REQUIRE(said.size() <= length);
    CHECK(std::equal(said.begin(), said.end(), expected_.tokens.begin()));
    CHECK(std::equal(story.tokens.begin(), story.tokens.end(), said.begin() + static_cast<ptrdiff_t>(said_)));
    CHECK((status == PUMICE_CANCELLED) == (story.finish_reason == PUMICE_FINISH_CANCELLED));
    if (status == PUMICE_OK) CHECK(said.size() == length);
    said_ = said.size();
  }

  Canceller& canceller_;
  SessionHandle session_;
  Story expected_;
  LeastTime whole_;
  size_t prompt_tokens_ = 0;
  size_t said_ = 0;
};

// The same with an encoder's input.
class Reading {
public:
  Reading(pumice_model* model, Canceller& canceller) : canceller_(canceller) {
    pumice_error error;
    pumice_encoder* encoder = nullptr;
    require_ok(pumice_encoder_create(model, nullptr, &encoder, &error), error);
    encoder_.reset(encoder);
    for (uint32_t i = 0; i < 50; ++i) tokens_.push_back(5 + i * i % 300);
    expected_.resize(pumice_encoder_columns(encoder));
    read(expected_, error);
    const Clock::time_point begin = Clock::now();
    require_ok(read(expected_, error), error);
    whole_.add(Clock::now() - begin);
  }

  template <class Random>
  void turn(Random& random, Outcomes& outcomes) {
    canceller_.arm(whole_.a_moment_in_it(random),
                   [this] { pumice_work_cancel(pumice_encoder_work(encoder_.get())); });
    std::vector<float> values(expected_.size());
    pumice_error error;
    const Clock::time_point begin = Clock::now();
    const pumice_status status = random() % 2 ? read(values, error) : read_in_slices(values, error);
    const Canceller::Done ended = now();
    check_stopped_or_done(status, error);
    outcomes.add(status, canceller_.wait(), ended);
    if (status != PUMICE_OK) return;
    whole_.add(ended.when - begin);
    CHECK(values == expected_);
  }

private:
  pumice_status read(std::vector<float>& values, pumice_error& error) {
    const pumice_input input = {sizeof input, nullptr, tokens_.data(), tokens_.size(), nullptr};
    return pumice_encoder_encode(encoder_.get(), &input, 1, values.data(), values.size(), nullptr, &error);
  }
  pumice_status read_in_slices(std::vector<float>& values, pumice_error& error) {
    const pumice_input input = {sizeof input, nullptr, tokens_.data(), tokens_.size(), nullptr};
    require_ok(pumice_encoder_begin(encoder_.get(), &input, 1, &error), error);
    pumice_slice slice = {sizeof slice};
    do {
      const pumice_status status =
          pumice_work_advance(pumice_encoder_work(encoder_.get()), 100, nullptr, &slice, &error);
      if (status != PUMICE_OK) return status;
      if (slice.dispatches == 0) std::this_thread::yield();
    } while (slice.active);
    return pumice_encoder_read(encoder_.get(), values.data(), values.size(), nullptr, &error);
  }

  Canceller& canceller_;
  EncoderHandle encoder_;
  std::vector<uint32_t> tokens_;
  std::vector<float> expected_;
  LeastTime whole_;
};

// Loads in a thread of their own, which are given up.
class Loading {
public:
  Loading(pumice_device* device, Canceller& canceller) : device_(device), canceller_(canceller) {
    const Clock::time_point begin = Clock::now();
    load(device);
    whole_.add(Clock::now() - begin);
  }

  template <class Random>
  void turn(Random& random, Outcomes& outcomes) {
    const uint64_t before = allocated(device_);
    pumice_source source = {sizeof source};
    source.path = stories.c_str();
    pumice_error error;
    pumice_load* started = nullptr;
    const Clock::time_point begin = Clock::now();
    require_ok(pumice_load_start(device_, &source, nullptr, &started, &error), error);
    const LoadHandle load(started);
    canceller_.arm(whole_.a_moment_in_it(random), [&] { pumice_load_cancel(started); });
    pumice_model* model = nullptr;
    const pumice_status status = pumice_load_finish(started, &model, &error);
    const Canceller::Done ended = now();
    pumice_model_destroy(model);
    check_stopped_or_done(status, error);
    outcomes.add(status, canceller_.wait(), ended);
    CHECK((model != nullptr) == (status == PUMICE_OK));
    if (status == PUMICE_OK) whole_.add(ended.when - begin);
    CHECK(allocated(device_) == before);
  }

private:
  pumice_device* device_;
  Canceller& canceller_;
  LeastTime whole_;
};

TemporaryFolder& bert() {
  static TemporaryFolder folder;
  write_random_model(folder, {{"model_type", "bert"},
                              {"vocab_size", 400},
                              {"hidden_size", 64},
                              {"intermediate_size", 128},
                              {"num_attention_heads", 4},
                              {"num_hidden_layers", 3},
                              {"max_position_embeddings", 64},
                              {"type_vocab_size", 2},
                              {"layer_norm_eps", 1e-12},
                              {"hidden_act", "gelu"}});
  return folder;
}

void report(const std::string& what, const Outcomes& outcomes) {
  MESSAGE(what << ": cancelled " << outcomes.all << " times, " << outcomes.cancelled
               << " of them in time; the longest took " << outcomes.longest.count() * 1e3 << " ms and "
               << outcomes.submissions << " submissions to return");
  CHECK(outcomes.submissions <= 1);
  CHECK(outcomes.cancelled > outcomes.all / 8); // the others came too late
}

DeviceHandle make_counted_device() {
  pumice_device_options options = {sizeof options};
  const DeviceHandle plain = make_device();
  options.get_instance_proc_addr = CountedVulkan::in_front_of(plain.get());
  return make_device(options);
}

} // namespace

TEST_CASE("no step that could run ahead is submitted after a cancel") {
  const DeviceHandle device = make_counted_device();
  const ModelHandle model = load(device.get());
  pumice_session_options options = {sizeof options};
  options.context = 64;
  options.chunk = 4;
  const SessionHandle session = make_session(model.get(), options);
  const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";
  const Story expected = tell(session.get(), prompt, 8);
  // Another prompt, read in several steps, none of which waits for another.
  begin(session.get(), "Then there was a little boy named Tom, who had a big red ball and a dog", 8);
  const uint64_t before = CountedVulkan::submissions();
  CountedVulkan::at_submission = [&] { pumice_work_cancel(pumice_session_work(session.get())); };
  pumice_error error;
  const pumice_status status = pumice_session_run(session.get(), &error);
  CountedVulkan::at_submission = nullptr;
  CHECK(status == PUMICE_CANCELLED);
  CHECK(CountedVulkan::submissions() - before == 1);
  CHECK(tell(session.get(), prompt, 8) == expected);
}

void cancel_at_random(size_t turns) {
  const DeviceHandle device = make_counted_device();
  const ModelHandle decoder = load(device.get()), encoder = load(device.get(), bert().path().string());
  Canceller canceller;
  Conversation conversation(decoder.get(), canceller);
  Reading reading(encoder.get(), canceller);
  Loading loading(device.get(), canceller);
  Outcomes said, read, loaded;
  std::mt19937 random(11);
  while (said.all + read.all + loaded.all < turns) {
    switch (random() % 10) {
    case 0:
      loading.turn(random, loaded);
      break;
    case 1:
    case 2:
      reading.turn(random, read);
      break;
    default:
      conversation.turn(random, said);
      if (said.all % 50 == 0) conversation.check_whole();
    }
  }
  conversation.check_whole();
  report("generating", said);
  report("encoding", read);
  report("loading", loaded);
}

TEST_CASE("what is cancelled from another thread stops within one submission, and goes on as if it had not "
          "been") {
  cancel_at_random(300);
}

TEST_CASE("what is cancelled a thousand times goes on as if it had not been" * doctest::test_suite("long")) {
  cancel_at_random(1000);
}
