#include <fmt/format.h>

#include "api/handles.h"
#include "api/tasks/creation.h"
#include "api/tasks/writing.h"
#include "api/tune.h"
#include "api/work.h"
#include "task/translation/translator.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_translator : pumice_work, Live<pumice_translator> {
  pumice_translator() : pumice_work("translator") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return translator->slice(request); }
  Status discard() override { return translator->discard(); }
  void cancel() override { translator->cancel(); }

  std::unique_ptr<Translator> translator;
  // What was handed out last.
  std::vector<HandedTexts> texts; // of the text, then of its sentences
  std::vector<pumice_sentence> sentences;
  pumice_translation translation = {};

  Status begin(const char* const* lines, size_t count);
  Status hand_out(size_t index);
};

Status pumice_translator::begin(const char* const* lines, size_t count) {
  PUMICE_CHECK(check_array(lines, count, sizeof *lines, "texts"));
  std::vector<Source> sources;
  for (size_t i = 0; i < count; ++i) {
    if (!lines[i]) return null_argument(fmt::format("texts[{}]", i).c_str());
    sources.push_back(translator->read(lines[i]));
  }
  return translator->begin(std::move(sources));
}

Status pumice_translator::hand_out(size_t index) {
  PUMICE_TRY(const std::span<const Source> sources, translator->sources());
  if (index >= sources.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("index is {}, and {} texts were translated", index, sources.size())};
  }
  PUMICE_TRY(Translation made, translator->translation(sources[index]));
  texts.clear();
  sentences.clear();
  texts.emplace_back(std::move(made.texts));
  for (std::vector<WrittenText>& each : made.sentences) texts.emplace_back(std::move(each));
  for (size_t i = 1; i < texts.size(); ++i)
    sentences.push_back({sources[index].sentences[i - 1].text.c_str(), texts[i].data(), texts[i].size()});
  translation = {texts[0].data(),  texts[0].size(),      sentences.data(),
                 sentences.size(), sources[index].cut(), sources[index].lacks_terms()};
  return {};
}

namespace {

Result<TranslatorOptions> read_options(const pumice_translator_options& options, const ModelShape& shape) {
  TranslatorOptions result;
  if (options.source_language) result.source_language = options.source_language;
  if (options.target_language) result.target_language = options.target_language;
  if (options.task) result.task = options.task;
  if (options.prefix) result.prefix = options.prefix;
  if (options.glossary) result.glossary = {options.glossary, "options.glossary"};
  result.sentences = options.sentences;
  if (options.alignment) result.alignment.emplace();
  result.special = Tokenizer::SpecialTokens::as_text;
  PUMICE_TRY(result.writing, read_writing(options.writing, shape));
  result.writing.input_tokens = options.input_tokens;
  return result;
}

Status check_translates(const pumice_model& model) {
  const ModelShape& shape = model.model->shape();
  const std::string& path = model.model->file().path();
  if (!shape.has_decoder() || !shape.encoder) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model of the architecture '{}' has no {}: a "
                             "translator needs both",
                             path, model.architecture, shape.encoder ? "decoder" : "encoder")};
  }
  if (shape.encoder->kind == InputKind::tokens) return {};
  const bool pictures = shape.encoder->kind == InputKind::pixels;
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' reads {}: use {}", path, model.architecture,
                           pictures ? "pictures" : "sounds",
                           pictures ? "pumice_captioner_create" : "pumice_transcriber_create")};
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_translator_options* asked) {
  PUMICE_TRY(const pumice_translator_options options, read(asked, "options"));
  PUMICE_CHECK(check_translates(model));
  PUMICE_CHECK(require_tokenizer(model.tokenizer.get(), *model.model));
  const ModelShape& shape = model.model->shape();
  PUMICE_TRY(const TranslatorOptions translator_options, read_options(options, shape));
  PUMICE_TRY(const TranslatorSettings settings,
             read_translator_settings(model.model->file(), shape, *model.tokenizer, translator_options));
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_translator>();
    PUMICE_TRY(handle->translator,
               Translator::create(current_model(model), model.tokenizer, settings, prepared(making)));
    created.translator = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_translator_create(pumice_model* model, const pumice_translator_options* options,
                                       pumice_translator** translator, pumice_error* error) {
  return create(model, options, translator, "translator", &pumice_created::translator, error);
}

void pumice_translator_destroy(pumice_translator* translator) {
  destroy_live(translator);
}

pumice_status pumice_translator_translate(pumice_translator* translator, const char* const* texts,
                                          size_t count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(translator);
    PUMICE_CHECK(translator->begin(texts, count));
    return translator->translator->run();
  });
}

pumice_status pumice_translator_result(pumice_translator* translator, size_t index,
                                       const pumice_translation** translation, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(translator);
    PUMICE_REQUIRE(translation);
    *translation = nullptr;
    PUMICE_CHECK(translator->hand_out(index));
    *translation = &translator->translation;
    return {};
  });
}

pumice_status pumice_translator_begin(pumice_translator* translator, const char* const* texts, size_t count,
                                      pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(translator);
    return translator->begin(texts, count);
  });
}

pumice_work* pumice_translator_work(pumice_translator* translator) {
  return is_live(translator) ? translator : nullptr;
}

} // extern "C"
