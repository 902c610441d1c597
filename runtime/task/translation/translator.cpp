#include "task/translation/translator.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace pumice {

namespace {

// Enough that texts with and without the terms grow side by side, if no number of beams was asked for.
constexpr uint32_t beams_for_terms = 8;

Error no_such_task(const ModelFile& file, const std::string& task, const OptionNames& names) {
  std::vector<std::string> tasks;
  if (const nlohmann::json* all = file.fields().find("task_specific_params")) {
    for (const auto& [name, value] : all->items()) tasks.push_back(name);
  }
  return {Code::not_found, tasks.empty()
                               ? fmt::format("{0} {1}: the settings of {2} define no tasks: leave {0} out",
                                             names.task, task, file.path())
                               : fmt::format("{} {}: {} has no such task; its tasks are {}", names.task, task,
                                             file.path(), fmt::join(tasks, ", "))};
}

// The prefix of each text, which T5 models expect. Also applies the other settings of the task to `config`.
Result<std::string> read_prefix(const ModelFile& file, const TranslatorOptions& options,
                                const OptionNames& names, GenerationConfig& config) {
  const Fields fields = file.fields();
  PUMICE_TRY(const Fields tasks, fields.object_or_empty("task_specific_params"));
  if (options.task.empty()) {
    const nlohmann::json* found = fields.find("prefix");
    return options.prefix ? *options.prefix : found && found->is_string() ? found->get<std::string>() : "";
  }
  if (!tasks.has(options.task)) return no_such_task(file, options.task, names);
  PUMICE_TRY(const Fields task, tasks.object(options.task));
  PUMICE_TRY(config.beams, task.u32_or("num_beams", 1, 1024, config.beams));
  PUMICE_TRY(config.length_penalty, task.f32_or("length_penalty", config.length_penalty));
  PUMICE_TRY(config.no_repeat_ngram, task.u32_or("no_repeat_ngram_size", config.no_repeat_ngram));
  PUMICE_TRY(const bool early,
             task.boolean_or("early_stopping", config.early_stopping == EarlyStopping::yes));
  if (task.has("early_stopping")) config.early_stopping = early ? EarlyStopping::yes : EarlyStopping::no;
  // In the settings, lengths include the decoder's prompt.
  const auto begun = static_cast<uint32_t>(config.prompt.size());
  PUMICE_TRY(const uint32_t longest, task.u32_or("max_length", config.max_tokens + begun));
  PUMICE_TRY(const uint32_t shortest, task.u32_or("min_length", config.min_tokens + begun));
  config.max_tokens = longest - std::min(longest, begun);
  config.min_tokens = shortest - std::min(shortest, begun);
  PUMICE_TRY(const std::string prefix, task.string_or("prefix", ""));
  return options.prefix.value_or(prefix);
}

// Most tokens of a text.
uint32_t longest_text(const WritingOptions& options, const EncoderShape& shape) {
  const uint32_t most = shape.any_length ? std::max(shape.context, options.batch_tokens) : shape.context;
  return options.input_tokens ? std::min(options.input_tokens, most) : most;
}

} // namespace

Result<TranslatorSettings> read_translator_settings(const ModelFile& file, const ModelShape& shape,
                                                    const Tokenizer& tokenizer,
                                                    const TranslatorOptions& options,
                                                    const OptionNames& names) {
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(std::string prefix, read_prefix(file, options, names, config));
  PUMICE_TRY(TranslationLanguages languages,
             TranslationLanguages::choose(options.source_language, options.target_language, tokenizer,
                                          shape.vocabulary, config, names));
  if (options.glossary) config.beams = std::max(config.beams, beams_for_terms);
  PUMICE_TRY(GenerationOptions generation, generation_options(options.writing, std::move(config), names));
  std::optional<Glossary> glossary;
  if (options.glossary) {
    if (generation.config.beams < 2) {
      return Error{Code::invalid_argument,
                   fmt::format("{} finds a place for its terms with beams: leave {} and {} 1 out, or ask "
                               "for at least {} 2",
                               names.glossary, names.temperature, names.beams, names.beams)};
    }
    PUMICE_TRY(glossary, Glossary::read(*options.glossary, tokenizer, shape.vocabulary));
  }
  const uint32_t longest = longest_text(options.writing, *shape.encoder);
  const EncoderDecoderOptions session = writer_options(options.writing, generation.config, shape, longest);
  return TranslatorSettings{std::move(generation), session, std::move(prefix), std::move(languages),
                            std::move(glossary),   longest, options.sentences, options.alignment,
                            options.special};
}

Result<std::unique_ptr<Translator>> Translator::create(std::shared_ptr<const Model> model,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       TranslatorSettings settings, const Making& making) {
  std::unique_ptr<Translator> translator(new Translator(std::move(tokenizer), std::move(settings)));
  const TranslatorSettings& kept_settings = translator->settings_;
  if (kept_settings.alignment) {
    const uint32_t layer = kept_settings.alignment->layer.value_or(alignment_layer(model->shape()));
    translator->aligner_.emplace(model, translator->tokenizer_, layer, kept_settings.alignment->head,
                                 kept_settings.generation.config.prompt, count_words(kept_settings.prefix));
    if (making.prepared && making.all) PUMICE_CHECK(translator->aligner_->prepare(making));
  }
  EncoderDecoderOptions session = kept_settings.session;
  if (making.chunk)
    session.input_tokens = std::max(kept_settings.longest, std::min(making.chunk, session.input_tokens));
  GenerationOptions usual = kept_settings.generation;
  if (kept_settings.glossary) usual.terms.emplace_back();
  PUMICE_TRY(translator->generation_, ResumableGeneration::create(std::move(model), session, usual, making));
  return translator;
}

Source Translator::read(const std::string& text) const {
  Source source{text, sentences_of(text, settings_.sentences)};
  for (Sentence& sentence : source.sentences) {
    const Tokenizer::Part both[] = {{settings_.prefix}, {sentence.text, settings_.special}};
    const std::span parts = std::span(both).subspan(settings_.prefix.empty() ? 1 : 0);
    std::vector<uint32_t>& tokens = sentence.input.tokens;
    tokens = tokenizer_->encode(parts, true);
    sentence.length = tokens.size();
    sentence.cut = tokens.size() > settings_.longest;
    if (sentence.cut) tokens = tokenizer_->encode_limited(parts, settings_.longest).ids;
    settings_.languages.mark(tokens, settings_.longest);
  }
  std::erase_if(source.sentences, [](const Sentence& each) { return each.input.tokens.empty(); });
  return source;
}

// All sentences, the shortest first, so that those that run together end together.
std::vector<Translator::Asked> Translator::by_length(std::span<const Source> sources) {
  std::vector<Asked> asked;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (size_t j = 0; j < sources[i].sentences.size(); ++j) asked.push_back({i, j});
  }
  std::ranges::stable_sort(asked, {}, [&](const Asked& each) {
    return sources[each.source].sentences[each.sentence].input.tokens.size();
  });
  return asked;
}

Status Translator::begin(std::vector<Source> sources, TranslationCallbacks callbacks) {
  PUMICE_CHECK(generation_->stop());
  sources_ = std::move(sources);
  callbacks_ = std::move(callbacks);
  reported_ = 0;
  const std::vector<Asked> asked = by_length(sources_);
  std::vector<EncoderInput> inputs;
  GenerationOptions generation = settings_.generation;
  for (const Asked& each : asked) {
    const Sentence& sentence = sources_[each.source].sentences[each.sentence];
    inputs.push_back(sentence.input);
    if (settings_.glossary) generation.terms.push_back(settings_.glossary->terms_in(sentence.text));
  }
  if (callbacks_.on_token && inputs.size() == 1) {
    generation.on_token = [this](size_t, uint32_t token) { callbacks_.on_token(token); };
  }
  generation.on_texts = [this, asked, terms = generation.terms](size_t input,
                                                                const std::vector<Hypothesis>& texts) {
    take(asked[input], terms.empty() ? std::span<const Term>() : terms[input], texts);
  };
  return generation_->start(std::move(inputs), std::move(generation));
}

void Translator::take(const Asked& asked, std::span<const Term> terms, const std::vector<Hypothesis>& texts) {
  Sentence& sentence = sources_[asked.source].sentences[asked.sentence];
  sentence.written = texts;
  sentence.lacks_terms = !term_state(terms, texts.front().tokens).complete;
  report();
}

void Translator::report() {
  for (; reported_ < sources_.size() && sources_[reported_].answered(); ++reported_) {
    if (callbacks_.on_text) callbacks_.on_text(reported_, sources_[reported_]);
  }
}

Status Translator::run() {
  PUMICE_CHECK(generation_->run());
  report();
  return {};
}

Result<SliceResult> Translator::slice(const SliceRequest& request) {
  PUMICE_TRY(const SliceResult result, generation_->slice(request));
  if (!result.active) report(); // blank texts at the end are answered by nothing else
  return result;
}

Result<std::span<const Source>> Translator::sources() {
  PUMICE_CHECK(generation_->texts());
  return std::span<const Source>(sources_);
}

Result<Translation> Translator::translation(const Source& source) {
  const GenerationConfig& config = settings_.generation.config;
  Translation result{joined(source, config, *tokenizer_), {}};
  if (aligner_) PUMICE_CHECK(align(source, result.texts));
  for (const Sentence& each : source.sentences) {
    if (settings_.sentences) result.sentences.push_back(written_texts(each.written, config, *tokenizer_));
  }
  return result;
}

// Links the words of a text's translations to its own.
Status Translator::align(const Source& source, std::vector<WrittenText>& texts) {
  for (size_t n = 0; n < texts.size(); ++n) {
    std::vector<WordLink>& links = texts[n].links.emplace();
    uint32_t source_words = 0, words = 0;
    for (const Sentence& sentence : source.sentences) {
      const Hypothesis& written = sentence.written[n];
      PUMICE_TRY(const std::vector<WordLink> sentence_links, aligner_->align(sentence.input, written.tokens));
      for (const auto& [from, to] : sentence_links) links.emplace_back(source_words + from, words + to);
      source_words += count_words(sentence.text);
      words += count_words(written_text(written, settings_.generation.config, *tokenizer_).text);
    }
  }
  return {};
}

} // namespace pumice
