#include "models/llama4/llama4.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/gguf_model.h"
#include "models/decoder/mixture.h"

namespace pumice {

namespace {

// What GGUF has no keys for, and transformers takes where config.json says nothing.
constexpr uint32_t standard_chunk = 8192, standard_length = 8192, standard_period = 4;
constexpr float standard_growth = 0.1f;
constexpr uint32_t most_normed_experts = 64; // llama.cpp: the model with 128 experts has no norms of heads

struct Llama4Own {
  std::vector<bool> rotated; // by layer; the others' queries grow with their position
  RotaryConfig growing;      // for those
  bool head_norms = false;   // of rotated layers
};

// Llama 4, text (Meta 2025): chunked attention, some layers without rotary positions, one of many experts for
// a token, whose input is multiplied by the sigmoid of its logit, beside a shared one.
class Llama4 : public MixtureModel {
public:
  Llama4(DecoderConfig config, bool gguf, MixtureConfig mixture, Llama4Own own)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), own_(std::move(own)) {}

  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  void build(DecoderBuilder& builder) const override;
  std::string_view gguf_architecture() const override { return "llama4"; }
  GgufMixtureRule gguf_rule() const override { return {false, false}; }
  nlohmann::json gguf_metadata() const override;
  std::vector<Hyperparameter> own_hyperparameters() const override;

private:
  AttentionStyle style(uint32_t layer) const;
  uint32_t step() const; // of layers with experts
  std::string_view unlike_gguf() const;

  Llama4Own own_;
};

AttentionStyle Llama4::style(uint32_t layer) const {
  AttentionStyle style;
  style.chunked = config().windows[layer] > 0;
  if (own_.rotated[layer]) {
    style.head_norms = style.unit_head_norms = own_.head_norms;
  } else {
    style.rotary = &own_.growing;
  }
  return style;
}

void Llama4::build(DecoderBuilder& builder) const {
  const GatedNames dense = {{"feed_forward.gate_proj", "ffn_gate"},
                            {"feed_forward.up_proj", "ffn_up"},
                            {"feed_forward.down_proj", "ffn_down"}};
  MixtureNames names;
  names.stack = ExpertStack::gate_first;
  names.router = {"feed_forward.router", "ffn_gate_inp"};
  names.gate = {"feed_forward.experts.gate_up_proj", "ffn_gate_exps"};
  names.up = {"feed_forward.experts.gate_up_proj", "ffn_up_exps"};
  names.down = {"feed_forward.experts.down_proj", "ffn_down_exps"};
  names.result = {"feed_forward", "experts"};
  names.shared = {{"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                  {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                  {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
                  "shared_gated"};
  builder.decode([&](uint32_t layer, TensorId x) {
    const auto feed_forward = [&](TensorId y) {
      return mixture().sparse[layer] ? pumice::mixture(builder, y, mixture(), names)
                                     : builder.gated_feed_forward(y, dense, config().feed_forward);
    };
    const AttentionStyle own = style(layer);
    return builder.block(
        x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, own); }, feed_forward);
  });
}

uint32_t Llama4::step() const {
  return mixture().dense_layers() + 1;
}

// The setting that llama.cpp takes to be another.
std::string_view Llama4::unlike_gguf() const {
  for (uint32_t layer = 0; layer < config().layers; ++layer) {
    const bool rotated = (layer + 1) % standard_period != 0;
    if (own_.rotated[layer] != rotated) return "no_rope_layers";
    if (config().windows[layer] != (rotated ? standard_chunk : 0)) return "attention_chunk_size";
    if (mixture().sparse[layer] != ((layer + 1) % step() == 0)) return "moe_layers";
  }
  if (own_.growing.query_growth != standard_growth) return "attn_scale";
  if (own_.growing.original_context != standard_length) return "floor_scale";
  if (own_.head_norms != (mixture().experts <= most_normed_experts)) return "use_qk_norm";
  return {};
}

Result<GgufModel> Llama4::gguf(const ModelFile& file) const {
  const std::string_view field = unlike_gguf();
  if (field.empty()) return DecoderModel::gguf(file);
  return Error{
      Code::unsupported,
      fmt::format("{}: field '{}': GGUF's llama4 models have another value, which no key of GGUF changes",
                  file.path(), field)};
}

nlohmann::json Llama4::gguf_metadata() const {
  nlohmann::json metadata = MixtureModel::gguf_metadata();
  metadata.erase("leading_dense_block_count");
  metadata["interleave_moe_layer_step"] = step();
  return metadata;
}

std::vector<Hyperparameter> Llama4::own_hyperparameters() const {
  std::vector<Hyperparameter> all = MixtureModel::own_hyperparameters();
  const auto rotated = std::ranges::count(own_.rotated, true);
  all.push_back({"rotated", fmt::format("{} of {} layers", rotated, config().layers)});
  all.push_back({"query growth", fmt::format("{:g}, every {} tokens, in the others",
                                             own_.growing.query_growth, own_.growing.original_context)});
  return all;
}

// A list of a value for each layer, or one of `period` layers has none.
Result<std::vector<bool>> read_rotated_layers(const Settings& settings, uint32_t layers) {
  const Fields& fields = settings.fields();
  std::vector<uint32_t> list;
  if (!settings.gguf()) {
    PUMICE_TRY(list, fields.u32_array_or_empty("no_rope_layers", 0, 1));
  }
  if (!list.empty() && list.size() != layers) {
    return fields.error("no_rope_layers",
                        fmt::format("expected one for each of the {} layers; found {}", layers, list.size()));
  }
  PUMICE_TRY(uint32_t period,
             settings.u32_or({"no_rope_layer_interval", ""}, 1, limits::layers, standard_period));
  std::vector<bool> rotated(list.begin(), list.end());
  for (uint32_t layer = 0; list.empty() && layer < layers; ++layer)
    rotated.push_back((layer + 1) % period != 0);
  return rotated;
}

// In GGUF a window of 0 says that all layers are as the rotated ones, without chunks.
Status read_chunks(const Settings& settings, DecoderConfig& config, Llama4Own& own) {
  const SettingName gguf_window = {"", "attention.sliding_window"};
  PUMICE_TRY(uint32_t window, settings.u32_or(gguf_window, 0, limits::context, standard_chunk));
  PUMICE_TRY(uint32_t chunk,
             settings.u32_or({"attention_chunk_size", ""}, 1, limits::context, standard_chunk));
  if (window == 0) {
    own.rotated.assign(config.layers, true);
    return {};
  }
  std::vector<std::string> types;
  if (settings.has({"layer_types", ""})) {
    PUMICE_TRY(types, settings.fields().string_array("layer_types"));
    if (types.size() != config.layers) {
      return settings.error(
          {"layer_types", ""},
          fmt::format("expected one for each of the {} layers; found {}", config.layers, types.size()));
    }
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool listed = !types.empty();
    const bool chunked = listed ? types[layer] == "chunked_attention" : own.rotated[layer];
    if (listed && !chunked && types[layer] != "full_attention") {
      return settings.error(
          {"layer_types", ""},
          fmt::format("expected chunked_attention or full_attention; found '{}'", types[layer]));
    }
    config.windows[layer] = chunked ? chunk : 0;
  }
  return {};
}

Result<std::vector<bool>> read_sparse_layers(const Settings& settings, uint32_t layers) {
  std::vector<bool> sparse(layers);
  const Fields& fields = settings.fields();
  if (!settings.gguf() && fields.has("moe_layers")) {
    PUMICE_TRY(std::vector<uint32_t> list, fields.u32_array("moe_layers", 0, layers - 1));
    for (uint32_t layer : list) sparse[layer] = true;
    return sparse;
  }
  PUMICE_TRY(uint32_t step, settings.u32_or({"interleave_moe_layer_step", "interleave_moe_layer_step"}, 1,
                                            limits::layers, 1));
  for (uint32_t layer = 0; layer < layers; ++layer) sparse[layer] = (layer + 1) % step == 0;
  return sparse;
}

Result<Llama4Own> read_llama4_own(const Settings& settings, const MixtureConfig& mixture,
                                  DecoderConfig& config) {
  Llama4Own own;
  PUMICE_TRY(own.rotated, read_rotated_layers(settings, config.layers));
  PUMICE_CHECK(read_chunks(settings, config, own));
  PUMICE_TRY(bool grows, settings.boolean_or({"attn_temperature_tuning", ""}, true));
  if (grows) {
    PUMICE_TRY(own.growing.query_growth, settings.f32_or({"attn_scale", ""}, 0.0f, 1e6f, standard_growth));
    PUMICE_TRY(own.growing.original_context,
               settings.u32_or({"floor_scale", ""}, 1, limits::context, standard_length));
    own.growing.growth_start = 1;
  }
  PUMICE_TRY(own.head_norms, settings.boolean_or({"use_qk_norm", ""}, true));
  if (settings.gguf()) own.head_norms = mixture.experts <= most_normed_experts;
  return own;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_llama4(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_CHECK(settings.expect("attention_bias", false, false));
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  names.default_head_dim = 128;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.rotary.pairs = RotaryPairs::neighbouring;
  const MixtureDefaults defaults = {ExpertScore::sigmoid, false, false, false};
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, config, defaults)); // intermediate_size is the experts'
  PUMICE_TRY(config.feed_forward,
             settings.u32_or({"intermediate_size_mlp", ""}, 1, 4 * limits::columns, config.feed_forward));
  mixture.shared_feed_forward = mixture.feed_forward;
  mixture.scaled_inputs = true;
  PUMICE_TRY(mixture.sparse, read_sparse_layers(settings, config.layers));
  PUMICE_TRY(Llama4Own own, read_llama4_own(settings, mixture, config));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Llama4>(std::move(config), settings.gguf(), std::move(mixture), std::move(own)));
}

} // namespace pumice
