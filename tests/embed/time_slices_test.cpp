// Generating in slices of time.
#include <algorithm>
#include <chrono>
#include <random>

#include "support/embedding.h"
#include "support/files/prediction_folder.h"
#include "support/files/temporary_folder.h"

namespace {

constexpr const char* prompt =
    "Once upon a time there was a little girl named Lily. She loved to play outside";

Story tell_in_slices(pumice_session* session, uint32_t max_tokens, const pumice_sampling* sampling,
                     const std::function<float()>& budget, uint64_t* slices = nullptr) {
  begin(session, prompt, max_tokens, sampling);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  const auto start = std::chrono::steady_clock::now();
  do {
    require_ok(pumice_work_advance(pumice_session_work(session), budget(), nullptr, &slice, &error), error);
    take_events(session, story);
    if (slices) *slices += slice.dispatches > 0;
    REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
  } while (slice.active);
  return story;
}

} // namespace

TEST_CASE("slices of any size give the text of whole steps") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get());
  pumice_session_options options = {sizeof options};
  options.context = 256;
  options.chunk = 8;
  const SessionHandle session = make_session(model.get(), options);
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 0.8f;
  sampling.repeat_penalty = 1.1f;
  sampling.seed = 7;
  const Story expected = tell(session.get(), prompt, 40, &sampling);
  CHECK(expected.tokens.size() == 40);
  CHECK(expected.finish_reason == PUMICE_FINISH_LENGTH);
  for (const float budget : {1.0f, 300.0f, 2000.0f, 1e6f}) {
    CAPTURE(budget);
    uint64_t slices = 0;
    CHECK(tell_in_slices(
              session.get(), 40, &sampling, [&] { return budget; }, &slices) == expected);
    MESSAGE(slices << " slices of " << budget << " us");
  }
  std::mt19937 random(1);
  std::exponential_distribution<float> budgets(1 / 400.0f);
  CHECK(tell_in_slices(session.get(), 40, &sampling, [&] { return 1 + budgets(random); }) == expected);
  CHECK(tell(session.get(), prompt, 40, &sampling) == expected);
}

TEST_CASE("a text that stopped with steps under way is followed by one in slices, and the other way round") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = make_session(model.get());
  const Story whole = tell(session.get(), prompt, 20);
  REQUIRE(whole.tokens.size() == 20);
  pumice_sampling sampling = {sizeof sampling};
  sampling.stop_tokens = &whole.tokens[8];
  sampling.stop_token_count = 1;
  const Story stopped = tell(session.get(), prompt, 20, &sampling);
  CHECK(stopped.finish_reason == PUMICE_FINISH_STOP);
  for (int round = 0; round < 2; ++round) {
    CHECK(tell_in_slices(session.get(), 20, &sampling, [] { return 1e5f; }) == stopped);
    CHECK(tell(session.get(), prompt, 20, &sampling) == stopped);
  }
}

TEST_CASE("a text whose tokens are guessed at is the same, in slices and in whole steps") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get());
  pumice_session_options options = {sizeof options};
  options.context = 256;
  options.chunk = 16;
  const SessionHandle plain = make_session(model.get(), options);
  options.drafts = 5;
  const SessionHandle session = make_session(model.get(), options);
  // Few tokens, so that most guesses hold.
  const pumice_logit_bias biases[] = {{300, 100}, {301, 99}, {302, 96}};
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 1;
  sampling.seed = 3;
  sampling.repeat_penalty = 1.1f;
  sampling.logit_biases = biases;
  sampling.logit_bias_count = 3;
  const Story expected = tell(plain.get(), prompt, 100, &sampling);
  REQUIRE(expected.tokens.size() == 100);
  for (const float budget : {1.0f, 500.0f, 1e6f}) {
    CAPTURE(budget);
    CHECK(tell_in_slices(session.get(), 100, &sampling, [&] { return budget; }) == expected);
  }
  CHECK(tell(session.get(), prompt, 100, &sampling) == expected);
  // Saved in the middle, and gone on with.
  begin(session.get(), prompt, 100, &sampling);
  pumice_error error;
  pumice_slice slice = {sizeof slice};
  for (int i = 0; i < 40; ++i)
    require_ok(pumice_work_advance(pumice_session_work(session.get()), 500, nullptr, &slice, &error), error);
  pumice_work_cancel(pumice_session_work(session.get()));
  while (pumice_work_advance(pumice_session_work(session.get()), 500, nullptr, &slice, &error) == PUMICE_OK &&
         slice.active) {
  }
  CHECK(tell(session.get(), prompt, 100, &sampling) == expected);
  options.drafts = 32;
  pumice_session* none = nullptr;
  CHECK(pumice_session_create(model.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
}

TEST_CASE("a text whose tokens the model's own layer guesses at is the same") {
  const TemporaryFolder folder;
  write_parrot_prediction(folder.path());
  const DeviceHandle& device = shared_device();
  const std::string path = folder.path().string();
  const ModelHandle model = load(device.get(), path);
  pumice_load_options load_options = {sizeof load_options};
  load_options.purpose = PUMICE_FOR_DRAFTS;
  load_options.tune_seconds = -1;
  const ModelHandle layer = load(device.get(), path, load_options);
  pumice_session_options options = {sizeof options};
  options.context = 128;
  const SessionHandle plain = make_session(model.get(), options);
  options.drafts = 5;
  options.draft_model = layer.get();
  const SessionHandle session = make_session(model.get(), options);
  const std::vector<uint32_t> tokens = {5, 90, 33, 210, 7, 51};
  pumice_request request = {sizeof request};
  request.tokens = tokens.data();
  request.token_count = tokens.size();
  request.new_conversation = true;
  request.max_tokens = 90;
  request.ignore_end = true;
  const Story expected = generated_story(plain.get(), request);
  CHECK(expected.tokens.size() == 90);
  for (const bool in_slices : {false, true, false})
    CHECK(generated_story(session.get(), request, in_slices) == expected);
  pumice_session* none = nullptr;
  pumice_error error;
  CHECK(pumice_session_create(layer.get(), nullptr, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("load the model itself") != std::string::npos);
}
