#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "api/background.h"
#include "api/call.h"
#include "api/load.h"
#include "api/tune.h"
#include "kernel/probe/probe.h"
#include "model/vocabulary.h"

using namespace pumice;
using namespace pumice::api;

namespace {

struct Loading {
  const pumice_device& device;
  ModelSource source;
  std::optional<double> tune_seconds; // nothing: no kernel is tried
};

// Loads what one pass over the source gives.
Result<std::shared_ptr<const Model>> load_part(const Loading& loading, const LoadOptions& options,
                                               const Progress& progress) {
  // A callback is read completely before the upload, so its bytes count in addition to those of the upload.
  uint64_t read_bytes = 0;
  const Progress reading = [&](uint64_t done, uint64_t total) {
    read_bytes = total;
    return progress(done, 2 * total);
  };
  uint64_t all_bytes = 0;
  const Progress uploading = [&](uint64_t done, uint64_t total) {
    all_bytes = read_bytes + total;
    return progress(read_bytes + done, all_bytes);
  };
  const Log& log = *loading.device.log;
  const KernelTrials trials = load_trials(loading.tune_seconds.value_or(0), options.threads, log,
                                          [&] { return progress(all_bytes, all_bytes); });
  PUMICE_TRY(ModelFile file, loading.source.open(options.tower, reading, false));
  DeviceContext context = loading.device.context;
  context.profile = with_tuning_results(context.profile, *context.pipelines);
  PUMICE_TRY(std::shared_ptr<const Model> planned, Model::plan(std::move(file), std::move(context), options));
  return pumice::load_model(std::move(planned), uploading, loading.tune_seconds ? &trials : nullptr);
}

// Loads a model and the encoder of its pictures, one after the other.
Status load_with_tower(const Loading& loading, const LoadOptions& options, const Progress& progress,
                       pumice_model& handle) {
  PUMICE_TRY(const std::shared_ptr<const Model> planned,
             plan_tower(loading.source, options, loading.device.context));
  uint64_t before = 0;
  const Progress first = [&](uint64_t done, uint64_t total) {
    before = total;
    return progress(done, total + planned->weight_bytes());
  };
  const Progress second = [&](uint64_t done, uint64_t total) {
    return progress(before + done, before + total);
  };
  PUMICE_TRY(handle.model, load_part(loading, options, first));
  PUMICE_TRY(handle.tower, load_part(loading, tower_options(options), second));
  return {};
}

} // namespace

LoadOptions pumice::api::tower_options(LoadOptions options) {
  options.tower = Tower::pictures;
  options.text_reader = false;
  options.readable.clear();
  return options;
}

Result<std::shared_ptr<const Model>>
pumice::api::plan_tower(const ModelSource& source, const LoadOptions& options, const DeviceContext& context) {
  PUMICE_TRY(const ModelFile file, source.open(Tower::main, {}, true));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> main, open_model_definition(file));
  if (!main->shape().pictures && !main->shape().shared_space) {
    return Error{
        Code::unsupported,
        fmt::format("{}: options.vision is set, and the model reads text only: choose one that sees, "
                    "such as LLaVA, or set options.mmproj",
                    file.path())};
  }
  PUMICE_TRY(ModelFile tower, source.open(Tower::pictures, {}, true));
  return Model::plan(std::move(tower), context, tower_options(options));
}

Result<std::unique_ptr<pumice_model>> pumice::api::load_model(const pumice_device& device,
                                                              const pumice_source* source,
                                                              const pumice_load_options& options,
                                                              const StageList& stages,
                                                              const Progress& progress) {
  PUMICE_TRY(const LoadOptions load_options, read_load_options(options));
  PUMICE_TRY(const std::optional<double> tune_seconds,
             load_tune_seconds(options.tune_seconds, *device.context.pipelines));
  const Loading loading{device, {source, options.mmproj}, tune_seconds};
  auto handle = std::make_unique<pumice_model>();
  if (!stages.devices.empty()) {
    PUMICE_TRY(handle->model, load_stages(stages, source, load_options, progress));
  } else if (options.vision) {
    PUMICE_CHECK(load_with_tower(loading, load_options, progress, *handle));
  } else {
    PUMICE_TRY(handle->model, load_part(loading, load_options, progress));
  }
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(handle->model->file());
  if (tokenizer.ok()) {
    handle->tokenizer = *tokenizer;
    handle->forms = std::make_shared<LazyFormVocabulary>(*tokenizer);
  } else if (tokenizer.error().code != Code::not_found) {
    return tokenizer.error();
  }
  handle->ends = end_tokens(handle->model->file(), handle->tokenizer.get());
  handle->architecture = handle->model->file().architecture();
  handle->log = device.log;
  save_pipelines(device.context, *device.log);
  return handle;
}

Status pumice::api::check_decoder(const pumice_model& model, const char* user) {
  const ModelShape& shape = model.model->shape();
  if (shape.has_decoder() && !shape.encoder) return {};
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' has {}: {} needs a decoder alone",
                           model.model->file().path(), model.architecture,
                           shape.has_decoder() ? "an encoder beside its decoder" : "no decoder", user)};
}

extern "C" {

pumice_status pumice_model_load(pumice_device* device, const pumice_source* source,
                                const pumice_load_options* caller_options, pumice_model** model,
                                pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(model);
    *model = nullptr;
    PUMICE_TRY(const pumice_load_options options, read(caller_options, "options"));
    PUMICE_TRY(const StageList stages, read_stages(options, *device));
    PUMICE_TRY(std::unique_ptr<pumice_model> loaded,
               load_model(*device, source, options, stages, both(options.progress, options.user)));
    *model = loaded.release();
    return {};
  });
}

void pumice_model_destroy(pumice_model* model) {
  destroy_live(model);
}

pumice_status pumice_model_get_info(const pumice_model* model, pumice_model_info* info, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(info);
    const ModelShape& shape = model->model->shape();
    pumice_model_info result = {sizeof result};
    result.architecture = model->architecture.c_str();
    result.has_decoder = shape.has_decoder();
    result.has_encoder = shape.encoder.has_value();
    result.has_tokenizer = model->tokenizer != nullptr;
    result.vocabulary = shape.has_decoder() ? shape.vocabulary : shape.encoder->vocabulary;
    result.context = shape.has_decoder() ? shape.context : 0;
    if (shape.encoder) {
      result.input_context = shape.encoder->context;
      result.input_values =
          shape.encoder->kind == InputKind::tokens ? 0 : static_cast<uint32_t>(shape.encoder->input_values());
    }
    result.weight_bytes = model->model->weight_bytes() + (model->tower ? model->tower->weight_bytes() : 0);
    result.has_pictures = has_picture_tower(model->model->file());
    if (shape.shared_space) {
      result.similarity_scale = shape.shared_space->scale;
      result.similarity_bias = shape.shared_space->bias;
    }
    return write(result, info, "info");
  });
}

pumice_status pumice_model_tokenize(const pumice_model* model, const char* text, uint32_t flags,
                                    uint32_t* tokens, size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(text);
    if (flags & ~uint32_t{PUMICE_ADD_SPECIAL | PUMICE_PARSE_SPECIAL}) {
      return Error{Code::invalid_argument, fmt::format("flags is {}: expected pumice_tokenize_flags", flags)};
    }
    PUMICE_CHECK(check_array(tokens, capacity, sizeof *tokens, "tokens"));
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    using Special = Tokenizer::SpecialTokens;
    const Tokenizer::Part part{text, flags & PUMICE_PARSE_SPECIAL ? Special::recognised : Special::as_text};
    const std::vector<uint32_t> ids =
        model->tokenizer->encode(std::span(&part, 1), flags & PUMICE_ADD_SPECIAL);
    hand_out(ids.data(), ids.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_model_detokenize(const pumice_model* model, const uint32_t* tokens, size_t token_count,
                                      char* text, size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_CHECK(check_array(tokens, token_count, sizeof *tokens, "tokens"));
    PUMICE_CHECK(check_array(text, capacity, 1, "text"));
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    // Models may have more tokens than their tokenizers, which are no text.
    const uint32_t vocabulary =
        std::max(model->tokenizer->vocabulary_size(), model->model->shape().vocabulary);
    for (size_t i = 0; i < token_count; ++i) {
      PUMICE_CHECK(check_token(tokens[i], vocabulary, fmt::format("tokens[{}]", i)));
    }
    hand_out(model->tokenizer->decode({tokens, token_count}, false), text, capacity, count);
    return {};
  });
}

pumice_status pumice_model_role_tokens(const pumice_model* model, pumice_token_role role, uint32_t* tokens,
                                       size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_CHECK(check_array(tokens, capacity, sizeof *tokens, "tokens"));
    const int number = number_in(role);
    if (number < PUMICE_ROLE_BEGIN || number > PUMICE_ROLE_MASK) {
      return Error{Code::invalid_argument,
                   fmt::format("role is {}: expected one of pumice_token_role", number)};
    }
    const std::vector<uint32_t> ids =
        tokens_of(static_cast<TokenRole>(number), model->model->file(), model->tokenizer.get());
    hand_out(ids.data(), ids.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_model_find_token(const pumice_model* model, const char* name, uint32_t* token,
                                      pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(name);
    PUMICE_REQUIRE(token);
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    const std::optional<uint32_t> found = model->tokenizer->find(name);
    if (!found) {
      return Error{Code::not_found,
                   fmt::format("{}: the vocabulary has no token '{}'", model->model->file().path(), name)};
    }
    *token = *found;
    return {};
  });
}

pumice_status pumice_model_token_name(const pumice_model* model, uint32_t token, bool* special, char* name,
                                      size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_CHECK(check_array(name, capacity, 1, "name"));
    PUMICE_CHECK(require_tokenizer(model->tokenizer.get(), *model->model));
    PUMICE_CHECK(check_token(token, model->tokenizer->vocabulary_size(), "token"));
    hand_out(std::string(model->tokenizer->piece(token)), name, capacity, count);
    if (special) *special = model->tokenizer->is_special(token);
    return {};
  });
}

} // extern "C"
