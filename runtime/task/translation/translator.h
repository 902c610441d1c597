#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/resumable_generation.h"
#include "task/translation/alignment.h"
#include "task/translation/document.h"
#include "task/translation/glossary.h"
#include "task/translation/languages.h"

namespace pumice {

// Which attention links words. Defaults: that of alignment_layer(), and the mean of its heads.
struct AlignmentOptions {
  std::optional<uint32_t> layer, head;
};

struct TranslatorOptions {
  // See TranslationLanguages::choose.
  std::string source_language, target_language;
  std::string task;                  // that the model's settings define, as T5's do; empty: none
  std::optional<std::string> prefix; // before each text; none: the task's, or the settings'
  bool sentences = false;            // each is translated by itself, and the translations are joined
  std::optional<GlossaryText> glossary;
  std::optional<AlignmentOptions> alignment; // none: words are not linked
  // Of the texts; the prefix's always become tokens.
  Tokenizer::SpecialTokens special = Tokenizer::SpecialTokens::recognised;
  WritingOptions writing;
};

// What a translator does, by its options and the model's files. Known before the model is loaded.
struct TranslatorSettings {
  GenerationOptions generation;
  EncoderDecoderOptions session;
  std::string prefix;
  TranslationLanguages languages;
  std::optional<Glossary> glossary;
  uint32_t longest = 0; // most tokens of a text
  bool sentences = false;
  std::optional<AlignmentOptions> alignment;
  Tokenizer::SpecialTokens special = Tokenizer::SpecialTokens::recognised;
};

// `shape`: of a model with an encoder of tokens and a decoder. Errors: invalid_argument if the model needs a
// language that is not given, or for options that do not go together; not_found for a task or a language that
// the model does not have.
Result<TranslatorSettings> read_translator_settings(const ModelFile& file, const ModelShape& shape,
                                                    const Tokenizer& tokenizer,
                                                    const TranslatorOptions& options,
                                                    const OptionNames& names = {});

struct Translation {
  std::vector<WrittenText> texts; // best first
  // Of each sentence of the source, where sentences are translated by themselves.
  std::vector<std::vector<WrittenText>> sentences;
};

struct TranslationCallbacks {
  // Called for each text, in order, when it and those before it have their translations.
  std::function<void(size_t index, const Source& source)> on_text;
  // Called for each token, if there is one sentence alone, and one beam.
  std::function<void(uint32_t token)> on_token;
};

// Translates texts, several at a time, in slices of time or all at once, with the same result. Used by one
// thread at a time, except cancel().
class Translator : public Work {
public:
  static Result<std::unique_ptr<Translator>> create(std::shared_ptr<const Model> model,
                                                    std::shared_ptr<const Tokenizer> tokenizer,
                                                    TranslatorSettings settings, const Making& making = {});

  const TranslatorSettings& settings() const { return settings_; }

  // A text as the model reads it.
  Source read(const std::string& text) const;

  // Takes texts, and computes nothing yet. Ends what is under way.
  Status begin(std::vector<Source> sources, TranslationCallbacks callbacks = {});
  // Translates to the end; or in slices.
  Status run();
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return generation_->discard(); }
  void cancel() override { generation_->cancel(); }

  // The texts of begin(), of which some may be answered, not only the first ones.
  std::span<const Source> begun() const { return sources_; }
  // The texts of begin(). `not_ready` if they are not translated.
  Result<std::span<const Source>> sources();
  // What was made of a text that was answered. Linking words takes another pass of the model, at once.
  Result<Translation> translation(const Source& source);

private:
  Translator(std::shared_ptr<const Tokenizer> tokenizer, TranslatorSettings settings)
      : tokenizer_(std::move(tokenizer)), settings_(std::move(settings)) {}
  // A sentence of the texts that are translated.
  struct Asked {
    size_t source = 0, sentence = 0;
  };
  static std::vector<Asked> by_length(std::span<const Source> sources);
  void take(const Asked& asked, std::span<const Term> terms, const std::vector<Hypothesis>& texts);
  void report();
  Status align(const Source& source, std::vector<WrittenText>& texts);

  std::shared_ptr<const Tokenizer> tokenizer_;
  const TranslatorSettings settings_;
  std::unique_ptr<ResumableGeneration> generation_;
  std::optional<Aligner> aligner_;
  // Of the last begin().
  std::vector<Source> sources_;
  TranslationCallbacks callbacks_;
  size_t reported_ = 0; // texts
};

} // namespace pumice
