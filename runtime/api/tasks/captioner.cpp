#include <fmt/format.h>

#include "api/chat.h"
#include "api/handles.h"
#include "api/input.h"
#include "api/request.h"
#include "api/tasks/creation.h"
#include "api/tasks/writing.h"
#include "api/tune.h"
#include "api/work.h"
#include "task/captioner.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_captioner : pumice_work, Live<pumice_captioner> {
  pumice_captioner() : pumice_work("captioner") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return captioner->slice(request); }
  Status discard() override { return captioner->discard(); }
  void cancel() override { captioner->cancel(); }

  std::unique_ptr<Captioner> captioner;
  size_t values = 0;              // floats of a picture, where pictures may come as such; otherwise 0
  std::vector<HandedTexts> texts; // that were handed out last, of each picture

  Result<PreparedPicture> read_picture(const pumice_input& input, const std::string& name) const;
  Status begin(const pumice_input* pictures, size_t count);
  Status hand_out(size_t index, const pumice_written** written, size_t* count);
};

Result<PreparedPicture> pumice_captioner::read_picture(const pumice_input& input,
                                                       const std::string& name) const {
  const auto wrong = [&](const char* what) {
    return Error{Code::invalid_argument, fmt::format("{} {}", name, what)};
  };
  if (input.text || input.tokens || (input.values != nullptr) == (input.pixels != nullptr))
    return wrong("is no picture: set either pixels or values, and nothing else");
  if (input.pixels) {
    PUMICE_TRY(const Image image, image_of_pixels(Pixels(input), name));
    return prepare_for_prompt(image, captioner->settings().preparation, name);
  }
  if (values == 0) return wrong("has values, and the model reads pictures in its prompt: give its pixels");
  PreparedPicture picture;
  picture.inputs.emplace_back().values.assign(input.values, input.values + values);
  return picture;
}

Status pumice_captioner::begin(const pumice_input* pictures, size_t count) {
  PUMICE_REQUIRE(pictures);
  PUMICE_CHECK(check_array(pictures, count, sizeof *pictures, "pictures"));
  std::vector<PreparedPicture> prepared;
  for (size_t i = 0; i < count; ++i) {
    PUMICE_TRY(const pumice_input input, read_element(pictures, i, "pictures"));
    PUMICE_TRY(PreparedPicture picture, read_picture(input, fmt::format("pictures[{}]", i)));
    prepared.push_back(std::move(picture));
  }
  return captioner->begin(std::move(prepared));
}

Status pumice_captioner::hand_out(size_t index, const pumice_written** written, size_t* count) {
  PUMICE_TRY(std::vector<std::vector<WrittenText>> all, captioner->texts());
  if (index >= all.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("index is {}, and there were {} pictures", index, all.size())};
  }
  texts.clear();
  texts.emplace_back(std::move(all[index]));
  *written = texts[0].data();
  *count = texts[0].size();
  return {};
}

namespace {

Status check_captions(const pumice_model& model) {
  const ModelShape& shape = model.model->shape();
  const std::string& path = model.model->file().path();
  if (shape.pictures && !model.tower) {
    return Error{Code::invalid_argument,
                 fmt::format("{} was loaded without options.vision, so it cannot see pictures", path)};
  }
  if (shape.pictures && shape.pictures->sounds) {
    return Error{Code::unsupported,
                 fmt::format("{} hears, and a captioner is given pictures: use pumice caption", path)};
  }
  if (shape.pictures) return {};
  if (shape.has_decoder() && shape.encoder && shape.encoder->kind == InputKind::pixels) return {};
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' does not describe pictures: expected an "
                           "encoder of pictures with a decoder, or a decoder that sees",
                           path, model.architecture)};
}

Result<CaptionerOptions> read_options(const pumice_captioner_options& options, const ModelShape& shape) {
  CaptionerOptions result;
  if (options.prompt) result.prompt = options.prompt;
  PUMICE_TRY(result.now, read_time(options.local_time));
  PUMICE_TRY(result.writing, read_writing(options.writing, shape));
  PUMICE_TRY(result.form, read_form(options.form, "options.form"));
  return result;
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_captioner_options* asked) {
  PUMICE_TRY(const pumice_captioner_options options, read(asked, "options"));
  PUMICE_CHECK(check_captions(model));
  PUMICE_CHECK(require_tokenizer(model.tokenizer.get(), *model.model));
  const ModelShape& shape = model.model->shape();
  PUMICE_TRY(const CaptionerOptions captioner_options, read_options(options, shape));
  PUMICE_TRY(const CaptionerSettings settings,
             read_captioner_settings(model.model->file(), shape, model.tokenizer, captioner_options));
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    const bool prompted = model.model->shape().pictures.has_value();
    auto handle = std::make_unique<pumice_captioner>();
    if (!prompted) handle->values = model.model->shape().encoder->input_values();
    PUMICE_TRY(handle->captioner,
               Captioner::create(current_model(model), prompted ? current_model(model.tower) : nullptr,
                                 model.tokenizer, settings, prepared(making)));
    created.captioner = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_captioner_create(pumice_model* model, const pumice_captioner_options* options,
                                      pumice_captioner** captioner, pumice_error* error) {
  return create(model, options, captioner, "captioner", &pumice_created::captioner, error);
}

void pumice_captioner_destroy(pumice_captioner* captioner) {
  destroy_live(captioner);
}

pumice_status pumice_captioner_caption(pumice_captioner* captioner, const pumice_input* pictures,
                                       size_t count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(captioner);
    PUMICE_CHECK(captioner->begin(pictures, count));
    return captioner->captioner->run();
  });
}

pumice_status pumice_captioner_result(pumice_captioner* captioner, size_t index, const pumice_written** texts,
                                      size_t* text_count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(captioner);
    PUMICE_REQUIRE(texts);
    PUMICE_REQUIRE(text_count);
    return captioner->hand_out(index, texts, text_count);
  });
}

pumice_status pumice_captioner_begin(pumice_captioner* captioner, const pumice_input* pictures, size_t count,
                                     pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(captioner);
    return captioner->begin(pictures, count);
  });
}

pumice_work* pumice_captioner_work(pumice_captioner* captioner) {
  return is_live(captioner) ? captioner : nullptr;
}

} // extern "C"
