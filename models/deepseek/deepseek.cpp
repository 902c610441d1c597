#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/heads/heads.h"
#include "models/decoder/decoder.h"
#include "models/decoder/rotary.h"
#include "models/deepseek/indexer.h"

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
  bool joint = false;      // one matrix makes keys and values in GGUF's files too
  float score_scale = 1;
  std::optional<Indexer> indexer;

  uint32_t query_dim() const { return unrotated + rotary_dim; }
  uint32_t cached_dim() const { return rotary_dim + rank; }
};

// The norms of compressed queries and of latents do not take the config's epsilon.
constexpr float latent_norm_eps = 1e-6f;

TensorId latent_norm(DecoderBuilder& builder, TensorId x, const TensorName& name) {
  return builder.ModelBuilder::rms_norm(x, name, latent_norm_eps);
}

// What queries are projected from: x, or its normed form of low rank.
TensorId query_input(DecoderBuilder& builder, TensorId x, const LatentAttention& latent) {
  if (!latent.query_rank) return x;
  x = builder.project(x, {"self_attn.q_a_proj", "attn_q_a"}, latent.query_rank, latent.bias, "attention");
  return latent_norm(builder, x, {"self_attn.q_a_layernorm", "attn_q_a_norm"});
}

TensorId query(DecoderBuilder& builder, TensorId x, const LatentAttention& latent) {
  const uint32_t rows = builder.config().heads * latent.query_dim();
  if (!latent.query_rank) return builder.project(x, {"self_attn.q_proj", "attn_q"}, rows, false, "attention");
  return builder.project(x, {"self_attn.q_b_proj", "attn_q_b"}, rows, false, "attention");
}

// The same parts of a matrix that both formats have as it is. Blocks cannot be read transposed: where the
// matrix has some, its keys are made of its numbers.
std::vector<WeightView> joint_matrices(DecoderBuilder& builder, const LatentAttention& latent, bool keys) {
  const uint64_t heads = builder.config().heads, each = latent.unrotated + latent.value_dim;
  WeightView whole =
      builder.tensor({"self_attn.kv_b_proj", "attn_kv_b"}, ".weight", heads * each, latent.rank, "attention");
  if (keys && info(whole.type()).block_size > 1) {
    whole = builder.derived_tensor(
        "kv_b_numbers", {heads * each, latent.rank},
        [stored = whole](std::span<float> to) { std::ranges::copy(decode_vector(stored), to.begin()); });
  }
  std::vector<WeightView> views;
  for (uint64_t head = 0; head < heads; ++head) {
    WeightView view =
        whole.slice(keys ? 0 : head * each + latent.unrotated, keys ? latent.rank : latent.value_dim);
    view.columns = keys ? latent.unrotated : latent.rank;
    view.transposed = keys;
    if (keys) view.first_column = head * each;
    views.push_back(view);
  }
  return views;
}

// The part of kv_b_proj that makes keys, transposed, or the part that makes values.
std::vector<WeightId> head_matrices(DecoderBuilder& builder, const LatentAttention& latent, bool keys) {
  const uint64_t all = latent.unrotated + latent.value_dim;
  const auto views =
      latent.joint ? joint_matrices(builder, latent, keys)
      : keys ? builder.head_tensors({"self_attn.kv_b_proj", "attn_k_b"}, builder.config().heads, latent.rank,
                                    latent.unrotated, {all, 0, 1, 1, true}, "attention")
             : builder.head_tensors({"self_attn.kv_b_proj", "attn_v_b"}, builder.config().heads,
                                    latent.value_dim, latent.rank, {all, latent.unrotated, 1, 1, false},
                                    "attention");
  std::vector<WeightId> ids;
  for (const WeightView& view : views) ids.push_back(builder.weight(view, "attention"));
  return ids;
}

// The cache has one head, whose key is the rotated part and the latent, and whose value is the same numbers:
// rotary_dim + rank for each position. They are never expanded. A head's key is W latent, and
// query . (W latent) = (W^T query) . latent, so W^T is applied to the query before attention; and a weighted
// sum of values V latent is V times the weighted sum of latents, so V is applied to what attention gives.
TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x, const LatentAttention& sizes) {
  Graph& graph = builder.graph();
  const std::string& prefix = builder.prefix();
  const uint32_t heads = builder.config().heads, rank = sizes.rank, rotated = sizes.rotary_dim,
                 unrotated = sizes.unrotated, query_dim = sizes.query_dim();
  const TensorId read = query_input(builder, x, sizes), q = query(builder, read, sizes);
  const TensorId kv = builder.project(x, {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"}, rank + rotated,
                                      sizes.bias, "attention");
  const TensorId compressed = graph.add_tensor({prefix + "compressed", RowKind::tokens, rank, View{kv, 0}});
  const TensorId latent = latent_norm(builder, compressed, {"self_attn.kv_a_layernorm", "attn_kv_a_norm"});

  const TensorId absorbed = head_linear(graph, prefix + "absorbed_query", q, {query_dim, 0, unrotated},
                                        head_matrices(builder, sizes, true));
  AttentionInputs inputs;
  inputs.query = join_heads(graph, prefix + "latent_query", q, {query_dim, unrotated, rotated}, absorbed,
                            {rank, 0, rank}, heads);
  inputs.key = inputs.value =
      join_heads(graph, prefix + "latent_key", kv, {0, rank, rotated}, latent, {0, 0, rank}, 1);
  AttentionStyle style;
  style.score_scale = sizes.score_scale;
  if (sizes.indexer) sizes.indexer->choose(builder, layer, x, read, style);
  const TensorId attended = builder.attend(layer, inputs, style);
  const TensorId values =
      head_linear(graph, prefix + "head_values", attended, {sizes.cached_dim(), rotated, rank},
                  head_matrices(builder, sizes, false));
  return builder.project(values, style.output, builder.config().hidden, sizes.bias, "attention");
}

// GGUF's names of the sizes of a head's whole query and of its value.
struct LatentNames {
  std::string_view query = "attention.key_length_mla", value = "attention.value_length_mla";
  uint32_t default_value_dim = 0; // 0: files have it
};

Result<LatentAttention> read_latent(const Settings& settings, DecoderConfig& config,
                                    const LatentNames& names = {}) {
  LatentAttention latent;
  latent.rotary_dim = config.rotary.dim;
  PUMICE_TRY(latent.query_rank,
             settings.u32_or({"q_lora_rank", "attention.q_lora_rank"}, 0, limits::columns, 0));
  PUMICE_TRY(latent.rank, settings.u32({"kv_lora_rank", "attention.kv_lora_rank"}, 1, limits::columns));
  const SettingName value_dim = {"v_head_dim", names.value};
  if (names.default_value_dim > 0 && !settings.has(value_dim)) {
    latent.value_dim = names.default_value_dim;
  } else {
    PUMICE_TRY(latent.value_dim, settings.u32(value_dim, 1, limits::columns));
  }
  if (settings.gguf()) {
    const SettingName whole = {"", names.query};
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

// The cache has one head of the latent.
void set_latent(Decoder& d, const LatentAttention& latent) {
  DecoderConfig& config = d.config;
  config.kv_heads = 1;
  config.head_dim = latent.cached_dim();
  config.values_are_keys = true;
  d.own_attention = [latent](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    return attend(builder, layer, x, latent);
  };
  d.shown.insert(
      d.shown.end(),
      {{"latent", fmt::format("{}, and {} rotated", latent.rank, latent.rotary_dim)},
       {"query of a head",
        fmt::format("{}{}", latent.query_dim(),
                    latent.query_rank ? fmt::format(", compressed to {}", latent.query_rank) : "")},
       {"value of a head", fmt::format("{}", latent.value_dim)}});
  d.gguf_metadata["attention.kv_lora_rank"] = latent.rank;
  if (latent.query_rank) d.gguf_metadata["attention.q_lora_rank"] = latent.query_rank;
}

Result<MixtureConfig> read_deepseek_mixture(const Settings& settings, const DecoderConfig& config) {
  bool third = false; // V3's routing: by sigmoid, with a bias
  MixtureDefaults defaults;
  if (settings.gguf()) {
    const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", config.layers - 1);
    third = settings.file().find(bias);
    defaults.gguf_normalise = false;
  } else {
    third = settings.architecture() != "deepseek_v2" && settings.architecture() != "deepseek_ocr2_text";
    defaults.dense = settings.architecture() == "glm4_moe_lite";
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

// DeepSeek V2 and V3 (DeepSeek-AI 2024), V3.2 and GLM-5 with an indexer, Kimi K2 (Moonshot AI 2025) and
// GLM-4.7-Flash (GLM Team 2026): multi-head latent attention, and experts beside shared ones after some dense
// layers.
Status describe_deepseek(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  PUMICE_TRY(const bool neighbours, settings.boolean_or({"rope_interleave", ""}, true));
  config.rotary.pairs = neighbours ? RotaryPairs::neighbouring : RotaryPairs::half_split;
  if (!neighbours) d.refuse_gguf(settings, "rope_interleave", "have true; found false");
  const SettingName multiplier = {"", "rope.scaling.yarn_log_multiplier"};
  if (settings.has(multiplier)) {
    PUMICE_TRY(const float tenth, settings.f32_or(multiplier, 0.0f, 1e3f, 0));
    config.rotary.mscale = config.rotary.mscale_all_dim = 10 * tenth;
    config.rotary.attention_factor.reset();
  }
  PUMICE_TRY(LatentAttention latent, read_latent(settings, config));
  PUMICE_TRY(latent.indexer, read_indexer(settings, d));
  if (latent.indexer && !latent.query_rank) {
    return settings.error({"q_lora_rank", "attention.q_lora_rank"},
                          "expected 1 or more: the indexer reads the compressed query");
  }
  PUMICE_TRY(MixtureConfig mixture, read_deepseek_mixture(settings, config));
  d.experts = shared_experts_names;
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  set_latent(d, latent);
  d.gguf_metadata.update({{"attention.value_length", latent.rank},
                          {"attention.key_length_mla", latent.query_dim()},
                          {"attention.value_length_mla", latent.value_dim}});
  if (config.rotary.mscale_all_dim != 0)
    d.gguf_metadata["rope.scaling.yarn_log_multiplier"] = 0.1f * config.rotary.mscale_all_dim;
  return {};
}

// The decoder of DeepSeek-OCR 2 (DeepSeek-AI 2026): V2's experts with LLaMA's attention.
Status describe_ocr2_text(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(d.read_biases(settings));
  PUMICE_TRY(MixtureConfig mixture, read_deepseek_mixture(settings, d.config));
  d.experts = shared_experts_names;
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  return {};
}

// Whether config.json has the field, as null.
bool is_null(const Settings& settings, std::string_view name) {
  const nlohmann::json& all = settings.file().config();
  const auto text = all.find("text_config");
  const nlohmann::json& own = text == all.end() ? all : *text;
  const auto found = own.find(name);
  return found != own.end() && found->is_null();
}

// A factor of config.json, or what llama.cpp has in its place. `null`: what null stands for.
Result<float> read_factor(const Settings& settings, Decoder& d, std::string_view name, float fixed,
                          std::optional<float> null = {}) {
  PUMICE_TRY(float value, settings.f32_or({name, ""}, 1e-6f, 1e6f, fixed));
  if (null && is_null(settings, name)) value = *null;
  if (value != fixed) d.refuse_gguf(settings, name, fmt::format("have {}; found {}", fixed, value));
  return value;
}

// MiniCPM 3 (OpenBMB 2024): the same attention, whose rotary pairs are halves of a head, without experts;
// factors of embeddings, residuals and logits.
Status describe_minicpm3(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(settings.expect("mlp_bias", false, false));
  PUMICE_TRY(LatentAttention latent,
             read_latent(settings, config,
                         {"attention.key_length", "attention.value_length", config.hidden / config.heads}));
  latent.joint = true;
  if (!latent.query_rank) d.refuse_gguf(settings, "q_lora_rank", "have compressed queries");
  if (latent.bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
  const uint32_t heads = config.heads;
  set_latent(d, latent);
  PUMICE_TRY(config.embedding_scale, read_factor(settings, d, "scale_emb", 12));
  const float root = std::sqrt(static_cast<float>(config.layers)), hidden = static_cast<float>(config.hidden);
  PUMICE_TRY(const float depth, read_factor(settings, d, "scale_depth", 1.4f, root));
  PUMICE_TRY(const float base, read_factor(settings, d, "dim_model_base", 256, hidden));
  config.residual_scale = depth / root;
  config.logit_scale = base / hidden;
  d.shown.push_back({"factors of residuals and logits",
                     fmt::format("{:g}, {:g}", config.residual_scale, config.logit_scale)});
  d.gguf_metadata.update({{"attention.head_count_kv", heads},
                          {"attention.key_length", latent.query_dim()},
                          {"attention.value_length", latent.value_dim}});
  return {};
}

} // namespace

Architectures deepseek_models() {
  return {decoder("deepseek",
                  {"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa"},
                  {"deepseek2", "deepseek32", "glm-dsa"},
                  {.kv_heads = {}, .head_dim = {"qk_rope_head_dim", "attention.key_length"}, .value_dim = {}},
                  describe_deepseek),
          decoder("deepseek_ocr2_text", {"deepseek_ocr2_text"}, {}, {}, describe_ocr2_text),
          decoder("minicpm3", {"minicpm3"}, {"minicpm3"},
                  {.kv_heads = {},
                   .head_dim = {"qk_rope_head_dim", "attention.key_length"},
                   .value_dim = {},
                   .default_context = 32768,
                   .default_head_dim = 32,
                   .default_norm_eps = 1e-5f,
                   .tied_by_default = true},
                  describe_minicpm3)};
}

} // namespace pumice
