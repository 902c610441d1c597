#include <atomic>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/call.h"
#include "api/handles.h"
#include "api/input.h"
#include "generate/encoder_decoder.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_translator {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  EncoderDecoderOptions options;
  GenerationOptions generation;
  std::string before;                     // that the model wants before each text
  std::unique_ptr<EncoderDecoder> writer; // none after an error from the device, until the next call
  std::atomic<bool> cancelled = false;

  Status make() {
    PUMICE_TRY(writer, EncoderDecoder::create(model, options));
    return {};
  }
  Result<std::string> translate(const pumice_input& given, const char* name);
};

Result<std::string> pumice_translator::translate(const pumice_input& given, const char* name) {
  if (!writer) PUMICE_CHECK(make());
  const InputReader reader{*model, tokenizer.get(), writer->encoder().longest(), false, before};
  PUMICE_TRY(const EncoderInput input, read_input(given, reader, name));
  if (input.tokens.empty() && input.values.empty()) return std::string();
  const auto texts = writer->generate(std::span(&input, 1), generation);
  if (!texts.ok()) {
    const Code code = texts.error().code;
    if (code != Code::cancelled && code != Code::invalid_argument) writer.reset();
    return texts.error();
  }
  return (*texts)[0].empty() ? std::string() : tokenizer->decode((*texts)[0][0].tokens, false);
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
    handle->model = model->model;
    handle->tokenizer = model->tokenizer;
    GenerationConfig& config = handle->generation.config;
    PUMICE_TRY(config, read_generation_config(file, model->model->shape().vocabulary));
    if (given.beams) config.beams = given.beams;
    handle->options.beams = config.beams;
    handle->options.input_tokens = given.input_tokens;
    handle->options.output_tokens = given.output_tokens;
    const nlohmann::json* prefix = file.fields().find("prefix");
    if (prefix && prefix->is_string()) handle->before = prefix->get<std::string>();
    if (given.before) handle->before = given.before;
    handle->generation.interrupt = &handle->cancelled;
    PUMICE_CHECK(handle->make());
    *translator = handle.release();
    return {};
  });
}

void pumice_translator_destroy(pumice_translator* translator) {
  delete translator;
}

pumice_status pumice_translate(pumice_translator* translator, const char* text, char* translation,
                               size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_REQUIRE(text);
    PUMICE_CHECK(check_array(translation, capacity, 1, "translation"));
    translator->cancelled = false;
    pumice_input input = {sizeof input};
    input.text = text;
    PUMICE_TRY(const std::string result, translator->translate(input, "text"));
    hand_out(result, translation, capacity, count);
    return {};
  });
}

pumice_status pumice_translate_input(pumice_translator* translator, const pumice_input* input,
                                     char* translation, size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(translator);
    PUMICE_REQUIRE(input);
    PUMICE_CHECK(check_array(translation, capacity, 1, "translation"));
    translator->cancelled = false;
    PUMICE_TRY(const pumice_input given, read(input, "input"));
    PUMICE_TRY(const std::string result, translator->translate(given, "input"));
    hand_out(result, translation, capacity, count);
    return {};
  });
}

void pumice_translator_cancel(pumice_translator* translator) {
  if (translator) translator->cancelled = true;
}

} // extern "C"
