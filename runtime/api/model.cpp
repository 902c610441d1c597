#include <fmt/format.h>

#include "api/call.h"
#include "api/load.h"
#include "model/vocabulary.h"

using namespace pumice;
using namespace pumice::api;

Result<std::unique_ptr<pumice_model>> pumice::api::load_model(const pumice_device& device,
                                                              const pumice_source* source,
                                                              const pumice_load_options& given,
                                                              const Progress& progress) {
  PUMICE_TRY(const LoadOptions options, read_load_options(given));
  // A callback is read completely before the upload, so its bytes count in addition to those of the upload.
  uint64_t read_bytes = 0;
  const Progress reading = [&](uint64_t done, uint64_t total) {
    read_bytes = total;
    return progress(done, 2 * total);
  };
  const Progress uploading = [&](uint64_t done, uint64_t total) {
    return progress(read_bytes + done, read_bytes + total);
  };
  PUMICE_TRY(ModelFile file, open_source(source, reading, false));
  auto handle = std::make_unique<pumice_model>();
  PUMICE_TRY(handle->model, Model::load(std::move(file), device.context, uploading, options));
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(handle->model->file());
  if (tokenizer.ok()) {
    handle->tokenizer = *tokenizer;
  } else if (tokenizer.error().code != Code::not_found) {
    return tokenizer.error();
  }
  handle->architecture = handle->model->file().architecture();
  save_pipelines(device.context, *device.log);
  return handle;
}

extern "C" {

pumice_status pumice_model_load(pumice_device* device, const pumice_source* source,
                                const pumice_load_options* options, pumice_model** model,
                                pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    PUMICE_REQUIRE(model);
    *model = nullptr;
    PUMICE_TRY(const pumice_load_options given, read(options, "options"));
    const Progress progress = [&given](uint64_t done, uint64_t total) {
      return !given.progress || given.progress(given.user, done, total);
    };
    PUMICE_TRY(std::unique_ptr<pumice_model> loaded, load_model(*device, source, given, progress));
    *model = loaded.release();
    return {};
  });
}

void pumice_model_destroy(pumice_model* model) {
  delete model;
}

pumice_status pumice_model_get_info(const pumice_model* model, pumice_model_info* info, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(info);
    const ModelShape& shape = model->model->shape();
    pumice_model_info own = {sizeof own};
    own.architecture = model->architecture.c_str();
    own.has_decoder = shape.has_decoder();
    own.has_encoder = shape.encoder.has_value();
    own.has_tokenizer = model->tokenizer != nullptr;
    own.vocabulary = shape.has_decoder() ? shape.vocabulary : shape.encoder->vocabulary;
    own.context = shape.has_decoder() ? shape.context : 0;
    if (shape.encoder) {
      own.input_context = shape.encoder->context;
      own.input_values =
          shape.encoder->kind == InputKind::tokens ? 0 : static_cast<uint32_t>(shape.encoder->input_values());
    }
    own.weight_bytes = model->model->weight_bytes();
    return write(own, info, "info");
  });
}

pumice_status pumice_tokenize(const pumice_model* model, const char* text, bool add_special, uint32_t* tokens,
                              size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const Tokenizer* tokenizer, require_tokenizer(model->tokenizer, *model->model));
    const std::vector<uint32_t> ids = tokenizer->encode(text, add_special);
    hand_out(ids.data(), ids.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_detokenize(const pumice_model* model, const uint32_t* tokens, size_t token_count,
                                char* text, size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(tokens || token_count == 0);
    PUMICE_TRY(const Tokenizer* tokenizer, require_tokenizer(model->tokenizer, *model->model));
    hand_out(tokenizer->decode({tokens, token_count}, false), text, capacity, count);
    return {};
  });
}

} // extern "C"
