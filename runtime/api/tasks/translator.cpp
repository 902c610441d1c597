#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/handles.h"
#include "api/input.h"
#include "api/tune.h"
#include "api/work.h"
#include "generate/resumable_generation.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_translator : pumice_work {
  pumice_translator() : pumice_work("translator") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return generation->slice(request); }
  Status discard() override { return generation->discard(); }
  void cancel() override { generation->cancel(); }

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerationOptions options;
  std::string before; // that the model wants before each text
  std::unique_ptr<ResumableGeneration> generation;

  Status begin(const pumice_input& given, const char* name);
  Result<std::string> translate(const pumice_input& given, const char* name);
  Result<std::string> translation();
};

Status pumice_translator::begin(const pumice_input& given, const char* name) {
  PUMICE_CHECK(generation->ready());
  const InputReader reader{*model, tokenizer.get(), generation->session().encoder().longest(), false, before};
  PUMICE_TRY(EncoderInput input, read_input(given, reader, name));
  PUMICE_CHECK(generation->stop());
  std::vector<EncoderInput> inputs;
  if (!input.tokens.empty() || !input.values.empty()) inputs.push_back(std::move(input));
  return generation->start(std::move(inputs), options);
}

Result<std::string> pumice_translator::translate(const pumice_input& given, const char* name) {
  PUMICE_CHECK(begin(given, name));
  PUMICE_CHECK(generation->run());
  return translation();
}

Result<std::string> pumice_translator::translation() {
  PUMICE_TRY(const std::span<const std::vector<Hypothesis>> texts, generation->texts());
  if (texts.empty() || texts[0].empty()) return std::string(); // of nothing
  return tokenizer->decode(texts[0][0].tokens, false);
}

extern "C" {

pumice_status pumice_translator_create(pumice_model* model, const pumice_translator_options* options,
                                       pumice_translator** translator, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(translator);
    *translator = nullptr;
    PUMICE_TRY(const pumice_translator_options given, read(options, "options"));
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    const ModelFile& file = model->model->file();
    if (!model->model->shape().has_decoder() || !model->model->shape().encoder) {
      return Error{Code::unsupported,
                   fmt::format("{}: a model of the architecture '{}' has no {}: a translator needs both",
                               file.path(), model->architecture,
                               model->model->shape().encoder ? "decoder" : "encoder")};
    }
    PUMICE_CHECK(check_beams(given.beams));
    auto handle = std::make_unique<pumice_translator>();
    handle->model = current_model(*model);
    handle->tokenizer = model->tokenizer;
    GenerationConfig& config = handle->options.config;
    PUMICE_TRY(config, read_generation_config(file, model->model->shape().vocabulary));
    if (given.beams) config.beams = given.beams;
    EncoderDecoderOptions session;
    session.beams = config.beams;
    session.input_tokens = given.input_tokens;
    session.output_tokens = given.output_tokens;
    const nlohmann::json* prefix = file.fields().find("prefix");
    if (prefix && prefix->is_string()) handle->before = prefix->get<std::string>();
    if (given.before) handle->before = given.before;
    PUMICE_TRY(handle->generation, ResumableGeneration::create(handle->model, session, &handle->options));
    *translator = handle.release();
    return {};
  });
}

void pumice_translator_destroy(pumice_translator* translator) {
  delete translator;
}

pumice_status pumice_translator_translate(pumice_translator* translator, const char* text, char* translation,
                                          size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_REQUIRE(text);
    PUMICE_CHECK(check_array(translation, capacity, 1, "translation"));
    pumice_input input = {sizeof input};
    input.text = text;
    PUMICE_TRY(const std::string result, translator->translate(input, "text"));
    hand_out(result, translation, capacity, count);
    return {};
  });
}

pumice_status pumice_translator_translate_input(pumice_translator* translator, const pumice_input* input,
                                                char* translation, size_t capacity, size_t* count,
                                                pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_REQUIRE(input);
    PUMICE_CHECK(check_array(translation, capacity, 1, "translation"));
    PUMICE_TRY(const pumice_input given, read(input, "input"));
    PUMICE_TRY(const std::string result, translator->translate(given, "input"));
    hand_out(result, translation, capacity, count);
    return {};
  });
}

pumice_status pumice_translator_begin(pumice_translator* translator, const pumice_input* input,
                                      pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_REQUIRE(input);
    PUMICE_TRY(const pumice_input given, read(input, "input"));
    return translator->begin(given, "input");
  });
}

pumice_status pumice_translator_read(pumice_translator* translator, char* translation, size_t capacity,
                                     size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_CHECK(check_array(translation, capacity, 1, "translation"));
    PUMICE_TRY(const std::string result, translator->translation());
    hand_out(result, translation, capacity, count);
    return {};
  });
}

pumice_work* pumice_translator_work(pumice_translator* translator) {
  return translator;
}

} // extern "C"
