#include "model/model.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/cut.h"
#include "io/checksum.h"
#include "io/no_weights.h"
#include "io/quantize.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/sampling/sampling.h"
#include "model/session_memory.h"
#include "plan/fusion.h"
#include "plan/plan.h"
#include "recording/pipeline_maker.h"

namespace pumice {

namespace {

// Makes the tensors that the request names readable, and adds them to the graph where they are not in it yet.
Status make_readable(Graph& graph, const ReadableTensors& readable, const ModelFile& file,
                     const GraphRequest& request) {
  for (const std::string& name : request.readable) {
    const auto tensor = readable.make(graph, name, {request.context, request.input_context});
    if (!tensor) {
      return Error{Code::invalid_argument, fmt::format("{}: there is no output named '{}'; there are {}",
                                                       file.path(), name, readable.names())};
    }
    // The second of two names for a tensor is that of a copy.
    const auto known = std::ranges::find(request.readable, graph.tensor(*tensor).name);
    const bool has_name = graph.tensor(*tensor).readable && known < std::ranges::find(request.readable, name);
    graph.make_readable(has_name ? scale(graph, name, *tensor, 1) : *tensor, name);
  }
  return {};
}

// Threads of a load. The calling thread is one of those that pack.
struct LoadThreads {
  size_t packing = 0; // 0: as many as the host can run
  size_t compiling = SIZE_MAX;
};

// Packing weights and compiling kernels get a half each, so that neither waits for the other.
LoadThreads share_threads(uint32_t threads) {
  if (threads == 0) return {};
  return {threads - threads / 2, threads / 2};
}

constexpr size_t sample_bytes = 64; // at the beginning, the middle and the end of each tensor

bool is_whole(const DecoderGraph& decoder, const Stage& stage) {
  return stage.whole(static_cast<uint32_t>(std::max<size_t>(decoder.layer_inputs.size(), 1)));
}

// Keeps a layer from being fused with the one before the cut, as it is where the host reads what it reads.
void make_cuts_readable(DecoderGraph& decoder, const Stage& stage) {
  for (uint32_t layer : {stage.first, stage.end}) {
    if (layer == 0 || layer >= decoder.layer_inputs.size()) continue;
    const TensorId input = decoder.layer_inputs[layer];
    decoder.graph.make_readable(input, decoder.graph.tensor(input).name);
  }
}

// Leaves a stage, counted in the decoder's layers, of a fused graph.
Status cut_stage(DecoderGraph& decoder, const ModelFile& file, const Stage& stage) {
  const size_t layers = decoder.layer_inputs.size();
  if (stage.first >= layers || stage.first >= stage.end) {
    return Error{Code::unsupported,
                 fmt::format("{}: it has no stage from layer {} up to {}: its {} layers can be cut apart",
                             file.path(), stage.first, stage.end, layers)};
  }
  std::optional<TensorId> from, to;
  if (!stage.begins()) from = decoder.layer_inputs[stage.first];
  if (stage.end < layers) to = decoder.layer_inputs[stage.end];
  return cut(decoder.graph, from, to);
}

// The same of an encoder before a decoder, whose stage is counted in the layers of both.
void make_cuts_readable(EncoderGraph& encoder, const ModelShape& shape, const Stage& stage) {
  for (uint32_t layer : {stage.first, stage.end}) {
    if (layer == 0 || layer > shape.encoder_layers() || layer >= encoder.cuts.size()) continue;
    const TensorId last = encoder.cuts[layer];
    encoder.graph.make_readable(last, encoder.graph.tensor(last).name);
  }
}

Status cut_stage(EncoderGraph& encoder, const ModelFile& file, const Stage& stage) {
  if (stage.first >= encoder.cuts.size() || stage.empty()) {
    return Error{Code::unsupported,
                 fmt::format("{}: it has no stage from layer {} up to {}: it can be cut before {} layers",
                             file.path(), stage.first, stage.end, encoder.cuts.size())};
  }
  std::optional<TensorId> from, to;
  if (!stage.begins()) from = encoder.cuts[stage.first];
  if (stage.end < encoder.cuts.size()) to = encoder.cuts[stage.end];
  return cut(encoder.graph, from, to);
}

uint64_t identity_of(const ModelFile& file, const LoadOptions& options) {
  Checksum sum;
  // Weights that are quantised while loading give other keys and values.
  sum.add(options.weights ? 1 + static_cast<uint64_t>(*options.weights) : uint64_t{0});
  sum.add(file.config().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const TensorView& tensor : file.tensors()) {
    sum.add(tensor.name);
    for (uint64_t size : tensor.shape) sum.add(size);
    sum.add(static_cast<uint64_t>(tensor.type));
    const size_t bytes = tensor.data.size(), sample = std::min(bytes, sample_bytes);
    for (size_t at : {size_t{0}, (bytes - sample) / 2, bytes - sample})
      sum.add(tensor.data.subspan(at, sample));
  }
  return sum.value();
}

} // namespace

Result<Graph> build_graph(const ModelDefinition& definition, const ModelFile& file,
                          const GraphRequest& request, const LoadOptions& options) {
  PUMICE_TRY(DecoderGraph decoder, definition.graph(file));
  PUMICE_CHECK(make_readable(decoder.graph, decoder.readable, file, request));
  if (request.sampling) sample(decoder.graph, "sampled_token", decoder.logits);
  const ModelShape shape = definition.shape();
  const Stage stage =
      options.stage.within(shape.encoder_layers(), static_cast<uint32_t>(shape.layers.size()));
  if (request.readable_cuts) make_cuts_readable(decoder, stage);
  // Also in one piece: what is fused, and so a row's bits, is the same wherever the model is cut.
  fuse(decoder.graph, options.weights, decoder.layer_inputs, request.adapters.get(),
       request.adapters_in_products);
  if (!is_whole(decoder, stage)) PUMICE_CHECK(cut_stage(decoder, file, stage));
  return std::move(decoder.graph);
}

Result<Graph> build_encoder_graph(const ModelDefinition& definition, const ModelFile& file,
                                  const GraphRequest& request, const LoadOptions& options) {
  PUMICE_TRY(EncoderGraph encoder, definition.encoder_graph(file));
  PUMICE_CHECK(make_readable(encoder.graph, encoder.readable, file, request));
  const ModelShape shape = definition.shape();
  const bool whole = options.stage.whole(shape.layers_to_cut());
  if (request.readable_cuts) make_cuts_readable(encoder, shape, options.stage);
  fuse(encoder.graph, options.weights, whole ? std::span<const TensorId>() : encoder.cuts);
  if (!whole) PUMICE_CHECK(cut_stage(encoder, file, options.stage));
  return std::move(encoder.graph);
}

Result<OpenedModel> OpenedModel::open(ModelFile file, const SettingChanges& changes) {
  PUMICE_CHECK(file.change_settings(changes));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  if (!file.has_weights()) return no_weights(file);
  return OpenedModel(std::move(file), std::move(definition));
}

Result<OpenedModel> OpenedModel::open(const std::filesystem::path& path, const SettingChanges& changes) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  return open(std::move(file), changes);
}

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& path, DeviceContext context,
                                                 const Progress& progress, const LoadOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  return load(std::move(file), std::move(context), progress, options);
}

Result<std::shared_ptr<const Model>> Model::load(OpenedModel model, DeviceContext context,
                                                 const Progress& progress, const LoadOptions& options) {
  PUMICE_TRY(std::shared_ptr<const Model> planned, plan(std::move(model), std::move(context), options));
  return upload(std::move(planned), progress);
}

Result<std::shared_ptr<const Model>> Model::plan(OpenedModel opened, DeviceContext context,
                                                 const LoadOptions& options) {
  if (options.weights && !can_quantize(*options.weights)) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: weights cannot be quantised to {}; they can be to {}", opened.file.path(),
                             info(*options.weights).name, quantizable_type_names())};
  }
  std::shared_ptr<Model> model(
      new Model(std::make_shared<Parts>(std::move(opened.file)), std::move(context), options));
  if (!opened.definition && options.tower != Tower::pictures)
    PUMICE_CHECK(model->parts_->file.change_settings(options.settings));
  if (options.text_reader) {
    PUMICE_TRY(model->parts_->definition, open_text_reader(model->parts_->file));
  } else if (opened.definition && options.tower == Tower::main) {
    model->parts_->definition = std::move(opened.definition);
  } else {
    PUMICE_TRY(model->parts_->definition, open_model_definition(model->parts_->file, options.tower));
  }
  if (options.picture_height > 0) {
    PUMICE_CHECK(model->parts_->definition->set_picture_size(options.picture_height, options.picture_width));
  }
  model->parts_->shape = model->parts_->definition->shape();
  if (const ModelDefinition* tiles = model->parts_->definition->tiles())
    model->parts_->tile_shape = tiles->shape();
  if (!model->parts_->file.has_weights()) {
    return no_weights(model->parts_->file);
  }
  if (!options.stage.whole(model->parts_->shape.layers_to_cut()))
    PUMICE_CHECK(check_stages(model->parts_->file.path(), model->parts_->shape));
  PUMICE_CHECK(model->choose_places());
  if (model->context_.device) {
    PUMICE_TRY(model->parts_->bytes,
               upload_bytes(*model->context_.device, *model->parts_->weights, options.budget));
  }
  model->parts_->weights->seal();
  return std::shared_ptr<const Model>(std::move(model));
}

// What a stage of the whole model reads.
Result<std::set<std::string>> Model::tensors_of(const Stage& stage) const {
  LoadOptions options = options_;
  options.stage = stage;
  const ModelShape& shape = parts_->shape;
  const uint32_t encoder = shape.encoder_layers();
  std::vector<Graph> graphs;
  if (encoder > 0 && !stage.within(0, encoder).empty()) {
    PUMICE_TRY(Graph graph, build_encoder_graph(*parts_->definition, parts_->file, {}, options));
    graphs.push_back(std::move(graph));
  }
  if (!stage.within(encoder, static_cast<uint32_t>(shape.layers.size())).empty()) {
    PUMICE_TRY(Graph graph, build_graph(*parts_->definition, parts_->file, {}, options));
    graphs.push_back(std::move(graph));
  }
  std::set<std::string> tensors;
  for (const Graph& graph : graphs) {
    for (const Node& node : graph.nodes()) {
      for (WeightId weight : node.weights) tensors.insert(graph.weight(weight).view.tensor->name);
    }
  }
  return tensors;
}

// What the first layers read and no other layer does.
Result<std::set<std::string>> Model::host_tensors() const {
  const uint32_t layers = parts_->shape.layers_to_cut();
  if (!parts_->shape.has_decoder() || options_.device_layers >= layers) return std::set<std::string>();
  const uint32_t first = layers - options_.device_layers;
  PUMICE_TRY(std::set<std::string> tensors, tensors_of({0, first}));
  if (first == layers) return tensors;
  PUMICE_TRY(const std::set<std::string> others, tensors_of({first, layers}));
  std::erase_if(tensors, [&](const std::string& name) { return others.contains(name); });
  return tensors;
}

// Places the weights in whose memory the options ask for.
Status Model::choose_places() {
  const Capabilities& device = context_.capabilities();
  HostWeights on_host;
  PUMICE_TRY(on_host.tensors, host_tensors());
  const auto placed = [&](bool experts) -> Status {
    on_host.experts = experts;
    parts_->weights = std::make_unique<WeightStore>(context_.profile, device, options_.weights, on_host);
    return place_weights();
  };
  PUMICE_CHECK(placed(options_.experts == ExpertPlacement::host));
  if (options_.experts != ExpertPlacement::automatic || !parts_->weights->has_experts()) return {};
  if (!context_.device) {
    const bool left =
        experts_leave_device(parts_->weights->bytes(), device.memory_bytes, device.unified_memory);
    return left ? placed(true) : Status();
  }
  PUMICE_TRY(const UploadBytes bytes, upload_bytes(*context_.device, *parts_->weights));
  const uint64_t available = context_.device->memory().available;
  return experts_leave_device(bytes.weights, available, device.unified_memory) ? placed(true) : Status();
}

Result<std::shared_ptr<const Model>> Model::upload(std::shared_ptr<const Model> planned,
                                                   const Progress& progress,
                                                   std::optional<DeviceProfile> profile) {
  std::shared_ptr<Model> model(new Model(planned->parts_, planned->context_, planned->options_));
  planned.reset();
  Parts& parts = *model->parts_;
  if (profile) {
    model->context_.profile = *std::move(profile);
    PUMICE_CHECK(model->place_weights());
  }
  std::vector<Plan> plans = std::exchange(parts.plans, {});
  DeviceContext& device = model->context_;
  const LoadThreads threads = share_threads(model->options_.threads);
  std::optional<PipelineMaker> pipelines;
  pipelines.emplace(device.pipelines, plans, threads.compiling);
  PUMICE_TRY(parts.allocations, upload_weights(device.device, *parts.weights, progress, threads.packing,
                                               model->options_.budget));
  const uint64_t total = parts.weights->bytes();
  const auto go_on = [&] {
    if (device.compiling) return device.compiling(pipelines->made(), pipelines->wanted());
    return !progress || progress(total, total);
  };
  Status made = pipelines->finish(go_on);
  while (!made.ok() && leave_out(pipelines->failed(), plans, device)) {
    PUMICE_CHECK(model->place_weights());
    plans = std::exchange(parts.plans, {});
    pipelines.emplace(device.pipelines, plans, threads.compiling);
    made = pipelines->finish(go_on);
  }
  PUMICE_CHECK(made);
  if (device.compiling && pipelines->wanted() > 0)
    (void)device.compiling(pipelines->wanted(), pipelines->wanted());
  parts.bytes = {};
  const std::vector<WeightStore::Allocation>& placed = parts.weights->allocations();
  for (size_t i = 0; i < placed.size(); ++i) {
    (placed[i].on_host ? parts.bytes.host : parts.bytes.weights) += parts.allocations[i].memory_bytes();
  }
  parts.weights->forget_items();
  parts.identity = identity_of(parts.file, model->options_);
  std::vector<std::string_view> kept = parts.definition->host_weights();
  kept.push_back("dense_"); // the last layers of a sentence embedder, see task/sentence_settings.cpp
  parts.file.forget_weights(kept);
  return std::shared_ptr<const Model>(std::move(model));
}

std::shared_ptr<const Model> Model::with_profile(DeviceProfile profile) const {
  std::shared_ptr<Model> model(new Model(parts_, context_, options_));
  model->context_.profile = std::move(profile);
  model->reads_tiles_ = reads_tiles_;
  return model;
}

std::shared_ptr<const Model> Model::for_tiles() const {
  if (reads_tiles_ || !parts_->definition->tiles()) return nullptr;
  std::shared_ptr<Model> model(new Model(parts_, context_, options_));
  model->reads_tiles_ = true;
  return model;
}

// One plan of a graph places all its weights, because all plans of a graph ask for the same ones, whatever
// the context. Makes plans like those of a session: of decoding, of a short prompt and of a long one.
Status Model::place_weights() {
  GraphRequest request;
  request.sampling = true;
  const SessionMemory memory = pumice::lay_out_memory(parts_->shape, context_, {});
  request.context = memory.size.context;
  const PlanContext context = memory.plan_context(context_, *parts_->weights);
  const bool whole = stage().whole(parts_->shape.layers_to_cut());
  const auto uses = [&](const Plan& plan) {
    parts_->memory.caches.insert(plan.caches.begin(), plan.caches.end());
    parts_->memory.states.insert(plan.states.begin(), plan.states.end());
  };
  parts_->plans.clear();
  if (decodes()) {
    PUMICE_TRY(Graph decoder, graph(request));
    if (!whole) {
      // A norm at a cut belongs to the stage before it, or behind it if the host reads what lies between.
      request.readable_cuts = true;
      PUMICE_TRY(const Graph apart, graph(request));
      PUMICE_CHECK(make_plan(apart, context, Bucket{}));
    }
    for (const Bucket& bucket : step_buckets(memory.size, false)) {
      PUMICE_TRY(Plan plan, make_plan(decoder, context, bucket));
      uses(plan);
      parts_->plans.push_back(std::move(plan));
    }
  }
  if (parts_->shape.encoder) {
    request.readable = options_.readable;
    request.readable_cuts = false;
    PUMICE_TRY(Graph encoder, encoder_graph(request));
    PUMICE_TRY(const Plan plan, make_plan(encoder, context, Bucket{}));
    uses(plan);
    if (const ModelDefinition* tiles = parts_->definition->tiles()) {
      PUMICE_TRY(const Graph graph, build_encoder_graph(*tiles, parts_->file, request, options_));
      PUMICE_TRY(const Plan of_tiles, make_plan(graph, context, Bucket{}));
      uses(of_tiles);
    }
    if (!whole) {
      request.readable_cuts = true;
      PUMICE_TRY(const Graph apart, encoder_graph(request));
      PUMICE_CHECK(make_plan(apart, context, Bucket{}));
    }
  }
  return {};
}

SessionMemory Model::lay_out_memory(const SessionSize& size) const {
  const bool whole = stage().whole(shape().layers_to_cut());
  return pumice::lay_out_memory(shape(), context_, size, whole ? nullptr : &parts_->memory);
}

Result<Graph> Model::graph(const GraphRequest& request) const {
  GraphRequest here = request;
  here.adapters_in_products = context_.profile.cpu8;
  return build_graph(definition(), parts_->file, here, options_);
}

Result<Graph> Model::encoder_graph(const GraphRequest& request) const {
  return build_encoder_graph(definition(), parts_->file, request, options_);
}

} // namespace pumice
