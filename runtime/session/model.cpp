#include "session/model.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "graph/fusion.h"
#include "io/quantize.h"
#include "kernel/attention.h"
#include "kernel/sampling.h"
#include "kernel/scoring.h"
#include "plan/plan.h"
#include "plan/upload.h"
#include "session/memory_plan.h"

namespace pumice {

namespace {

// The number after a prefix: 3 in "hidden_states.3" after "hidden_states.".
std::optional<uint32_t> index_after(std::string_view prefix, std::string_view name) {
  uint32_t index = 0;
  if (!name.starts_with(prefix)) return {};
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + prefix.size(), end, index);
  if (error != std::errc() || last != end) return {};
  return index;
}

// "hidden_states.3" to the tensor it names, which is made where the model itself does not need it.
Status keep_by_name(DecoderGraph& decoder, const ModelFile& file, const std::string& name, uint32_t context) {
  if (name == "logits") {
    decoder.graph.keep(decoder.logits, name);
    return {};
  }
  if (name == "log_likelihoods") {
    decoder.graph.keep(log_likelihood(decoder.graph, name, decoder.logits), name);
    return {};
  }
  const auto hidden = index_after("hidden_states.", name);
  if (hidden && *hidden < decoder.hidden_states.size()) {
    decoder.graph.keep(decoder.hidden_states[*hidden], name);
    return {};
  }
  const auto layer = index_after("attentions.", name);
  if (layer && *layer < decoder.attentions.size()) {
    const TensorId weights = attention_weights(decoder.graph, name, decoder.attentions[*layer], context);
    decoder.graph.keep(weights, name);
    return {};
  }
  std::string expected = fmt::format("logits, log_likelihoods, hidden_states.0 to hidden_states.{}",
                                     decoder.hidden_states.size() - 1);
  if (!decoder.attentions.empty()) {
    expected += fmt::format(", attentions.0 to attentions.{}", decoder.attentions.size() - 1);
  }
  return Error{Code::invalid_argument, fmt::format("{}: there is no output named '{}': expected one of {}",
                                                   file.path(), name, expected)};
}

} // namespace

Result<Graph> build_graph(const Definition& definition, const ModelFile& file, bool sampling,
                          std::span<const std::string> kept, uint32_t context, const LoadOptions& options) {
  PUMICE_TRY(DecoderGraph decoder, definition.graph(file));
  for (const std::string& name : kept) PUMICE_CHECK(keep_by_name(decoder, file, name, context));
  if (sampling) sample(decoder.graph, "sampled_token", decoder.logits);
  fuse(decoder.graph, options.weights);
  return std::move(decoder.graph);
}

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& path, DeviceContext context,
                                                 const Progress& progress, const LoadOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  return load(std::move(file), std::move(context), progress, options);
}

Result<std::shared_ptr<const Model>> Model::load(ModelFile file, DeviceContext context,
                                                 const Progress& progress, const LoadOptions& options) {
  if (options.weights && !can_quantize(*options.weights)) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: weights cannot be quantised to {}: expected one of {}", file.path(),
                             info(*options.weights).name, quantizable_type_names())};
  }
  std::shared_ptr<Model> model(new Model(std::move(file), std::move(context), options));
  PUMICE_TRY(model->definition_, open_definition(model->file_));
  model->shape_ = model->definition_->shape();
  if (!model->file_.has_weights()) {
    return Error{Code::not_found,
                 fmt::format("{}: there are no weights here: expected a .gguf file, or a folder "
                             "with model.safetensors",
                             model->file_.path())};
  }
  const DeviceContext& device = model->context_;
  model->weights_ =
      std::make_unique<WeightStore>(device.style, device.device->capabilities(), options.weights);
  PUMICE_CHECK(model->place_weights());
  PUMICE_TRY(model->parts_, upload_weights(device.device, *model->weights_, progress));
  model->weights_->seal();
  return std::shared_ptr<const Model>(std::move(model));
}

// Any plan of the graph asks for every weight, and all plans ask for the same ones.
Status Model::place_weights() {
  PUMICE_TRY(Graph graph, build_graph(*definition_, file_, true, {}, shape_.context, options_));
  const MemoryPlan memory = plan_memory(shape_, context_, {});
  PUMICE_TRY(Plan plan, make_plan(graph, memory.plan_context(context_, *weights_), Bucket{}));
  return {};
}

Result<Graph> Model::graph(bool sampling, std::span<const std::string> kept, uint32_t context) const {
  return build_graph(*definition_, file_, sampling, kept, context, options_);
}

uint64_t Model::weight_bytes() const {
  uint64_t sum = 0;
  for (const Buffer& part : parts_) sum += part.memory_bytes();
  return sum;
}

} // namespace pumice
