#include "task/speaking/speaker.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "model/vocabulary.h"

namespace pumice {

namespace {

constexpr uint32_t longest_chunk_ms = 60'000;

// Frames of a chunk: their surroundings are computed with each.
Result<uint32_t> chunk_frames(const SoundCodec& codec, uint32_t chunk_ms) {
  if (chunk_ms == 0) return std::max(1u, 4 * codec.reach);
  if (chunk_ms > longest_chunk_ms) {
    return Error{Code::invalid_argument, fmt::format("chunks of {} ms are asked for: expected at most {}",
                                                     chunk_ms, longest_chunk_ms)};
  }
  const uint64_t samples = uint64_t{chunk_ms} * codec.sample_rate / 1000;
  return static_cast<uint32_t>(std::max<uint64_t>(1, samples / codec.frame));
}

// What makes the sound of codes.
Result<SoundCodec> read_codec(const ModelFile& file, const ModelDefinition& definition) {
  if (const auto codec = sound_codec(definition)) return *codec;
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' makes no sound of codes: expected DAC",
                           file.path(), file.architecture())};
}

} // namespace

SamplingParams usual_speech_sampling() {
  SamplingParams usual;
  usual.temperature = 0.4f;
  usual.top_k = 40;
  usual.top_p = 0.9f;
  usual.min_p = 0.05f;
  usual.repeat_penalty = 1.1f;
  usual.repeat_window = 64;
  return usual;
}

Result<SpeakerSettings> read_speaker_settings(const ModelFile& file, const ModelDefinition& definition,
                                              const ModelFile& codec_file, const ModelDefinition& codec,
                                              std::shared_ptr<const Tokenizer> tokenizer,
                                              const SpeakerOptions& options) {
  const ModelShape shape = definition.shape();
  if (!shape.has_decoder() || shape.encoder) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model of the architecture '{}' cannot speak: expected a decoder that "
                             "writes codes of a sound (OuteTTS 1.0)",
                             file.path(), file.architecture())};
  }
  SpeakerSettings settings;
  PUMICE_TRY(settings.codec, read_codec(codec_file, codec));
  settings.tokenizer = std::move(tokenizer);
  settings.path = file.path();
  PUMICE_TRY(CodeTokens codes, CodeTokens::find(*settings.tokenizer, settings.codec, file.path()));
  settings.codes = std::make_shared<CodeTokens>(std::move(codes));
  if (options.voice) {
    PUMICE_TRY(Voice voice, Voice::parse(*options.voice, options.voice_name, settings.codec));
    settings.voice = std::make_shared<Voice>(std::move(voice));
  }
  settings.sampling = options.sampling;
  const std::vector<LogitBias>& beyond = settings.codes->beyond();
  settings.sampling.logit_biases.insert(settings.sampling.logit_biases.end(), beyond.begin(), beyond.end());
  std::vector<uint32_t> ends = end_tokens(file, settings.tokenizer.get());
  if (const auto end = settings.tokenizer->find(sound_end)) ends.push_back(*end);
  for (const uint32_t end : ends) {
    std::vector<uint32_t>& stops = settings.sampling.stop_tokens;
    if (!std::ranges::count(stops, end)) stops.push_back(end);
  }
  PUMICE_TRY(settings.chunk, chunk_frames(settings.codec, options.chunk_ms));
  settings.size = options.size;
  settings.max_tokens = options.max_tokens;
  return settings;
}

std::filesystem::path usual_codec_path(const ModelFile& file) {
  const std::filesystem::path path = path_of(file.path());
  std::error_code ignored;
  return (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()) / "codec";
}

Result<std::unique_ptr<Speaker>> Speaker::create(std::shared_ptr<const Model> model,
                                                 std::shared_ptr<const Model> codec, SpeakerSettings settings,
                                                 const Making& making) {
  std::unique_ptr<Speaker> speaker(new Speaker(std::move(settings)));
  EncoderOptions encoder;
  encoder.readable = {SoundCodec::samples};
  const uint64_t codes = uint64_t{speaker->frames_.most()} * speaker->settings_.codec.codebooks;
  if (codes > UINT32_MAX)
    return Error{Code::invalid_argument,
                 fmt::format("chunks of {} codes are asked for: expected at most {}", codes, UINT32_MAX)};
  encoder.tokens = static_cast<uint32_t>(codes);
  PUMICE_TRY(speaker->encoder_, ResumableEncoder::create(std::move(codec), std::move(encoder), making));
  SessionOptions session;
  session.size = speaker->settings_.size;
  if (making.chunk) session.size.chunk = making.chunk;
  session.compiling_threads = making.threads;
  if (making.prepared) session.preparation = making.warm_up ? Preparation::warmed_up : Preparation::compiled;
  PUMICE_TRY(speaker->session_, Session::create(std::move(model), session, making.progress));
  return speaker;
}

void Speaker::set(SpeakerSettings settings) {
  settings_.voice = std::move(settings.voice);
  settings_.sampling = std::move(settings.sampling);
  settings_.max_tokens = settings.max_tokens;
}

uint64_t Speaker::most_samples() const {
  const uint64_t context = session_->size().context;
  const uint64_t tokens = settings_.max_tokens ? std::min<uint64_t>(context, settings_.max_tokens) : context;
  return tokens / settings_.codec.codebooks * settings_.codec.frame;
}

Status Speaker::stop() {
  PUMICE_CHECK(encoder_->stop());
  PUMICE_CHECK(session_->end_text());
  state_ = State::none;
  return {};
}

Status Speaker::begin(std::string_view text, SamplesFunction on_samples) {
  PUMICE_TRY(std::vector<uint32_t> prompt,
             speech_prompt(*settings_.tokenizer, text, settings_.voice.get(), settings_.path));
  PUMICE_CHECK(session_->ready());
  const uint32_t context = session_->size().context;
  if (prompt.size() >= context) {
    return Error{Code::invalid_argument,
                 fmt::format("the text to speak{} takes {} tokens, which leaves no room for its sound in a "
                             "context of {}: speak it in parts",
                             settings_.voice ? " and the voice" : "", prompt.size(), context)};
  }
  PUMICE_CHECK(stop());
  cancelled_ = false;
  frames_ = CodeFrames(settings_.codec, settings_.chunk);
  tokens_.clear();
  figures_ = {};
  figures_.prompt_tokens = prompt.size();
  on_samples_ = std::move(on_samples);
  PUMICE_CHECK(
      session_->begin({std::move(prompt), true, settings_.max_tokens ? settings_.max_tokens : UINT32_MAX,
                       settings_.sampling}));
  state_ = State::writes;
  return {};
}

// Begins what comes next: the sound of a chunk, or more codes.
Status Speaker::next() {
  input_.tokens = frames_.next(!session_->active());
  if (input_.tokens.empty()) {
    state_ = session_->active() ? State::writes : State::done;
    return {};
  }
  PUMICE_CHECK(encoder_->begin({input_}));
  state_ = State::sounds;
  return {};
}

Status Speaker::take_tokens() {
  while (const std::optional<BatchToken> token = session_->take()) {
    tokens_.push_back(token->token);
    figures_.finish_reason = token->finish_reason;
    if (const CodeTokens::Code* code = settings_.codes->code(token->token)) frames_.add(*code);
  }
  figures_.tokens = tokens_.size();
  return next();
}

Status Speaker::take_samples() {
  PUMICE_TRY(const std::vector<float> made, encoder_->read());
  const std::span<const float> samples = frames_.samples(made);
  frames_.done();
  figures_.samples += samples.size();
  if (on_samples_ && !samples.empty()) PUMICE_CHECK(on_samples_(samples));
  return next();
}

Error Speaker::cancelled() {
  if (Status stopped = stop(); !stopped.ok()) return std::move(stopped).error();
  figures_.cancelled = true;
  return {Code::cancelled, "speaking was cancelled"};
}

// An error ends what is under way.
template <class T>
T Speaker::ended(T result) {
  if (!result.ok()) state_ = State::none;
  return result;
}

Status Speaker::run() {
  while (active()) {
    if (cancelled_) return cancelled();
    if (state_ == State::sounds) {
      PUMICE_CHECK(ended(encoder_->run({input_})));
      PUMICE_CHECK(ended(take_samples()));
    } else {
      PUMICE_CHECK(ended(session_->step()));
      PUMICE_CHECK(ended(take_tokens()));
    }
  }
  return {};
}

Result<SliceResult> Speaker::next_slice(const SliceRequest& request) {
  if (cancelled_ && active()) return cancelled();
  SliceResult result;
  if (state_ == State::sounds) {
    PUMICE_TRY(result, encoder_->slice(request));
    if (!result.active) PUMICE_CHECK(take_samples());
  } else if (state_ == State::writes) {
    PUMICE_TRY(result, session_->slice(request));
    PUMICE_CHECK(take_tokens());
  } else {
    PUMICE_TRY(result, encoder_->slice(request)); // of nothing: its semaphores are signalled
  }
  result.active = active();
  return result;
}

Result<SliceResult> Speaker::slice(const SliceRequest& request) {
  return ended(next_slice(request));
}

Status Speaker::discard() {
  PUMICE_CHECK(ended(encoder_->discard()));
  return ended(session_->discard());
}

} // namespace pumice
