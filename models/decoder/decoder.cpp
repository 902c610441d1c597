#include "models/decoder/decoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"
#include "model/gguf_model.h"
#include "models/decoder/rotary.h"

namespace pumice {

Status Decoder::read_bias(const Settings& settings, std::string_view name, bool fallback) {
  PUMICE_TRY(style.input_bias, settings.boolean_or({name, ""}, fallback));
  style.output_bias = style.input_bias;
  return {};
}

Status Decoder::read_biases(const Settings& settings, const BiasNames& of) {
  if (settings.gguf()) {
    const ModelFile& file = settings.file();
    style.input_bias = file.find("blk.0.attn_q.bias");
    style.output_bias = file.find("blk.0.attn_output.bias");
    feed_forward_bias = !of.feed_forward.empty() && file.find("blk.0.ffn_up.bias");
    return {};
  }
  PUMICE_CHECK(read_bias(settings, of.attention, of.attention_by_default));
  if (!of.output.empty()) {
    PUMICE_TRY(style.output_bias, settings.boolean_or({of.output, ""}, false));
  }
  PUMICE_TRY(feed_forward_bias, settings.boolean_or({of.feed_forward, ""}, false));
  return {};
}

Status Decoder::read_shown_biases(const Settings& settings, const BiasNames& of) {
  PUMICE_CHECK(read_biases(settings, of));
  shown.push_back({"biases", fmt::format("attention {}, feed-forward {}", style.input_bias ? "yes" : "no",
                                         feed_forward_bias ? "yes" : "no")});
  return {};
}

Status Decoder::read_window(const Settings& settings, const SettingName& name, uint32_t least) {
  PUMICE_TRY(const uint32_t window, settings.u32_or(name, least, limits::context, 0));
  config.windows.assign(config.layers, window);
  if (window) gguf_metadata["attention.sliding_window"] = window;
  return {};
}

Status Decoder::read_most_input(const Settings& settings, const SettingName& name) {
  PUMICE_TRY(most_input, settings.f32_or(name, 0.0f, 1e6f, 0.0f));
  if (most_input > 0) gguf_metadata[std::string(name.gguf)] = most_input;
  return {};
}

Status Decoder::set_squared_relu(const Settings& settings) {
  if (!settings.gguf()) {
    PUMICE_TRY(const std::string activation, settings.fields().string_or("hidden_act", "relu2"));
    if (activation != "relu2")
      return settings.error({"hidden_act", ""}, fmt::format("expected relu2; found '{}'", activation));
  }
  own_feed_forward = [bias = feed_forward_bias](DecoderBuilder& builder, uint32_t, TensorId x) {
    const GatedNames names;
    return builder.squared_feed_forward(x, names.up, names.down, builder.config().feed_forward, bias);
  };
  return {};
}

void Decoder::set_mixture(const Settings& settings, MixtureConfig read, const GgufMixtureRule& rule) {
  if (rule.normalise && read.routing.normalise != *rule.normalise) {
    refuse_gguf(settings, "norm_topk_prob",
                *rule.normalise ? "normalise the weights of a token's experts"
                                : "do not normalise the weights of a token's experts");
  }
  const uint32_t dense = read.dense_layers();
  if (!rule.any_layers) {
    if (std::find(read.sparse.begin() + dense, read.sparse.end(), false) != read.sparse.end())
      refuse_gguf(settings, "mlp_only_layers", "have no dense layers after sparse ones");
    if (dense && !rule.dense_layers) refuse_gguf(settings, "mlp_only_layers", "have no dense layers");
  }
  for (Hyperparameter& each : hyperparameters(read)) shown.push_back(std::move(each));
  gguf_metadata.update(gguf_mixture(read));
  mixture = std::move(read);
}

void Decoder::refuse_gguf(const Settings& settings, std::string_view field, std::string_view what) {
  if (gguf_refusal) return;
  gguf_refusal = Error{Code::unsupported, fmt::format("{}: field '{}': GGUF's {} models {}",
                                                      settings.file().path(), field, gguf_name, what)};
}

AttentionStyle Decoder::style_of(uint32_t layer) const {
  AttentionStyle own = style;
  const bool window = config.windows[layer] > 0;
  own.keys_as_values = style.keys_as_values && !window;
  if (window && rotary_in_windows) own.rotary = &*rotary_in_windows;
  if (!rotated.empty() && !rotated[layer]) own.rotary = &no_rotary;
  return own;
}

TensorId Decoder::attend(DecoderBuilder& builder, uint32_t layer, TensorId x,
                         const AttentionStyle& own) const {
  AttentionInputs inputs = fused_inputs ? builder.fused_query_key_value(x, fused_inputs->name,
                                                                        fused_inputs->groups, own.input_bias)
                                        : builder.query_key_value(x, own);
  if (whole_norms) {
    inputs.query = builder.rms_norm(inputs.query, own.query_norm);
    inputs.key = builder.rms_norm(inputs.key, own.key_norm);
  }
  if (head_layer_norms) {
    inputs.query = builder.head_layer_norm(inputs.query, own.query_norm);
    inputs.key = builder.head_layer_norm(inputs.key, own.key_norm);
  }
  if (most_input > 0) {
    for (const auto& [name, id] : {std::pair("clamped_query", &inputs.query),
                                   {"clamped_key", &inputs.key},
                                   {"clamped_value", &inputs.value}})
      *id = clamp(builder.graph(), builder.prefix() + name, *id, -most_input, most_input);
  }
  if (attention_gate.hugging_face.empty() && inner_norm.hugging_face.empty())
    return builder.attend_and_project(layer, inputs, own);
  const std::string_view component = "attention";
  std::optional<TensorId> opened;
  if (!attention_gate.hugging_face.empty())
    opened = builder.project(x, attention_gate, config.query_rows(), false, component);
  TensorId y = builder.attend(layer, inputs, own);
  if (opened) y = sigmoid_gate_every_row(builder.graph(), builder.prefix() + "gated_attention", y, *opened);
  if (!inner_norm.hugging_face.empty()) y = builder.rms_norm(y, inner_norm);
  return builder.project(y, own.output, config.hidden, own.output_bias, component);
}

TensorId Decoder::feed(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
  if (own_feed_forward) return own_feed_forward(builder, layer, x);
  if (mixture && mixture->sparse[layer]) return pumice::mixture(builder, x, *mixture, experts);
  if (!fused_gate.hugging_face.empty())
    return builder.fused_gated_feed_forward(x, fused_gate, feed_forward.down);
  if (feed_forward.gate.hugging_face.empty())
    return builder.plain_feed_forward(x, feed_forward.up, feed_forward.down, feed_forward_bias);
  return builder.gated_feed_forward(x, feed_forward, config.sizes_of(layer).feed_forward, feed_forward_bias);
}

TensorId Decoder::block(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
  AttentionStyle own = style_of(layer);
  if (!sinks.hugging_face.empty())
    own.sinks = builder.weight(builder.tensor(sinks, "", config.heads, 0, "attention"), "attention");
  const auto attention = [&](TensorId y) {
    if (!config.attends_in(layer)) return mixer(builder, layer, y);
    return own_attention ? own_attention(builder, layer, y) : attend(builder, layer, y, own);
  };
  const auto fed = [&](TensorId y) { return feed(builder, layer, y); };
  return parallel ? builder.parallel_block(x, norms, attention, fed)
                  : builder.block(x, norms, attention, fed);
}

void Decoder::build(DecoderBuilder& builder) const {
  if (own_build) return own_build(*this, builder);
  builder.decode([&](uint32_t layer, TensorId x) { return block(builder, layer, x); }, names);
}

namespace {

class DecoderModel : public ModelDefinition {
public:
  DecoderModel(Decoder decoder, bool gguf) : decoder_(std::move(decoder)), gguf_(gguf) {}

  ModelShape shape() const override {
    if (!config().both_ways) return config().shape();
    ModelShape shape;
    shape.encoder = config().reading_shape();
    return shape;
  }

  std::vector<Hyperparameter> hyperparameters() const override {
    std::vector<Hyperparameter> all = pumice::hyperparameters(config());
    all.insert(all.end(), decoder_.shown.begin(), decoder_.shown.end());
    return all;
  }

  std::vector<WeightSpec> weights() const override {
    DecoderBuilder builder(config(), gguf_, nullptr, config().both_ways);
    decoder_.build(builder);
    return builder.specs();
  }

  Result<DecoderGraph> graph(const ModelFile& file) const override {
    if (config().both_ways) return ModelDefinition::graph(file);
    DecoderBuilder builder(config(), gguf_, &file);
    decoder_.build(builder);
    PUMICE_CHECK(builder.status());
    return builder.take();
  }

  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override {
    return config().both_ways ? reading_graph(file) : ModelDefinition::encoder_graph(file);
  }

  Result<EncoderShape> reading_shape(const ModelFile& file) const override {
    if (config().states.empty()) return config().reading_shape();
    return Error{Code::unsupported,
                 fmt::format("{}: a model of the architecture '{}' cannot turn texts into vectors, because "
                             "its layers keep states of a sequence",
                             file.path(), file.architecture())};
  }

  Result<EncoderGraph> reading_graph(const ModelFile& file) const override {
    PUMICE_CHECK(reading_shape(file));
    DecoderBuilder builder(config(), gguf_, &file, true);
    decoder_.build(builder);
    PUMICE_CHECK(builder.status());
    return builder.take_reader();
  }

  Result<std::unique_ptr<ModelDefinition>> prediction_layer(const ModelFile& file) const override {
    PUMICE_TRY(Decoder layer, prediction_decoder(decoder_, file, gguf_));
    return std::unique_ptr<ModelDefinition>(std::make_unique<DecoderModel>(std::move(layer), gguf_));
  }

  Result<GgufModel> gguf(const ModelFile& file) const override;

private:
  const DecoderConfig& config() const { return decoder_.config; }

  Decoder decoder_;
  const bool gguf_;
};

Result<GgufModel> DecoderModel::gguf(const ModelFile& file) const {
  if (decoder_.gguf_name.empty()) return ModelDefinition::gguf(file);
  if (decoder_.gguf_refusal) return *decoder_.gguf_refusal;
  const DecoderConfig& config = decoder_.config;
  DecoderBuilder builder(config, gguf_, &file, config.both_ways);
  decoder_.build(builder);
  PUMICE_CHECK(builder.status());
  GgufModel model;
  model.architecture = decoder_.gguf_name;
  model.tensors = builder.gguf_tensors();
  const std::string prefix = model.architecture + ".";
  nlohmann::json metadata = {
      {"context_length", config.context},
      {"embedding_length", config.hidden},
      {"block_count", config.layers},
      {"feed_forward_length", config.feed_forward},
      {"attention.head_count", config.heads},
      {"attention.head_count_kv", config.kv_heads},
      {"attention.key_length", config.head_dim},
      {"attention.value_length", config.head_dim},
      {"vocab_size", config.vocabulary},
  };
  add_gguf_rotary(config, metadata, model.tensors);
  const bool layer_norm = config.norm.kind == NormKind::layer;
  metadata[layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"] =
      config.norm_eps;
  if (config.both_ways) metadata["attention.causal"] = false;
  metadata.update(decoder_.gguf_metadata);
  if (const Result<Decoder> layer = prediction_decoder(decoder_, file, gguf_);
      decoder_.gguf_predicts && layer.ok()) {
    DecoderBuilder predicts(layer->config, gguf_, &file);
    layer->build(predicts);
    PUMICE_CHECK(predicts.status());
    for (const GgufTensor& tensor : predicts.gguf_tensors()) { // embeddings and head may be the model's
      if (std::ranges::find(model.tensors, tensor.name, &GgufTensor::name) == model.tensors.end())
        model.tensors.push_back(tensor);
    }
    metadata["block_count"] = config.layers + 1;
    metadata["nextn_predict_layers"] = 1;
    if (const auto recurrent = metadata.find(recurrent_layers_key); recurrent != metadata.end())
      recurrent->push_back(false);
  }
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_null()) model.metadata[prefix + key] = value;
  }
  model.metadata.update(decoder_.gguf_bare_metadata);
  return model;
}

} // namespace

std::unique_ptr<ModelDefinition> make_decoder(Decoder decoder, const Settings& settings) {
  const Activation activation = decoder.config.activation, expected = decoder.config.default_activation;
  if (activation != expected) { // GGUF has no key for it
    decoder.refuse_gguf(settings, "hidden_act",
                        fmt::format("have {}; found {}", to_string(expected), to_string(activation)));
  }
  return std::make_unique<DecoderModel>(std::move(decoder), settings.gguf());
}

Architecture decoder(std::string_view name, std::vector<std::string_view> hugging_face_model_types,
                     std::vector<std::string_view> gguf_architectures, const StackConfigNames& names,
                     DescribeDecoder describe) {
  const std::string_view gguf_name = gguf_architectures.empty() ? "" : gguf_architectures.front();
  const auto open = [=](const Settings& settings, std::optional<PictureTokens> pictures) -> OpenedDefinition {
    Decoder decoder;
    decoder.gguf_name = gguf_name;
    PUMICE_TRY(decoder.config, read_decoder_config(settings, names));
    decoder.config.pictures = std::move(pictures);
    PUMICE_CHECK(describe(settings, decoder));
    return make_decoder(std::move(decoder), settings);
  };
  Architecture entry{name, std::move(hugging_face_model_types), std::move(gguf_architectures),
                     [open](const ModelFile& file) { return open(Settings::of_text(file), {}); }};
  entry.open_decoder = open;
  return entry;
}

} // namespace pumice
