#include "api/tasks/task.h"

#include <fmt/format.h>

#include "api/call.h"
#include "api/input.h"

namespace pumice::api {

Result<std::string> read_pooling(const char* name) {
  const std::string pooling = text_or_empty(name);
  if (!name || pooling == "mean" || pooling == "cls" || pooling == "last") return pooling;
  return Error{Code::invalid_argument,
               fmt::format("options.pooling is '{}': expected mean, cls or last", pooling)};
}

Status check_purpose(const pumice_model& model, pumice_purpose purpose) {
  const LoadOptions& loaded = model.model->options();
  const ModelShape& shape = model.model->shape();
  const bool decoder = shape.has_decoder() && !shape.encoder;
  const bool headless =
      purpose == PUMICE_FOR_SCORES && loaded.text_reader && shape.encoder->causal && loaded.readable.empty();
  if (!decoder && !headless) return {};
  return Error{Code::unsupported,
               fmt::format("{}: the decoder was not loaded for this: set pumice_load_options.purpose to {}",
                           model.model->file().path(),
                           purpose == PUMICE_FOR_SCORES ? "PUMICE_FOR_SCORES" : "PUMICE_FOR_VECTORS")};
}

Status check_head(const pumice_model& model) {
  if (!model.model->options().readable.empty()) return {};
  return Error{Code::unsupported,
               fmt::format("{}: the model was loaded without its head: set pumice_load_options.purpose to "
                           "PUMICE_FOR_SCORES",
                           model.model->file().path())};
}

Result<std::vector<EncoderInput>> read_texts(const InputRunner& runner, const char* const* texts,
                                             size_t count, size_t* cut, const ReadText& read) {
  PUMICE_CHECK(check_array(texts, count, sizeof *texts, "texts"));
  const uint64_t before = runner.figures().cut;
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("texts[{}]", i);
    if (!texts[i]) return null_argument(name.c_str());
    PUMICE_TRY(EncoderInput input, read(texts[i], name));
    inputs.push_back(std::move(input));
  }
  if (cut) *cut = static_cast<size_t>(runner.figures().cut - before);
  return inputs;
}

Status run_texts(InputRunner& runner, const char* const* texts, size_t count, size_t* cut,
                 const ReadText& read, const InputRunner::Take& take) {
  PUMICE_TRY(const std::vector<EncoderInput> inputs, read_texts(runner, texts, count, cut, read));
  return runner.run(inputs, take);
}

Status run_parts(InputRunner& runner, const char* const* texts, size_t count, const char* name,
                 const ReadParts& read, const InputRunner::Take& take) {
  PUMICE_CHECK(check_array(texts, count, sizeof *texts, name));
  std::vector<std::vector<EncoderInput>> inputs;
  for (size_t i = 0; i < count; ++i) {
    const std::string own = fmt::format("{}[{}]", name, i);
    if (!texts[i]) return null_argument(own.c_str());
    PUMICE_TRY(std::vector<EncoderInput> parts, read(texts[i], own));
    inputs.push_back(std::move(parts));
  }
  return runner.run_parts(inputs, take);
}

Status run_pictures(InputRunner& runner, const pumice_picture* pictures, size_t count,
                    const InputRunner::Take& take) {
  PUMICE_CHECK(check_array(pictures, count, sizeof *pictures, "pictures"));
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("pictures[{}]", i);
    PUMICE_TRY(const pumice_picture each, read_element(pictures, i, name.c_str()));
    PUMICE_TRY(const Image picture, read_picture(each, name));
    PUMICE_TRY(EncoderInput input, runner.read(picture, name));
    inputs.push_back(std::move(input));
  }
  return runner.run(inputs, take);
}

} // namespace pumice::api
