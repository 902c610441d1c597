#include "models/clip/clip_vision.h"

#include <fmt/format.h>

#include "kernel/embedding/embedding.h"
#include "models/vision_language/picture_tower.h"

namespace pumice {

namespace {

constexpr uint32_t max_edge = 8192; // so that the number of values fits 32 bits

StackConfigNames stack_names(float norm_eps) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = norm_eps;
  names.default_activation = Activation::quick_gelu;
  return names;
}

// What a GGUF file has says which form of the encoder it is.
Status read_gguf_form(const Settings& settings, ClipVisionConfig& config) {
  const ModelFile& file = settings.file();
  config.class_token = file.find("v.class_embd");
  config.norm_before = file.find("v.pre_ln.weight");
  config.patch_bias = file.find("v.patch_embd.bias");
  PUMICE_TRY(config.encoder.activation, read_tower_activation(settings));
  const EncoderConfig& encoder = config.encoder;
  const TensorView* down = file.find("v.blk.0.ffn_down.weight");
  config.names_exchanged = encoder.hidden != encoder.feed_forward && down &&
                           down->shape == std::vector<uint64_t>{encoder.feed_forward, encoder.hidden};
  return {};
}

} // namespace

Result<Settings> tower_settings(const ModelFile& file, const char* name, nlohmann::json& settings) {
  const Fields all = file.fields();
  if (!all.has(name)) return Settings(file);
  PUMICE_CHECK(all.object(name));
  settings = with_defaults(file, name, std::move(settings));
  return Settings(file, Fields(settings, file.path() + "/config.json", fmt::format("{}.", name)));
}

Result<float> read_number(const ModelFile& file, std::string_view name, float fallback) {
  const TensorView* tensor = file.find(name);
  if (!tensor) return fallback;
  const WeightView view = WeightView::whole(*tensor);
  if (view.rows * view.columns == 1) return decode_vector(view)[0];
  return Error{Code::invalid_file, fmt::format("{}: tensor '{}': expected one number; found {}", file.path(),
                                               name, view.rows * view.columns)};
}

Result<ClipVisionConfig> read_clip_vision_config(const Settings& settings, const ClipVisionFamily& family) {
  ClipVisionConfig config;
  PatchShape& shape = config.patches;
  const SettingName image_size = {"image_size", tower_keys::image_size};
  const SettingName patch_size = {"patch_size", tower_keys::patch_size};
  if (settings.gguf()) { // has no defaults
    PUMICE_CHECK(settings.u32(image_size, 1, max_edge));
    PUMICE_CHECK(settings.u32(patch_size, 1, max_edge));
  }
  PUMICE_TRY(shape.height, settings.u32_or(image_size, 1, max_edge, 224));
  PUMICE_TRY(shape.patch_height, settings.u32_or(patch_size, 1, max_edge, family.siglip ? 16 : 32));
  PUMICE_TRY(shape.channels, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  shape.width = shape.height;
  shape.patch_width = shape.patch_height;
  // A convolution without padding: what is left at the edges is not read.
  if (shape.height < shape.patch_height) {
    return settings.error(patch_size, fmt::format("expected at most the picture's {}; found {}", shape.height,
                                                  shape.patch_height));
  }
  StackConfigNames names = stack_names(family.siglip ? 1e-6f : 1e-5f);
  names.vocabulary = {};
  names.context = {};
  set_tower_names(names);
  PUMICE_TRY(static_cast<StackConfig&>(config.encoder), read_stack_config(settings, names));
  config.class_token = config.norm_before = !family.siglip;
  config.patch_bias = family.siglip;
  if (settings.gguf()) PUMICE_CHECK(read_gguf_form(settings, config));
  config.encoder.kind = InputKind::pixels;
  config.encoder.context = shape.count() + config.class_token;
  config.encoder.input_shape = {shape.channels, shape.height, shape.width};
  return config;
}

LayerNames clip_layer_names(const std::string& prefix) {
  LayerNames names;
  names.hugging_face = prefix + "encoder.layers.{}.";
  names.gguf = "v.blk.{}.";
  names.norm_first = true;
  names.attention.query = {"self_attn.q_proj", "attn_q"};
  names.attention.key = {"self_attn.k_proj", "attn_k"};
  names.attention.value = {"self_attn.v_proj", "attn_v"};
  names.attention.output = {"self_attn.out_proj", "attn_out"};
  names.attention_norm = {"layer_norm1", "ln1"};
  names.up = {"mlp.fc1", "ffn_up"};
  names.down = {"mlp.fc2", "ffn_down"};
  names.feed_forward_norm = {"layer_norm2", "ln2"};
  return names;
}

TensorId build_clip_vision(EncoderBuilder& builder, const ClipVisionConfig& config,
                           const std::string& prefix) {
  Graph& graph = builder.graph();
  const uint32_t hidden = config.encoder.hidden;
  const PatchShape& shape = config.patches;
  builder.prefix(prefix + "embeddings.", "v.");
  const TensorId pixels =
      graph.input("pixel_values", RowKind::outputs, config.encoder.shape().input_values());
  TensorId x = patches(graph, "patches", pixels, shape, config.class_token ? 1 : 0);
  const TensorName name = {"patch_embedding", "patch_embd"};
  const WeightView matrix = builder.flat_tensor(
      name, ".weight", {hidden, shape.channels, shape.patch_height, shape.patch_width}, "embedding");
  std::optional<WeightView> bias;
  if (config.patch_bias) bias = builder.tensor(name, ".bias", hidden, 0, "embedding");
  x = builder.project(x, builder.node_name(name), matrix, bias ? &*bias : nullptr, "embedding");
  if (config.class_token) {
    const WeightView lead = builder.tensor({"class_embedding", "class_embd"}, "", hidden, 0, "embedding");
    x = lead_token(graph, "with_class_token", x, builder.weight(lead, "embedding"));
  }
  x = builder.learned_positions(x, {"position_embedding", "position_embd"});
  builder.prefix(prefix, "v.");
  if (config.norm_before) x = builder.layer_norm(x, {"pre_layrnorm", "pre_ln"}); // so the file has it
  LayerNames names = clip_layer_names(prefix);
  if (config.names_exchanged) std::swap(names.up.gguf, names.down.gguf);
  return builder.run_layers(x, names);
}

Result<EncoderConfig> read_clip_text_config(const Settings& settings, float norm_eps) {
  StackConfigNames names = stack_names(norm_eps);
  names.default_context = 77;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  return config;
}

TensorId build_clip_text(EncoderBuilder& builder, const std::string& prefix) {
  builder.prefix(prefix + "embeddings.", "");
  TensorId x = builder.embed({"token_embedding", ""});
  x = builder.learned_positions(x, {"position_embedding", ""});
  x = builder.run_layers(x, clip_layer_names(prefix));
  builder.prefix(prefix, "");
  return builder.layer_norm(x, {"final_layer_norm", ""});
}

} // namespace pumice
