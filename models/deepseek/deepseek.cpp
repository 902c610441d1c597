#include "models/deepseek/deepseek.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/heads/heads.h"
#include "model/gguf_model.h"
#include "models/decoder/mixture.h"
#include "models/decoder/model.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

// Sizes of multi-head latent attention.
struct LatentAttention {
  uint32_t query_rank = 0; // of the compressed query; 0: it is not compressed
  uint32_t rank = 0;       // of the latent, from which a position's keys and values are made
  uint32_t rotary_dim = 0; // of a head's query and key; the key's part is one for all heads
  uint32_t unrotated = 0;  // the others
  uint32_t value_dim = 0;  // of a head
  bool bias = false;       // of the projections from and to the hidden columns
  float score_scale = 1;

  uint32_t query_dim() const { return unrotated + rotary_dim; }
  uint32_t cached_dim() const { return rotary_dim + rank; }
};

// The norms of compressed queries and of latents do not take the config's epsilon.
constexpr float latent_norm_eps = 1e-6f;

// DeepSeek V2 and V3 (DeepSeek-AI 2024): multi-head latent attention, and experts beside shared ones after
// some dense layers.
//
// The cache has one head, whose key is the rotated part and the latent, and whose value is the same numbers:
// rotary_dim + rank for each position. They are never expanded. A head's key is W latent, and
// query . (W latent) = (W^T query) . latent, so W^T is applied to the query before attention; and a weighted
// sum of values V latent is V times the weighted sum of latents, so V is applied to what attention gives.
class Deepseek : public MixtureModel {
public:
  Deepseek(DecoderConfig config, bool gguf, MixtureConfig mixture, const LatentAttention& latent)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), latent_(latent) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    if (config().rotary.pairs == RotaryPairs::neighbouring) return MixtureModel::gguf(file);
    return Error{Code::unsupported,
                 fmt::format("{}: field 'rope_interleave': GGUF's deepseek2 models have true; found false",
                             file.path())};
  }

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return attend(builder, layer, y); },
          [&](TensorId y) { return mixture_or_dense(builder, layer, y, mixture(), shared_experts_names); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    std::vector<Hyperparameter> all = MixtureModel::own_hyperparameters();
    all.push_back({"latent", fmt::format("{}, and {} rotated", latent_.rank, latent_.rotary_dim)});
    all.push_back(
        {"query of a head",
         fmt::format("{}{}", latent_.query_dim(),
                     latent_.query_rank ? fmt::format(", compressed to {}", latent_.query_rank) : "")});
    all.push_back({"value of a head", fmt::format("{}", latent_.value_dim)});
    return all;
  }
  std::string_view gguf_architecture() const override { return "deepseek2"; }
  GgufMixtureRule gguf_rule() const override { return {std::nullopt, true}; }
  nlohmann::json gguf_metadata() const override;

private:
  TensorId query(DecoderBuilder& builder, TensorId x) const {
    const uint32_t rows = config().heads * latent_.query_dim();
    if (!latent_.query_rank)
      return builder.project(x, {"self_attn.q_proj", "attn_q"}, rows, false, "attention");
    x = builder.project(x, {"self_attn.q_a_proj", "attn_q_a"}, latent_.query_rank, latent_.bias, "attention");
    x = norm(builder, x, {"self_attn.q_a_layernorm", "attn_q_a_norm"});
    return builder.project(x, {"self_attn.q_b_proj", "attn_q_b"}, rows, false, "attention");
  }

  TensorId norm(DecoderBuilder& builder, TensorId x, const TensorName& name) const {
    return builder.ModelBuilder::rms_norm(x, name, latent_norm_eps);
  }

  // The part of kv_b_proj that makes keys, transposed, or the part that makes values.
  std::vector<WeightId> head_matrices(DecoderBuilder& builder, bool keys) const {
    const uint64_t all = latent_.unrotated + latent_.value_dim;
    const auto views =
        keys ? builder.head_tensors({"self_attn.kv_b_proj", "attn_k_b"}, config().heads, latent_.rank,
                                    latent_.unrotated, {all, 0, 1, 1, true}, "attention")
             : builder.head_tensors({"self_attn.kv_b_proj", "attn_v_b"}, config().heads, latent_.value_dim,
                                    latent_.rank, {all, latent_.unrotated, 1, 1, false}, "attention");
    std::vector<WeightId> ids;
    for (const WeightView& view : views) ids.push_back(builder.weight(view, "attention"));
    return ids;
  }

  TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    Graph& graph = builder.graph();
    const std::string& prefix = builder.prefix();
    const uint32_t heads = config().heads, rank = latent_.rank, rotated = latent_.rotary_dim,
                   unrotated = latent_.unrotated, query_dim = latent_.query_dim();
    const TensorId q = query(builder, x);
    const TensorId kv = builder.project(x, {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"}, rank + rotated,
                                        latent_.bias, "attention");
    const TensorId compressed = graph.add_tensor({prefix + "compressed", RowKind::tokens, rank, View{kv, 0}});
    const TensorId latent = norm(builder, compressed, {"self_attn.kv_a_layernorm", "attn_kv_a_norm"});

    const TensorId absorbed = head_linear(graph, prefix + "absorbed_query", q, {query_dim, 0, unrotated},
                                          head_matrices(builder, true));
    AttentionInputs inputs;
    inputs.query = join_heads(graph, prefix + "latent_query", q, {query_dim, unrotated, rotated}, absorbed,
                              {rank, 0, rank}, heads);
    inputs.key = inputs.value =
        join_heads(graph, prefix + "latent_key", kv, {0, rank, rotated}, latent, {0, 0, rank}, 1);
    AttentionStyle style;
    style.score_scale = latent_.score_scale;
    const TensorId attended = builder.attend(layer, inputs, style);
    const TensorId values = head_linear(graph, prefix + "head_values", attended,
                                        {latent_.cached_dim(), rotated, rank}, head_matrices(builder, false));
    return builder.project(values, style.output, config().hidden, latent_.bias, "attention");
  }

  LatentAttention latent_;
};

nlohmann::json Deepseek::gguf_metadata() const {
  nlohmann::json metadata = MixtureModel::gguf_metadata();
  if (latent_.query_rank) metadata["attention.q_lora_rank"] = latent_.query_rank;
  metadata["attention.kv_lora_rank"] = latent_.rank;
  metadata["attention.value_length"] = latent_.rank;
  metadata["attention.key_length_mla"] = latent_.query_dim();
  metadata["attention.value_length_mla"] = latent_.value_dim;
  if (config().rotary.mscale_all_dim != 0)
    metadata["rope.scaling.yarn_log_multiplier"] = 0.1f * config().rotary.mscale_all_dim;
  return metadata;
}

Result<LatentAttention> read_latent(const Settings& settings, DecoderConfig& config) {
  LatentAttention latent;
  latent.rotary_dim = config.rotary.dim;
  PUMICE_TRY(latent.query_rank,
             settings.u32_or({"q_lora_rank", "attention.q_lora_rank"}, 0, limits::columns, 0));
  PUMICE_TRY(latent.rank, settings.u32({"kv_lora_rank", "attention.kv_lora_rank"}, 1, limits::columns));
  const SettingName value_dim = {"v_head_dim", "attention.value_length_mla"};
  PUMICE_TRY(latent.value_dim, settings.u32(value_dim, 1, limits::columns));
  if (settings.gguf()) {
    const SettingName whole = {"", "attention.key_length_mla"};
    PUMICE_TRY(const uint32_t query_dim, settings.u32(whole, 1, limits::columns));
    if (query_dim <= latent.rotary_dim) {
      return settings.error(whole, fmt::format("expected more than the {} rotated dimensions; found {}",
                                               latent.rotary_dim, query_dim));
    }
    latent.unrotated = query_dim - latent.rotary_dim;
    latent.bias = settings.file().find("blk.0.attn_kv_a_mqa.bias");
  } else {
    PUMICE_TRY(latent.unrotated, settings.u32({"qk_nope_head_dim", ""}, 1, limits::columns));
    PUMICE_TRY(latent.bias, settings.boolean_or({"attention_bias", ""}, false));
  }
  if (latent.cached_dim() > limits::head_dim) {
    return settings.error({"kv_lora_rank", "attention.kv_lora_rank"},
                          fmt::format("expected at most {} with the {} rotated dimensions; found {}",
                                      limits::head_dim, latent.rotary_dim, latent.rank));
  }
  // YaRN's factor of the scores, once for queries and once for keys.
  const RotaryConfig& rotary = config.rotary;
  double magnitude = 1;
  if (rotary.scaling == RotaryScaling::yarn && rotary.factor > 1)
    magnitude += 0.1 * rotary.mscale_all_dim * std::log(double{rotary.factor});
  latent.score_scale = static_cast<float>(magnitude * magnitude / std::sqrt(double{1} * latent.query_dim()));
  return latent;
}

Result<MixtureConfig> read_deepseek_mixture(const Settings& settings, const DecoderConfig& config) {
  bool third = false; // V3's routing: by sigmoid, with a bias
  MixtureDefaults defaults;
  if (settings.gguf()) {
    const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", config.layers - 1);
    third = settings.file().find(bias);
    defaults.gguf_normalise = false;
  } else {
    third = settings.architecture() == "deepseek_v3";
  }
  defaults.normalise = defaults.biased = third;
  defaults.score = third ? ExpertScore::sigmoid : ExpertScore::softmax;
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, defaults));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  mixture.routing.group_best = third ? 2 : 1;
  if (settings.gguf() || third) return mixture;
  const SettingName method = {"topk_method", ""};
  PUMICE_TRY(const std::string name, settings.fields().string_or("topk_method", "greedy"));
  if (name != "greedy" && name != "group_limited_greedy")
    return settings.error(method, fmt::format("expected greedy or group_limited_greedy; found '{}'", name));
  if (name == "greedy") mixture.routing.groups = mixture.routing.used_groups = 1;
  return mixture;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_deepseek(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.kv_heads = names.value_dim = {};
  names.head_dim = {"qk_rope_head_dim", "attention.key_length"};
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  PUMICE_TRY(const bool neighbours, settings.boolean_or({"rope_interleave", ""}, true));
  config.rotary.pairs = neighbours ? RotaryPairs::neighbouring : RotaryPairs::half_split;
  const SettingName multiplier = {"", "rope.scaling.yarn_log_multiplier"};
  if (settings.has(multiplier)) {
    PUMICE_TRY(const float tenth, settings.f32_or(multiplier, 0.0f, 1e3f, 0));
    config.rotary.mscale = config.rotary.mscale_all_dim = 10 * tenth;
    config.rotary.attention_factor.reset();
  }
  PUMICE_TRY(const LatentAttention latent, read_latent(settings, config));
  config.kv_heads = 1;
  config.head_dim = latent.cached_dim();
  config.values_are_keys = true;
  PUMICE_TRY(MixtureConfig mixture, read_deepseek_mixture(settings, config));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Deepseek>(std::move(config), settings.gguf(), std::move(mixture), latent));
}

} // namespace pumice
