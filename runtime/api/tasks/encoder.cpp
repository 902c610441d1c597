#include <algorithm>

#include <fmt/format.h>

#include "api/buffer.h"
#include "api/handles.h"
#include "api/input.h"
#include "api/tasks/creation.h"
#include "api/tune.h"
#include "api/work.h"
#include "step/work/resumable_encoder.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_encoder : pumice_work, Live<pumice_encoder> {
  pumice_encoder() : pumice_work("encoder") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return encoding->slice(request); }
  Status discard() override { return encoding->discard(); }
  void cancel() override { encoding->cancel(); }

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<ResumableEncoder> encoding;
  bool given_values = false; // by a buffer of the caller's

  InputReader reader() const {
    return {*model, tokenizer.get(), encoding->encoder().longest(), given_values};
  }
};

namespace {

Result<std::vector<EncoderInput>> inputs_of(const pumice_encoder& encoder, const pumice_input* inputs,
                                            size_t count) {
  PUMICE_REQUIRE(inputs);
  PUMICE_CHECK(check_array(inputs, count, sizeof *inputs, "inputs"));
  PUMICE_CHECK(encoder.encoding->ready());
  std::vector<EncoderInput> all;
  for (size_t i = 0; i < count; ++i) {
    PUMICE_TRY(const pumice_input each, read_element(inputs, i, "inputs"));
    PUMICE_TRY(EncoderInput input, read_input(each, encoder.reader(), fmt::format("inputs[{}]", i)));
    all.push_back(std::move(input));
  }
  return all;
}

Status read_values(pumice_encoder& encoder, float* values, size_t capacity, size_t* count) {
  PUMICE_CHECK(check_array(values, capacity, sizeof *values, "values"));
  PUMICE_TRY(const std::vector<float> all, encoder.encoding->read());
  hand_out(all.data(), all.size(), values, capacity, count);
  return {};
}

Result<EncoderOptions> encoder_options(const pumice_encoder_options& options, const EncoderShape& shape) {
  if (shape.kind == InputKind::patches) {
    return Error{Code::unsupported, "the model reads pictures of any size, in patches: show them in a chat "
                                    "(pumice_chat_add_picture)"};
  }
  EncoderOptions result;
  result.readable = {options.output ? options.output : "sentence_embedding_mean"};
  result.inputs = options.inputs ? options.inputs : 1;
  result.tokens = options.tokens;
  // All pictures, and all sounds, have the same length.
  if (options.tokens == 0 && shape.kind != InputKind::tokens) {
    result.tokens =
        static_cast<uint32_t>(std::min<uint64_t>(uint64_t{shape.context} * result.inputs, INT32_MAX));
  }
  if (options.input_buffer.buffer) {
    if (shape.kind == InputKind::tokens) {
      return Error{Code::invalid_argument, "options.input_buffer is set, and the model reads tokens"};
    }
    PUMICE_CHECK(
        check_buffer(options.input_buffer, shape.input_values() * 4 * result.inputs, "options.input_buffer"));
  }
  PUMICE_CHECK(check_buffer(options.output_buffer, 4, "options.output_buffer"));
  result.input = external_buffer(options.input_buffer);
  result.output = external_buffer(options.output_buffer);
  return result;
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_encoder_options* asked) {
  const ModelShape& shape = model.model->shape();
  if (!shape.encoder || shape.has_decoder()) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model of the architecture '{}' has {}: expected an encoder alone",
                             model.model->file().path(), model.architecture,
                             shape.encoder ? "a decoder beside its encoder" : "no encoder")};
  }
  PUMICE_TRY(const pumice_encoder_options options, read(asked, "options"));
  PUMICE_TRY(const EncoderOptions encoder_options, encoder_options(options, *shape.encoder));
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_encoder>();
    handle->model = current_model(model);
    handle->tokenizer = model.tokenizer;
    handle->given_values = encoder_options.input.buffer != VK_NULL_HANDLE;
    EncoderOptions own = encoder_options;
    if (own.tokens == 0) own.tokens = making.chunk;
    PUMICE_TRY(handle->encoding, ResumableEncoder::create(handle->model, std::move(own), prepared(making)));
    created.encoder = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_encoder_create(pumice_model* model, const pumice_encoder_options* options,
                                    pumice_encoder** encoder, pumice_error* error) {
  return create(model, options, encoder, "encoder", &pumice_created::encoder, error);
}

void pumice_encoder_destroy(pumice_encoder* encoder) {
  destroy_live(encoder);
}

uint32_t pumice_encoder_columns(const pumice_encoder* encoder) {
  return is_live(encoder) ? encoder->encoding->columns() : 0;
}

pumice_status pumice_encoder_encode(pumice_encoder* encoder, const pumice_input* inputs, size_t input_count,
                                    float* values, size_t capacity, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(encoder);
    PUMICE_TRY(std::vector<EncoderInput> encoder_inputs, inputs_of(*encoder, inputs, input_count));
    PUMICE_CHECK(encoder->encoding->run(std::move(encoder_inputs)));
    return read_values(*encoder, values, capacity, count);
  });
}

pumice_status pumice_encoder_begin(pumice_encoder* encoder, const pumice_input* inputs, size_t input_count,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(encoder);
    PUMICE_TRY(std::vector<EncoderInput> encoder_inputs, inputs_of(*encoder, inputs, input_count));
    return encoder->encoding->begin(std::move(encoder_inputs));
  });
}

pumice_status pumice_encoder_read(pumice_encoder* encoder, float* values, size_t capacity, size_t* count,
                                  pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(encoder);
    return read_values(*encoder, values, capacity, count);
  });
}

pumice_work* pumice_encoder_work(pumice_encoder* encoder) {
  return is_live(encoder) ? encoder : nullptr;
}

} // extern "C"
