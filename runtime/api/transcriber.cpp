#include <atomic>

#include <fmt/format.h>

#include "api/exclusive.h"
#include "api/handles.h"
#include "media/resample.h"
#include "speech/transcription.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_transcriber {
  static constexpr const char* name = "transcriber";
  static constexpr const char* callback = "on_segment";

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  TranscriptionOptions options;
  std::atomic<bool> cancelled = false;
  std::unique_ptr<Transcriber> transcriber; // none after an error of the device, until the next call
  Use use;

  Status make() {
    PUMICE_TRY(transcriber, Transcriber::create(model, tokenizer, options));
    return {};
  }
  Status run(std::span<const float> samples, uint32_t rate, pumice_segment_function on_segment, void* user);
  void close() { cancelled = true; }
};

namespace {

constexpr uint32_t highest_rate = 768'000;

void report(const TranscriptSegment& segment, pumice_segment_function on_segment, void* user) {
  pumice_segment event = {};
  event.start_us = static_cast<uint64_t>(std::max(segment.start, 0.0) * 1e6);
  event.end_us = static_cast<uint64_t>(std::max(segment.end, 0.0) * 1e6);
  event.text = segment.text.c_str();
  event.tokens = segment.tokens.data();
  event.token_count = segment.tokens.size();
  event.log_probability = segment.log_probability.value_or(0);
  event.no_speech = segment.no_speech.value_or(0);
  on_segment(user, &event);
}

} // namespace

Status pumice_transcriber::run(std::span<const float> samples, uint32_t rate,
                               pumice_segment_function on_segment, void* user) {
  if (!transcriber) PUMICE_CHECK(make());
  const uint32_t own_rate = transcriber->shape().sample_rate;
  std::vector<float> resampled;
  if (rate && rate != own_rate) {
    resampled = resample(samples, rate, own_rate);
    samples = resampled;
  }
  const auto on_window = [&](const TranscriptWindow& window) {
    for (const TranscriptSegment& segment : window.segments) {
      if (!use.destroyed) ::report(segment, on_segment, user);
    }
  };
  const Result<Transcript> result =
      transcriber->transcribe(samples, on_window, [this](uint64_t, uint64_t) { return !cancelled; });
  if (result.ok()) return {};
  const Code code = result.error().code;
  if (code != Code::cancelled && code != Code::invalid_argument) transcriber.reset();
  return result.error();
}

extern "C" {

pumice_status pumice_transcriber_create(pumice_model* model, const pumice_transcriber_options* options,
                                        pumice_transcriber** transcriber, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(transcriber);
    *transcriber = nullptr;
    PUMICE_TRY(const pumice_transcriber_options given, read(options, "options"));
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    PUMICE_CHECK(check_beams(given.beams));
    auto handle = std::make_unique<pumice_transcriber>();
    handle->model = model->model;
    handle->tokenizer = model->tokenizer;
    TranscriptionOptions& own = handle->options;
    if (given.language) own.language = given.language;
    own.translate = given.translate;
    own.timestamps = given.timestamps;
    own.beams = given.beams;
    own.max_tokens = given.max_tokens;
    own.interrupt = &handle->cancelled;
    PUMICE_CHECK(handle->make());
    *transcriber = handle.release();
    return {};
  });
}

void pumice_transcriber_destroy(pumice_transcriber* transcriber) {
  destroy(transcriber);
}

pumice_status pumice_transcribe(pumice_transcriber* transcriber, const float* samples, size_t count,
                                uint32_t rate, pumice_segment_function on_segment, void* user,
                                pumice_error* error) {
  return call_exclusive(transcriber, error, [&]() -> Status {
    PUMICE_REQUIRE(on_segment);
    PUMICE_CHECK(check_array(samples, count, sizeof *samples, "samples"));
    if (count == 0) return Error{Code::invalid_argument, "count is 0: there is no sound"};
    if (rate > highest_rate) {
      return Error{Code::invalid_argument,
                   fmt::format("rate is {}: expected at most {} samples a second", rate, highest_rate)};
    }
    transcriber->cancelled = false;
    return transcriber->run({samples, count}, rate, on_segment, user);
  });
}

void pumice_transcriber_cancel(pumice_transcriber* transcriber) {
  if (transcriber) transcriber->cancelled = true;
}

} // extern "C"
