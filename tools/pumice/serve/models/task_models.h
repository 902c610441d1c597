#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "loading/open_device.h"
#include "options/options.h"
#include "serve/http/exchange.h"
#include "task/captioner.h"
#include "task/classifier.h"
#include "task/spans/tagger.h"
#include "task/speaking/speaker.h"
#include "task/speech_recognizer.h"
#include "task/translation/translator.h"

// Models of tasks that do not run in a batch: each answers one request at a time. What a task was set up with
// is kept for the next request with the same `options`, which is any text that says what they are.
namespace pumice::serve {

// What requests call the options that errors name.
inline constexpr OptionNames request_names = {
    .source_language = "field 'source'",
    .target_language = "field 'target'",
    .task = "field 'task'",
    .glossary = "field 'glossary'",
    .prompt = "field 'prompt'",
    .beams = "field 'beams'",
    .n_best = "field 'n_best'",
    .temperature = "the temperature",
    .language = "field 'language'",
    .detect_language = "the language",
    .of_words = "field 'language', prompt, translations and the granularity word",
    .of_windows = "field 'prompt', translations, times and the granularity word"};

class TranslationModel {
public:
  static Result<std::unique_ptr<TranslationModel>>
  load(OpenedModel opened, const command::OpenedDevice& device, const LoadOptions& options);

  // Receives what was made of each text, in order.
  using Take = std::function<void(const Source&, const Translation&, const GenerationOptions&)>;
  Status translate(const std::vector<std::string>& texts, const TranslatorOptions& wish,
                   const std::string& options, Exchange& exchange, const Take& take);
  const Tokenizer& tokenizer() const { return *tokenizer_; }

private:
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::string options_;
  std::unique_ptr<Translator> translator_;
};

// Labels of texts or pictures, or of the parts of texts.
class ClassModel {
public:
  static Result<std::unique_ptr<ClassModel>> load(ModelFile file, const command::OpenedDevice& device,
                                                  const LoadOptions& options);
  // Of a model of texts and pictures in one space, which reads its `texts`: each request has labels.
  static Result<std::unique_ptr<ClassModel>> of_space(std::shared_ptr<const Model> texts,
                                                      const command::OpenedDevice& device,
                                                      const LoadOptions& options);

  bool of_parts() const { return tagger_ != nullptr; }
  bool takes_labels() const { return texts_ != nullptr; }
  bool of_pictures() const {
    return takes_labels() || (classifier_ && classifier_->runner().source().reads_pictures());
  }
  const Tokenizer* tokenizer() const;                                              // null: of pictures
  const std::vector<std::string>& labels() const { return classifier_->labels(); } // its own
  bool has_probabilities() const { return takes_labels() || classifier_->scoring() != Scoring::raw; }

  struct Input {
    std::string text, name; // in errors
    std::optional<Image> picture;
  };
  // The score of each label, of each input; `tokens` counts those that were read. `options`: with the labels
  // of a request that has some.
  Result<std::vector<std::vector<float>>> scores(const std::vector<Input>& inputs,
                                                 const ClassifierOptions& options, const Progress& progress,
                                                 uint64_t& tokens);
  // Of each text.
  Result<std::vector<std::vector<TextSpan>>> spans(const std::vector<Input>& texts, const Progress& progress,
                                                   uint64_t& tokens);

private:
  Status set_labels(const ClassifierOptions& options);

  std::unique_ptr<Classifier> classifier_; // or
  std::unique_ptr<Tagger> tagger_;
  std::mutex mutex_;
  std::shared_ptr<const Model> texts_, pictures_; // with labels of requests, the last of which were:
  ClassifierOptions options_;
};

// An encoder of pictures with a decoder.
class CaptionModel {
public:
  static Result<std::unique_ptr<CaptionModel>> load(OpenedModel opened, const command::OpenedDevice& device,
                                                    const LoadOptions& options);

  struct Picture {
    Image image;
    std::string name; // in errors
  };
  using Take = std::function<void(std::span<const WrittenText>, const GenerationOptions&)>;
  Status describe(const std::vector<Picture>& pictures, const CaptionerOptions& wish,
                  const std::string& options, Exchange& exchange, const Take& take);
  const Tokenizer& tokenizer() const { return *tokenizer_; }

private:
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::string options_;
  std::unique_ptr<Captioner> captioner_;
};

class SpeechModel {
public:
  static Result<std::unique_ptr<SpeechModel>> load(OpenedModel opened, const command::OpenedDevice& device,
                                                   const LoadOptions& options);
  // `tower`: of a decoder that hears; otherwise null.
  static Result<std::unique_ptr<SpeechModel>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Model> tower);

  struct Heard {
    Transcript transcript;
    std::string text; // of all its segments
    double seconds = 0;
    bool partial = false; // the sound is damaged: what can be read was transcribed
    bool has_text = true;
  };
  // Receives the text piece by piece, which together are that of the result.
  using Take = std::function<void(const std::string& piece)>;
  // `sound`: a file's bytes, which `name` names in errors. `segments`: with their times where the model can
  // tell them, and not only of sounds that are longer than a window.
  Result<Heard> hear(const std::string& sound, const std::string& name, const TranscriptionOptions& wish,
                     bool segments, const std::string& options, Exchange& exchange, const Take& take);
  const Tokenizer* tokenizer() const { return tokenizer_.get(); } // null: it hears letters

private:
  std::shared_ptr<const Model> model_, tower_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::string options_;
  std::unique_ptr<SpeechRecognizer> recognizer_;
};

// A decoder that writes codes of a sound, with the codec that makes it.
class VoiceModel {
public:
  // `voices`: profiles by the names that requests have, which have to fit it.
  static Result<std::unique_ptr<VoiceModel>> load(OpenedModel opened, const command::OpenedDevice& device,
                                                  const command::SizeOptions& size,
                                                  const std::map<std::string, std::string>& voices);

  uint32_t sample_rate() const { return speaker_->sample_rate(); }
  const Tokenizer& tokenizer() const { return *speaker_->settings().tokenizer; }
  uint32_t vocabulary() const { return model_->shape().vocabulary; }
  // Hands on the samples as they come. One request at a time.
  Result<Speaker::Figures> speak(const std::string& text, const SpeakerOptions& wish, Exchange& exchange,
                                 Speaker::SamplesFunction take);

private:
  std::shared_ptr<const Model> model_, codec_;
  std::mutex mutex_;
  std::unique_ptr<Speaker> speaker_;
};

} // namespace pumice::serve
