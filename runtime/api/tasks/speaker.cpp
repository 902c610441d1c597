#include <fmt/format.h>

#include "api/handles.h"
#include "api/request.h"
#include "api/tasks/creation.h"
#include "api/tune.h"
#include "api/work.h"
#include "task/speaking/speaker.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_speaker : pumice_work, Live<pumice_speaker> {
  static constexpr const char* name = "speaker";

  pumice_speaker() : pumice_work(name, "on_samples") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return speaker->slice(request); }
  Status discard() override { return speaker->discard(); }
  void cancel() override { speaker->cancel(); }

  std::unique_ptr<Speaker> speaker;
};

namespace {

Status begin_text(pumice_speaker& speaker, const char* text, pumice_samples_function on_samples, void* user) {
  PUMICE_REQUIRE(text);
  PUMICE_REQUIRE(on_samples);
  return speaker.speaker->begin(text, [&speaker, on_samples, user](std::span<const float> samples) {
    if (!speaker.destroyed) on_samples(user, samples.data(), samples.size());
    return Status();
  });
}

Result<SpeakerOptions> read_options(const pumice_speaker_options& options, const pumice_model& model) {
  SpeakerOptions result;
  if (options.sampling) {
    PUMICE_TRY(const pumice_sampling sampling, read(options.sampling, "options.sampling"));
    PUMICE_TRY(result.sampling, read_sampling(sampling, model.model->shape().vocabulary,
                                              model.tokenizer.get(), {}, "options.sampling"));
  } else {
    result.sampling.seed = options.seed;
  }
  if (options.voice) result.voice = options.voice;
  result.size.context = options.context;
  result.max_tokens = options.max_tokens;
  result.chunk_ms = options.chunk_ms;
  return result;
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_speaker_options* asked) {
  PUMICE_TRY(const pumice_speaker_options options, read(asked, "options"));
  if (!options.codec) return null_argument("options.codec");
  PUMICE_CHECK(check_live(options.codec, "options.codec"));
  const pumice_model& codec = *options.codec;
  PUMICE_CHECK(require_tokenizer(model.tokenizer.get(), *model.model));
  if (codec.model->context().device != model.model->context().device) {
    return Error{Code::invalid_argument,
                 fmt::format("options.codec, {}, is on another device than {}: load both on one",
                             codec.model->file().path(), model.model->file().path())};
  }
  PUMICE_TRY(const SpeakerOptions speaker_options, read_options(options, model));
  PUMICE_TRY(const SpeakerSettings settings,
             read_speaker_settings(model.model->file(), model.model->definition(), codec.model->file(),
                                   codec.model->definition(), model.tokenizer, speaker_options));
  return Maker([=, sounds = codec.model](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_speaker>();
    PUMICE_TRY(handle->speaker,
               Speaker::create(current_model(model), current_model(sounds), settings, prepared(making)));
    created.speaker = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_speaker_create(pumice_model* model, const pumice_speaker_options* options,
                                    pumice_speaker** speaker, pumice_error* error) {
  return create(model, options, speaker, "speaker", &pumice_created::speaker, error);
}

void pumice_speaker_destroy(pumice_speaker* speaker) {
  destroy(speaker);
}

pumice_status pumice_speaker_speak(pumice_speaker* speaker, const char* text,
                                   pumice_samples_function on_samples, void* user, pumice_error* error) {
  return call_exclusive(speaker, error, [&]() -> Status {
    PUMICE_CHECK(begin_text(*speaker, text, on_samples, user));
    return speaker->speaker->run();
  });
}

uint32_t pumice_speaker_rate(const pumice_speaker* speaker) {
  return is_live(speaker) ? speaker->speaker->sample_rate() : 0;
}

pumice_finish_reason pumice_speaker_finish_reason(const pumice_speaker* speaker) {
  if (!is_live(speaker)) return PUMICE_FINISH_NONE;
  const Speaker::Figures& figures = speaker->speaker->figures();
  if (figures.cancelled) return PUMICE_FINISH_CANCELLED;
  return static_cast<pumice_finish_reason>(figures.finish_reason);
}

pumice_status pumice_speaker_begin(pumice_speaker* speaker, const char* text,
                                   pumice_samples_function on_samples, void* user, pumice_error* error) {
  return call_exclusive(speaker, error,
                        [&]() -> Status { return begin_text(*speaker, text, on_samples, user); });
}

pumice_work* pumice_speaker_work(pumice_speaker* speaker) {
  return is_live(speaker) ? speaker : nullptr;
}

} // extern "C"
