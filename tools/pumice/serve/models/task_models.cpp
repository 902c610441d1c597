#include "serve/models/task_models.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "media/audio.h"
#include "model/vocabulary.h"
#include "process/processes.h"
#include "serve/http/error.h"
#include "speech/subtitles.h"
#include "step/check_tokens.h"
#include "task/model_kind.h"

namespace pumice::serve {

namespace {

using command::OpenedDevice;

constexpr double most_sound_seconds = 4 * 3600;

Error gone() {
  return {Code::cancelled, "the client is gone"};
}

// While it is there, the work ends when the client goes.
class EndWithClient {
public:
  EndWithClient(Exchange& exchange, Work& work) : exchange_(exchange) {
    exchange_.when_gone([&work] { work.cancel(); });
  }
  ~EndWithClient() { exchange_.when_gone({}); }

private:
  Exchange& exchange_;
};

// A sound of a request, which is read once or twice.
class RequestSound final : public SoundSource {
public:
  explicit RequestSound(std::shared_ptr<AudioStream> stream, uint32_t rate, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)), most_(most_sound_seconds * rate) {}

  Status read(size_t wanted, std::vector<float>& to) override {
    const size_t before = to.size();
    stream_->read(wanted, to);
    read_ += static_cast<double>(to.size() - before);
    if (read_ <= most_) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{}: the sound is longer than {} hours", name_, most_sound_seconds / 3600)};
  }
  uint64_t samples() const override { return stream_->samples(); }

private:
  std::shared_ptr<AudioStream> stream_;
  std::string name_;
  double read_ = 0, most_; // samples
};

// What a segment adds to the text before it.
std::string piece_of(const TranscriptSegment& segment, const SpeechSettings& settings, bool first) {
  const std::string text = pumice::text_of(segment, settings.has_text());
  if (first || text.empty()) return text;
  if (!settings.has_text()) return "," + text;
  // A model of letters has its segments between pauses; others begin words with a space.
  return settings.letters || segment.text.starts_with(' ') ? " " + text : text;
}

} // namespace

Result<std::unique_ptr<TranslationModel>>
TranslationModel::load(OpenedModel opened, const OpenedDevice& device, const LoadOptions& options) {
  auto made = std::make_unique<TranslationModel>();
  PUMICE_TRY(made->tokenizer_, load_tokenizer(opened.file));
  PUMICE_TRY(made->model_, command::load_model(std::move(opened), device, options));
  return made;
}

Status TranslationModel::translate(const std::vector<std::string>& texts, const TranslatorOptions& wish,
                                   const std::string& options, Exchange& exchange, const Take& take) {
  const std::lock_guard lock(mutex_);
  if (exchange.gone()) return gone();
  if (!translator_ || options_ != options) {
    translator_.reset(); // its memory is free for the next one
    PUMICE_TRY(TranslatorSettings settings,
               read_translator_settings(model_->file(), model_->shape(), *tokenizer_, wish, request_names));
    PUMICE_TRY(translator_, Translator::create(model_, tokenizer_, std::move(settings)));
    options_ = options;
  }
  std::vector<Source> sources;
  for (const std::string& text : texts) {
    Source& source = sources.emplace_back(translator_->read(text));
    for (const Sentence& each : source.sentences)
      PUMICE_CHECK(check_ids(each.input.tokens, model_->shape().encoder->vocabulary, request_field("text")));
  }
  const auto work = [&]() -> Status {
    PUMICE_CHECK(translator_->begin(std::move(sources)));
    const EndWithClient end(exchange, *translator_);
    PUMICE_CHECK(translator_->run());
    PUMICE_TRY(const std::span<const Source> done, translator_->sources());
    for (const Source& each : done) {
      PUMICE_TRY(const Translation made, translator_->translation(each));
      take(each, made, translator_->settings().generation);
    }
    return {};
  };
  const Status status = work();
  if (!status.ok()) translator_.reset();
  return status;
}

Result<std::unique_ptr<ClassModel>> ClassModel::load(ModelFile file, const OpenedDevice& device,
                                                     const LoadOptions& options) {
  auto made = std::make_unique<ClassModel>();
  if (Result<TaggerPlan> parts = TaggerPlan::of(file, {}); parts.ok()) {
    PUMICE_TRY(std::shared_ptr<const Model> model,
               command::load_model(std::move(file), device, parts->model.load(options)));
    PUMICE_TRY(made->tagger_, Tagger::create(std::move(model), *std::move(parts)));
    return made;
  }
  PUMICE_TRY(ClassifierPlan plan, ClassifierPlan::of(file, {}));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             command::load_model(std::move(file), device, plan.model.load(options)));
  PUMICE_TRY(made->classifier_, Classifier::create(std::move(model), std::move(plan)));
  return made;
}

Result<std::unique_ptr<ClassModel>> ClassModel::of_space(std::shared_ptr<const Model> texts,
                                                         const OpenedDevice& device,
                                                         const LoadOptions& options) {
  auto made = std::make_unique<ClassModel>();
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(texts->file().path())));
  PUMICE_TRY(TaskModel pictures, TaskModel::of_pictures(file));
  pictures.output = SharedSpace::picture;
  PUMICE_TRY(made->pictures_, command::load_model(std::move(file), device, pictures.load(options)));
  made->texts_ = std::move(texts);
  return made;
}

// Their vectors are kept for the next request with the same ones.
Status ClassModel::set_labels(const ClassifierOptions& options) {
  if (classifier_ && options.labels == options_.labels && options.sentence == options_.sentence) return {};
  classifier_.reset(); // its memory is free for the next one
  PUMICE_TRY(ClassifierPlan plan, ClassifierPlan::of(texts_->file(), options));
  PUMICE_TRY(std::vector<float> vectors, plan.embed_labels(texts_));
  PUMICE_TRY(classifier_, Classifier::create(pictures_, std::move(plan), std::move(vectors)));
  options_ = options;
  return {};
}

const Tokenizer* ClassModel::tokenizer() const {
  return tagger_ ? tagger_->plan().model.tokenizer.get() : classifier_->runner().source().tokenizer.get();
}

Result<std::vector<std::vector<float>>> ClassModel::scores(const std::vector<Input>& inputs,
                                                           const ClassifierOptions& options,
                                                           const Progress& progress, uint64_t& tokens) {
  const std::lock_guard lock(mutex_);
  if (takes_labels()) PUMICE_CHECK(set_labels(options));
  InputRunner& runner = classifier_->runner();
  std::vector<EncoderInput> read;
  for (const Input& each : inputs) {
    PUMICE_TRY(EncoderInput input,
               each.picture ? runner.read(*each.picture, each.name) : runner.read(each.text, each.name));
    tokens += input.tokens.size();
    read.push_back(std::move(input));
  }
  std::vector<std::vector<float>> all(inputs.size());
  const auto take = [&](size_t index, std::vector<float> row) -> Status {
    all[index] = classifier_->scores(std::move(row));
    return {};
  };
  PUMICE_CHECK(runner.run(read, take, progress));
  return all;
}

Result<std::vector<std::vector<TextSpan>>> ClassModel::spans(const std::vector<Input>& texts,
                                                             const Progress& progress, uint64_t& tokens) {
  const std::lock_guard lock(mutex_);
  std::vector<std::vector<EncoderInput>> read;
  for (const Input& each : texts) {
    PUMICE_TRY(std::vector<EncoderInput> windows, tagger_->read(each.text, each.name));
    for (const EncoderInput& window : windows) tokens += window.tokens.size();
    read.push_back(std::move(windows));
  }
  std::vector<std::vector<TextSpan>> all(texts.size());
  const auto take = [&](size_t index, const std::vector<float>& rows) -> Status {
    all[index] = tagger_->spans(texts[index].text, rows);
    return {};
  };
  PUMICE_CHECK(tagger_->runner().run_parts(read, take, progress));
  return all;
}

Result<std::unique_ptr<CaptionModel>> CaptionModel::load(OpenedModel opened, const OpenedDevice& device,
                                                         const LoadOptions& options) {
  auto made = std::make_unique<CaptionModel>();
  PUMICE_TRY(made->tokenizer_, load_tokenizer(opened.file));
  PUMICE_TRY(made->model_, command::load_model(std::move(opened), device, options));
  return made;
}

Status CaptionModel::describe(const std::vector<Picture>& pictures, const CaptionerOptions& wish,
                              const std::string& options, Exchange& exchange, const Take& take) {
  const std::lock_guard lock(mutex_);
  if (exchange.gone()) return gone();
  if (!captioner_ || options_ != options) {
    captioner_.reset(); // its memory is free for the next one
    PUMICE_TRY(CaptionerSettings settings,
               read_captioner_settings(model_->file(), model_->shape(), tokenizer_, wish, request_names));
    PUMICE_TRY(captioner_, Captioner::create(model_, nullptr, tokenizer_, std::move(settings)));
    options_ = options;
  }
  const auto work = [&]() -> Status {
    for (size_t first = 0; first < pictures.size(); first += captioner_->at_a_time()) {
      std::vector<PreparedPicture> prepared;
      for (size_t i = first; i < std::min(first + captioner_->at_a_time(), pictures.size()); ++i) {
        PUMICE_TRY(
            PreparedPicture picture,
            prepare_for_prompt(pictures[i].image, captioner_->settings().preparation, pictures[i].name));
        prepared.push_back(std::move(picture));
      }
      PUMICE_CHECK(captioner_->begin(std::move(prepared)));
      const EndWithClient end(exchange, *captioner_);
      PUMICE_CHECK(captioner_->run());
      PUMICE_TRY(const std::vector<std::vector<WrittenText>> texts, captioner_->texts());
      for (const std::vector<WrittenText>& each : texts) take(each, captioner_->settings().generation);
    }
    return {};
  };
  const Status status = work();
  if (!status.ok()) captioner_.reset();
  return status;
}

Result<std::unique_ptr<SpeechModel>> SpeechModel::load(OpenedModel opened, const OpenedDevice& device,
                                                       const LoadOptions& options) {
  PUMICE_TRY(std::shared_ptr<const Model> model, command::load_model(std::move(opened), device, options));
  return create(std::move(model), nullptr);
}

Result<std::unique_ptr<SpeechModel>> SpeechModel::create(std::shared_ptr<const Model> model,
                                                         std::shared_ptr<const Model> tower) {
  auto made = std::make_unique<SpeechModel>();
  PUMICE_TRY(SpeechSettings settings, read_speech_settings(model->file(), model->definition(), {}));
  made->tokenizer_ = std::move(settings.tokenizer);
  made->model_ = std::move(model);
  made->tower_ = std::move(tower);
  return made;
}

Result<SpeechModel::Heard> SpeechModel::hear(const std::string& sound, const std::string& name,
                                             const TranscriptionOptions& wish, bool segments,
                                             const std::string& options, Exchange& exchange,
                                             const Take& take) {
  const std::lock_guard lock(mutex_);
  if (exchange.gone()) return gone();
  if (!recognizer_ || options_ != options) {
    recognizer_.reset(); // its memory is free for the next one
    PUMICE_TRY(SpeechSettings settings,
               read_speech_settings(model_->file(), model_->definition(), wish, false, request_names));
    if (segments && settings.tokenizer && WhisperTokens::find(*settings.tokenizer).ok())
      settings.transcription.timestamps = true;
    PUMICE_TRY(recognizer_, SpeechRecognizer::create(model_, std::move(settings), tower_));
    options_ = options;
  }
  const uint32_t rate = recognizer_->settings().sample_rate;
  std::shared_ptr<AudioStream> stream;
  const auto open = [&]() -> Result<std::unique_ptr<SoundSource>> {
    PUMICE_TRY(stream, AudioStream::parse(sound, name, rate));
    return std::unique_ptr<SoundSource>(std::make_unique<RequestSound>(stream, rate, name));
  };
  PUMICE_TRY(std::unique_ptr<SoundSource> source, open());
  SoundLevel level;
  if (recognizer_->wants_level()) {
    std::vector<float> samples;
    do {
      if (exchange.gone()) return gone();
      samples.clear();
      PUMICE_CHECK(source->read(1 << 18, samples));
      level.add(samples);
    } while (!samples.empty());
    PUMICE_TRY(source, open());
  }
  std::string text;
  const auto on_window = [&](const TranscriptWindow& window) {
    for (const TranscriptSegment& each : window.segments) {
      const std::string piece = piece_of(each, recognizer_->settings(), text.empty());
      text += piece;
      if (!piece.empty()) take(piece);
    }
  };
  const auto work = [&]() -> Result<Heard> {
    PUMICE_CHECK(recognizer_->begin(std::move(source), level, on_window,
                                    [&](uint64_t, uint64_t) { return !exchange.gone(); }));
    const EndWithClient end(exchange, *recognizer_);
    PUMICE_TRY(Transcript transcript, recognizer_->run());
    return Heard{std::move(transcript), std::move(text), stream->seconds(), !stream->damage().empty(),
                 recognizer_->settings().has_text()};
  };
  Result<Heard> heard = work();
  if (!heard.ok()) recognizer_.reset();
  return heard;
}

Result<std::unique_ptr<VoiceModel>> VoiceModel::load(OpenedModel opened, const OpenedDevice& device,
                                                     const command::SizeOptions& size,
                                                     const std::map<std::string, std::string>& voices) {
  if (command::others() || !device.before.empty()) {
    return wrong_kind(opened.file.path(), opened.definition->shape(),
                      "it speaks with a codec beside it, which takes one device");
  }
  auto made = std::make_unique<VoiceModel>();
  PUMICE_TRY(OpenedModel codec, OpenedModel::open(usual_codec_path(opened.file)));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  SpeakerOptions options;
  options.size = command::session_size(size, opened.definition->shape());
  PUMICE_TRY(SpeakerSettings settings, read_speaker_settings(opened.file, *opened.definition, codec.file,
                                                             *codec.definition, tokenizer, options));
  for (const auto& [name, voice] : voices)
    PUMICE_CHECK(Voice::parse(voice, fmt::format("the voice '{}'", name), settings.codec));
  PUMICE_TRY(made->codec_, command::load_model(std::move(codec), device, {}));
  PUMICE_TRY(made->model_, command::load_model(std::move(opened), device, size.load, &size));
  PUMICE_TRY(made->speaker_, Speaker::create(made->model_, made->codec_, std::move(settings)));
  return made;
}

Result<Speaker::Figures> VoiceModel::speak(const std::string& text, const SpeakerOptions& wish,
                                           Exchange& exchange, Speaker::SamplesFunction take) {
  const std::lock_guard lock(mutex_);
  if (exchange.gone()) return gone();
  PUMICE_TRY(SpeakerSettings settings,
             read_speaker_settings(model_->file(), model_->definition(), codec_->file(), codec_->definition(),
                                   speaker_->settings().tokenizer, wish));
  speaker_->set(std::move(settings));
  PUMICE_CHECK(speaker_->begin(text, std::move(take)));
  const EndWithClient end(exchange, *speaker_);
  PUMICE_CHECK(speaker_->run());
  return speaker_->figures();
}

} // namespace pumice::serve
