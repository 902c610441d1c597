#include <fmt/format.h>

#include "api/handles.h"
#include "api/input.h"
#include "api/request.h"
#include "api/tasks/creation.h"
#include "api/tune.h"
#include "api/work.h"
#include "model/architecture.h"
#include "task/speech_recognizer.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_transcriber : pumice_work, Live<pumice_transcriber> {
  static constexpr const char* name = "transcriber";

  pumice_transcriber() : pumice_work(name, "on_segment") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return recognizer->slice(request); }
  Status discard() override { return recognizer->discard(); }
  void cancel() override { recognizer->cancel(); }

  std::unique_ptr<SpeechRecognizer> recognizer;
  std::vector<float> samples; // that are being transcribed, at the model's rate
  Transcript heard;           // its language was handed out last
};

namespace {

constexpr uint32_t most_windows = 256;

uint64_t microseconds(double seconds) {
  return static_cast<uint64_t>(std::max(seconds, 0.0) * 1e6);
}

void report_segment(const TranscriptSegment& segment, pumice_segment_function on_segment, void* user) {
  pumice_segment event = {};
  event.start_us = microseconds(segment.start);
  event.end_us = microseconds(segment.end);
  event.text = segment.text.c_str();
  event.tokens = segment.tokens.data();
  event.token_count = segment.tokens.size();
  event.log_probability = segment.log_probability.value_or(0);
  event.no_speech = segment.no_speech.value_or(0);
  std::vector<pumice_word> words;
  for (const TimedWord& word : segment.words) {
    words.push_back({microseconds(word.start), microseconds(word.end), word.text.c_str(), word.probability});
  }
  event.words = words.data();
  event.word_count = words.size();
  event.temperature = segment.temperature;
  event.compression_ratio = segment.compression;
  on_segment(user, &event);
}

// A sound as the application hands it in, at the model's rate.
struct GivenSound {
  const float* samples;
  size_t count;
  uint32_t rate;

  Result<std::vector<float>> read(const SpeechRecognizer& recognizer) const {
    return read_samples({samples, count}, rate, recognizer.settings().sample_rate, "");
  }
};

Status begin_sound(pumice_transcriber& transcriber, const GivenSound& sound,
                   pumice_segment_function on_segment, void* user) {
  PUMICE_REQUIRE(on_segment);
  SpeechRecognizer& recognizer = *transcriber.recognizer;
  PUMICE_TRY(std::vector<float> samples, sound.read(recognizer));
  SoundLevel level;
  if (recognizer.wants_level()) level.add(samples);
  const auto on_window = [&transcriber, on_segment, user](const TranscriptWindow& window) {
    for (const TranscriptSegment& segment : window.segments) {
      if (!transcriber.destroyed) report_segment(segment, on_segment, user);
    }
  };
  PUMICE_CHECK(recognizer.begin(source_of(samples), level, on_window));
  transcriber.samples = std::move(samples); // stay where they are
  return {};
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_transcriber_options* asked) {
  PUMICE_TRY(const pumice_transcriber_options options, read(asked, "options"));
  PUMICE_CHECK(check_beams(options.beams));
  TranscriptionOptions transcription;
  if (options.language) transcription.language = options.language;
  transcription.translate = options.translate;
  transcription.timestamps = options.timestamps;
  transcription.beams = options.beams;
  transcription.max_tokens = options.max_tokens;
  if (options.prompt) transcription.prompt = options.prompt;
  if (options.windows > most_windows) {
    return Error{Code::invalid_argument,
                 fmt::format("options.windows is {}: expected at most {}", options.windows, most_windows)};
  }
  transcription.windows = std::max(options.windows, 1u);
  transcription.words = options.words;
  transcription.previous_text = !options.no_previous_text;
  if (options.no_fallback) transcription.temperatures = {0};
  transcription.voice_activity = !options.keep_silence;
  PUMICE_TRY(transcription.form, read_form(options.form, "options.form"));
  PUMICE_TRY(const SpeechSettings settings,
             read_speech_settings(model.model->file(), model.model->definition(), transcription));
  if (settings.prompted && !model.tower) {
    return Error{
        Code::invalid_argument,
        fmt::format("{} was loaded without options.vision, so it cannot hear", model.model->file().path())};
  }
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_transcriber>();
    const auto tower = settings.prompted ? current_model(model.tower) : nullptr;
    PUMICE_TRY(handle->recognizer,
               SpeechRecognizer::create(current_model(model), settings, tower, prepared(making)));
    created.transcriber = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_transcriber_create(pumice_model* model, const pumice_transcriber_options* options,
                                        pumice_transcriber** transcriber, pumice_error* error) {
  return create(model, options, transcriber, "transcriber", &pumice_created::transcriber, error);
}

void pumice_transcriber_destroy(pumice_transcriber* transcriber) {
  destroy(transcriber);
}

pumice_status pumice_transcriber_transcribe(pumice_transcriber* transcriber, const float* samples,
                                            size_t count, uint32_t rate, pumice_segment_function on_segment,
                                            void* user, pumice_error* error) {
  return call_exclusive(transcriber, error, [&]() -> Status {
    PUMICE_CHECK(begin_sound(*transcriber, {samples, count, rate}, on_segment, user));
    const Result<Transcript> result = transcriber->recognizer->run();
    return result.ok() ? Status() : Status(result.error());
  });
}

pumice_status pumice_transcriber_detect(pumice_transcriber* transcriber, const float* samples, size_t count,
                                        uint32_t rate, pumice_error* error) {
  return call_exclusive(transcriber, error, [&]() -> Status {
    SpeechRecognizer& recognizer = *transcriber->recognizer;
    const GivenSound sound = {samples, count, rate};
    PUMICE_TRY(transcriber->samples, sound.read(recognizer));
    const Result<Transcript> heard = recognizer.detect_language(source_of(transcriber->samples));
    return heard.ok() ? Status() : Status(heard.error());
  });
}

const char* pumice_transcriber_language(pumice_transcriber* transcriber, float* probability) {
  if (!is_live(transcriber)) return "";
  transcriber->heard = transcriber->recognizer->language();
  if (probability) *probability = transcriber->heard.language_probability;
  return transcriber->heard.language.c_str();
}

pumice_status pumice_transcriber_begin(pumice_transcriber* transcriber, const float* samples, size_t count,
                                       uint32_t rate, pumice_segment_function on_segment, void* user,
                                       pumice_error* error) {
  return call_exclusive(transcriber, error, [&]() -> Status {
    return begin_sound(*transcriber, {samples, count, rate}, on_segment, user);
  });
}

pumice_work* pumice_transcriber_work(pumice_transcriber* transcriber) {
  return is_live(transcriber) ? transcriber : nullptr;
}

} // extern "C"
