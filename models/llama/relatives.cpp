#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/decoder/decoder.h"

// Decoders of LLaMA's form by others.
namespace pumice {

namespace {

// SmolLM3's layers without rotary positions: a list, or one of `every` layers.
constexpr uint32_t every = 4; // where a file has no setting for it

Result<std::vector<bool>> read_smollm3_rotated(const Settings& settings, uint32_t layers) {
  const Fields& fields = settings.fields();
  std::vector<bool> rotated(layers);
  if (!settings.gguf() && fields.has("no_rope_layers")) {
    PUMICE_TRY(std::vector<uint32_t> list, fields.u32_array("no_rope_layers", 0, 1));
    if (list.size() != layers) {
      return fields.error("no_rope_layers", fmt::format("expected one for each of the {} layers; found {}",
                                                        layers, list.size()));
    }
    rotated.assign(list.begin(), list.end());
    return rotated;
  }
  PUMICE_TRY(uint32_t period, settings.u32_or({"no_rope_layer_interval", ""}, 1, limits::layers, every));
  for (uint32_t layer = 0; layer < layers; ++layer) rotated[layer] = (layer + 1) % period != 0;
  return rotated;
}

// SmolLM3 (Bakouch et al. 2025): some layers have no rotary positions.
Status describe_smollm3(const Settings& settings, Decoder& d) {
  d.config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(d.rotated, read_smollm3_rotated(settings, d.config.layers));
  PUMICE_TRY(const bool windows, settings.boolean_or({"use_sliding_window", ""}, false));
  if (windows) {
    PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", ""}, 0, limits::context, 0));
    PUMICE_CHECK(
        read_layer_types(settings, window, d.config, [&](uint32_t layer) { return !d.rotated[layer]; }));
  }
  PUMICE_CHECK(d.read_biases(settings));
  d.shown = {
      {"rotated", fmt::format("{} of {} layers", std::ranges::count(d.rotated, true), d.config.layers)}};
  for (uint32_t layer = 0; layer < d.config.layers; ++layer) {
    if (d.rotated[layer] == ((layer + 1) % every != 0)) continue;
    d.refuse_gguf(
        settings, "no_rope_layers",
        fmt::format("have no rotary positions in every {}th layer; layer {} differs", every, layer));
  }
  return {};
}

// StableLM (Bellagente et al. 2024): layer norms, and only some dimensions of each head are rotated.
Status describe_stablelm(const Settings& settings, Decoder& d) {
  d.config.norm.kind = NormKind::layer;
  d.config.gguf_needs_head = true;
  const ModelFile& file = settings.file();
  PUMICE_TRY(const bool normed, settings.boolean_or({"qk_layernorm", ""}, false));
  if (normed || (settings.gguf() && file.find("blk.0.attn_q_norm.weight"))) {
    return Error{Code::unsupported,
                 file.path() +
                     ": norms of queries and keys (qk_layernorm, StableLM 2 12B) are not supported"};
  }
  if (settings.gguf()) {
    d.parallel = file.has_weights() && !file.find("blk.0.ffn_norm.weight");
    d.style.input_bias = file.find("blk.0.attn_q.bias");
  } else {
    PUMICE_TRY(d.parallel, settings.boolean_or({"use_parallel_residual", ""}, false));
    PUMICE_TRY(d.style.input_bias, settings.boolean_or({"use_qkv_bias", ""}, false));
  }
  if (d.parallel) d.norms = one_norm;
  d.shown = {{"residual", d.parallel ? "parallel" : "sequential"}};
  d.gguf_metadata["use_parallel_residual"] = d.parallel;
  return {};
}

// gpt-oss (OpenAI 2025): a sink for each head, a window in every other layer, experts with biases and a
// clamped gate.
Status describe_gpt_oss(const Settings& settings, Decoder& d) {
  constexpr float gguf_limit = 7; // GGUF has no key for it
  d.norms = norms_before_renamed;
  d.sinks = {"self_attn.sinks", "attn_sinks.weight"};
  d.experts.stack = ExpertStack::alternating;
  d.experts.router = {"mlp.router", "ffn_gate_inp"};
  d.experts.gate = {"mlp.experts.gate_up_proj", "ffn_gate_exps"};
  d.experts.up = {"mlp.experts.gate_up_proj", "ffn_up_exps"};
  d.experts.down = {"mlp.experts.down_proj", "ffn_down_exps"};
  PUMICE_CHECK(read_periodic_windows(settings, 128, 2, d.config));
  if (settings.gguf()) d.config.rotary.truncate = false; // GGUF has no key for it
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {}));
  mixture.biases = true;
  mixture.sparse.assign(d.config.layers, true); // whatever else the config says
  PUMICE_TRY(mixture.limit, settings.f32_or({"swiglu_limit", ""}, 1e-3f, 1e6f, gguf_limit));
  if (mixture.limit != gguf_limit)
    d.refuse_gguf(settings, "swiglu_limit", fmt::format("have {}; found {}", gguf_limit, mixture.limit));
  PUMICE_CHECK(d.read_biases(settings, {.attention_by_default = true}));
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  d.gguf_metadata.update(gguf_windows(d.config));
  return {};
}

// MiniMax-M2 (MiniMax 2025): norms over the whole query and key projections, experts chosen by the sigmoid of
// their logits plus a bias.
Status describe_minimax_m2(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("use_qk_norm", true, true));
  PUMICE_CHECK(settings.expect("use_routing_bias", true, true));
  PUMICE_TRY(const std::string score, settings.fields().string_or("scoring_func", "sigmoid"));
  if (score != "sigmoid") {
    return settings.error({"scoring_func", ""}, fmt::format("expected sigmoid; found '{}'", score));
  }
  // config.json counts the rotated dimensions where others have their share.
  const SettingName name = {"rotary_dim", ""};
  uint32_t& dim = d.config.rotary.dim;
  PUMICE_TRY(dim, settings.u32_or(name, 2, limits::head_dim, dim));
  if (dim % 2 || dim > d.config.head_dim) {
    return settings.error(name,
                          fmt::format("expected an even number up to {}; found {}", d.config.head_dim, dim));
  }
  d.whole_norms = true;
  d.experts = mixtral_names;
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = true}));
  mixture.sparse.assign(d.config.layers, true); // whatever else the config says
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  return {};
}

// Command R (Cohere 2024): attention and feed-forward read the same norm, neighbouring dimensions of a head
// are rotated in pairs, and logits are scaled.
constexpr StackConfigNames cohere_names = {.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"},
                                           .default_norm_eps = 1e-5f,
                                           .tied_by_default = true};

Status describe_cohere(const Settings& settings, Decoder& d) {
  PUMICE_TRY(d.head_layer_norms, settings.boolean_or({"use_qk_norm", ""}, false));
  if (settings.gguf()) d.head_layer_norms = settings.file().find("blk.0.attn_q_norm.weight");
  d.norms = one_norm;
  d.parallel = true;
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  d.config.norm = {.kind = NormKind::layer, .bias = false};
  PUMICE_TRY(d.config.logit_scale, settings.f32_or({"logit_scale", "logit_scale"}, 1e-6f, 1e6f, 0.0625f));
  d.gguf_metadata["logit_scale"] = d.config.logit_scale;
  return d.read_biases(settings, attention_biases);
}

// dots.llm1 (rednote-hilab 2025): norms of each head's query and key, experts as DeepSeek V3's.
Status describe_dots1(const Settings& settings, Decoder& d) {
  d.style.head_norms = true;
  d.experts = shared_experts_names;
  PUMICE_TRY(const uint32_t window, settings.u32_or({"sliding_window", ""}, 0, limits::context, 0));
  PUMICE_TRY(const uint32_t first,
             settings.u32_or({"max_window_layers", ""}, 0, limits::layers, d.config.layers));
  if (window) {
    PUMICE_CHECK(
        read_layer_types(settings, window, d.config, [&](uint32_t layer) { return layer >= first; }));
  }
  if (largest_window(d.config)) d.refuse_gguf(settings, "layer_types", "have no windows");
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  PUMICE_TRY(
      MixtureConfig mixture,
      read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = true, .normalise = false}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  return {};
}

// ERNIE 4.5 with experts (Baidu 2025): a bias for the choice beside softmax's shares.
Status describe_ernie4_5_moe(const Settings& settings, Decoder& d) {
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  d.experts = shared_experts_names;
  d.experts.routing_bias.hugging_face = "mlp.moe_statics.e_score_correction_bias";
  d.experts.routing_bias_row = true;
  PUMICE_CHECK(d.read_shown_biases(settings, {.attention = "use_bias", .feed_forward = "use_bias"}));
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {.biased = true}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.gguf_metadata["interleave_moe_layer_step"] = 1u;
  d.set_mixture(settings, std::move(mixture), {.normalise = true, .dense_layers = true});
  return {};
}

// Hunyuan (Tencent 2025): norms of each head's query and key after their rotation.
Status describe_hunyuan(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("use_qk_norm", true, true));
  PUMICE_CHECK(settings.expect("use_cla", false, false));
  d.style.head_norms = d.style.head_norms_after = true;
  d.style.query_norm.hugging_face = "self_attn.query_layernorm";
  d.style.key_norm.hugging_face = "self_attn.key_layernorm";
  return d.read_shown_biases(settings);
}

// The same with experts beside a shared one.
Status describe_hunyuan_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_hunyuan(settings, d));
  d.experts.router.hugging_face = "mlp.gate.wg";
  d.experts.shared = {{"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
                      {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
                      {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
                      "shared_gated"};
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  return {};
}

// InternLM 2 (Cai et al. 2024): LLaMA under other names, with queries, keys and values in one tensor, group
// by group.
Status describe_internlm2(const Settings& settings, Decoder& d) {
  d.config.set_neighbouring_in_gguf(settings.gguf());
  d.names.embedding.hugging_face = "model.tok_embeddings";
  d.names.head.hugging_face = "output";
  d.norms = {{"attention_norm", "attn_norm"}, {}, {"ffn_norm", "ffn_norm"}, {}};
  d.feed_forward.gate.hugging_face = "feed_forward.w1";
  d.feed_forward.up.hugging_face = "feed_forward.w3";
  d.feed_forward.down.hugging_face = "feed_forward.w2";
  d.style.output.hugging_face = "attention.wo";
  if (settings.gguf()) return d.read_biases(settings);
  d.fused_inputs = {{"attention.wqkv", ""}, d.config.kv_heads};
  return d.read_bias(settings, "bias");
}

// OLMoE (Muennighoff et al. 2024): norms over the whole query and key projections.
Status describe_olmoe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(d.read_most_input(settings, {"clip_qkv", "attention.clamp_kqv"}));
  if (d.most_input > 0) d.refuse_gguf(settings, "clip_qkv", "do not limit queries, keys and values");
  d.whole_norms = true;
  if (d.config.kv_heads != d.config.heads)
    d.refuse_gguf(settings, "num_key_value_heads", "have as many of them as of queries");
  PUMICE_CHECK(d.read_bias(settings, "attention_bias"));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.normalise = false, .gguf_normalise = false}));
  d.set_mixture(settings, std::move(mixture), {.normalise = false});
  return {};
}

// Of xIELU, the numbers of each layer as files have them: those that are learned by softplus, and two more.
struct XieluNumbers {
  std::vector<float> rise, fall, slope, end;
  std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors; // of a layer, with their shapes
};

// Hugging Face's file has a tensor of one number for each. The fallback is an untrained model's.
Result<std::vector<float>> read_xielu_number(const Settings& settings, uint32_t layers, std::string_view name,
                                             float fallback, XieluNumbers& numbers) {
  const ModelFile& file = settings.file();
  std::vector<float> values(layers, fallback);
  if (settings.gguf()) {
    const std::string key = fmt::format("xielu.{}", name);
    const GgufArray* list = file.array(key);
    if (list) values = list->floats();
    if (values.size() == layers) return values;
    return file.fields().error(key, fmt::format("expected a number for each of the {} layers", layers));
  }
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const std::string tensor = fmt::format("model.layers.{}.mlp.act_fn.{}", layer, name);
    const TensorView* found = file.find(tensor);
    if (!found) continue;
    const bool one = std::ranges::all_of(found->shape, [](uint64_t size) { return size == 1; });
    if (!one || info(found->type).block_size > 1)
      return file.fields().error(tensor, "expected one number that is not quantised");
    decode_row(found->type, found->data.data(), std::span(values).subspan(layer, 1));
    if (layer == 0) numbers.tensors.emplace_back(fmt::format("mlp.act_fn.{}", name), found->shape);
  }
  return values;
}

Result<XieluNumbers> read_xielu(const Settings& settings, uint32_t layers) {
  const float rise = std::log(std::expm1(0.8f)), fall = std::log(std::expm1(0.3f));
  XieluNumbers numbers;
  PUMICE_TRY(numbers.rise, read_xielu_number(settings, layers, "alpha_p", rise, numbers));
  PUMICE_TRY(numbers.fall, read_xielu_number(settings, layers, "alpha_n", fall, numbers));
  PUMICE_TRY(numbers.slope, read_xielu_number(settings, layers, "beta", 0.5f, numbers));
  PUMICE_TRY(numbers.end, read_xielu_number(settings, layers, "eps", -1e-6f, numbers));
  return numbers;
}

// Apertus (Swiss AI 2025): a feed-forward of xIELU without a gate, norms of each head's query and key.
Status describe_apertus(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("qk_norm", true, true));
  PUMICE_CHECK(settings.expect("post_norm", false, false));
  PUMICE_CHECK(settings.expect("mlp_bias", false, false));
  PUMICE_TRY(const std::string activation, settings.fields().string_or("hidden_act", "xielu"));
  if (activation != "xielu" && !settings.gguf())
    return settings.error({"hidden_act", ""}, fmt::format("expected xielu; found '{}'", activation));
  d.norms = {{"attention_layernorm", "attn_norm"}, {}, {"feedforward_layernorm", "ffn_norm"}, {}};
  d.style.head_norms = true;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  if (d.style.input_bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
  PUMICE_TRY(const XieluNumbers numbers, read_xielu(settings, d.config.layers));
  d.own_feed_forward = [numbers](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    const std::string_view component = "feed-forward";
    for (const auto& [name, shape] : numbers.tensors) builder.shaped_tensor({name, ""}, "", shape, component);
    const auto softplus = [](float v) { return std::log1p(std::exp(v)); };
    const XieluCurve curve = {softplus(numbers.rise[layer]),
                              numbers.slope[layer] + softplus(numbers.fall[layer]), numbers.slope[layer],
                              numbers.end[layer]};
    const GatedNames names;
    const TensorId up = builder.project(x, names.up, builder.config().feed_forward, false, component);
    const TensorId y = xielu(builder.graph(), builder.prefix() + "activated", up, curve);
    return builder.project(y, names.down, builder.config().hidden, false, component);
  };
  d.gguf_bare_metadata = {{"xielu.alpha_p", numbers.rise},
                          {"xielu.alpha_n", numbers.fall},
                          {"xielu.beta", numbers.slope},
                          {"xielu.eps", numbers.end}};
  return {};
}

// BitNet b1.58 (Ma et al. 2024): norms before both output projections, and a gate of squared ReLU (Microsoft
// 2025) or SiLU, which llama.cpp's first files have without saying so.
Status describe_bitnet(const Settings& settings, Decoder& d) {
  if (settings.gguf() && settings.has_tensor(".scale")) {
    return Error{Code::unsupported,
                 settings.file().path() + ": scales of whole matrices (NAME.scale) are not supported"};
  }
  const SettingName name = {"hidden_act", "hidden_activation"};
  PUMICE_TRY(const std::string activation,
             settings.fields().string_or(settings.name(name), settings.gguf() ? "silu" : "relu2"));
  const bool squared = activation == "relu2";
  if (!squared && activation != "silu")
    return settings.error(name, fmt::format("expected relu2 or silu; found '{}'", activation));
  d.config.activation = squared ? Activation::relu : Activation::silu;
  d.config.default_activation = d.config.activation;
  d.gguf_metadata[std::string(name.gguf)] = activation;
  if (!d.config.tied_head) d.refuse_gguf(settings, "tie_word_embeddings", "have true; found false");
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  if (d.style.input_bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
  d.inner_norm = {"self_attn.attn_sub_norm", "attn_sub_norm"};
  d.own_feed_forward = [squared](DecoderBuilder& builder, uint32_t, TensorId x) {
    const std::string_view component = "feed-forward";
    const uint32_t rows = builder.config().feed_forward;
    const GatedNames names;
    const std::string& prefix = builder.prefix();
    TensorId opened = builder.project(x, names.gate, rows, false, component);
    const TensorId up = builder.project(x, names.up, rows, false, component);
    // relu(x) * x is the square of relu(x).
    if (squared) opened = gate(builder.graph(), prefix + "squared", opened, opened, Activation::relu);
    const TensorId y =
        gate(builder.graph(), prefix + "gated", opened, up, squared ? Activation::none : Activation::silu);
    return builder.project(builder.rms_norm(y, {"mlp.ffn_sub_norm", "ffn_sub_norm"}), names.down,
                           builder.config().hidden, false, component);
  };
  return {};
}

// NeoBERT (Le Breton et al. 2025): an encoder of LLaMA's form, whose feed-forward has two thirds of the
// setting's size, up to a multiple of 8. Its file has queries, keys and values head by head, GGUF one after
// the other.
Status describe_neobert(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(settings.expect("ngpt", false, false));
  for (const char* own : {"rope", "rms_norm"}) PUMICE_CHECK(settings.expect(own, true, true));
  if (!settings.gguf()) {
    PUMICE_TRY(std::string kind, settings.fields().string_or("hidden_act", "swiglu"));
    std::ranges::transform(kind, kind.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    if (kind != "swiglu")
      return settings.error({"hidden_act", ""}, fmt::format("expected swiglu; found '{}'", kind));
    config.feed_forward = (2 * config.feed_forward / 3 + 7) / 8 * 8;
    if (settings.file().find("model.encoder.weight")) config.root = "model.";
  }
  config.both_ways = true;
  config.rotary.pairs = RotaryPairs::neighbouring;
  d.names = {.embedding = {"encoder", "token_embd"},
             .layers = "transformer_encoder.{}.",
             .norm = {"layer_norm", "enc.output_norm"}};
  d.norms = {{"attention_norm", "attn_norm"}, {}, {"ffn_norm", "ffn_norm"}, {}};
  d.fused_inputs = {{"qkv", "attn_qkv"}, config.heads};
  d.style.output = {"wo", "attn_output"};
  d.fused_gate = {"ffn.w12", "ffn_up"};
  d.feed_forward.down = {"ffn.w3", "ffn_down"};
  return {};
}

constexpr StackConfigNames squared_relu_names = {
    .activation = {}, .default_norm_eps = 1e-5f, .default_activation = Activation::relu};

} // namespace

Architectures llama_relatives() {
  return {
      decoder("apertus", {"apertus"}, {"apertus"}, {.activation = {}, .default_norm_eps = 1e-5f},
              describe_apertus),
      // AFM (Arcee 2025): a feed-forward of the square of ReLU, without a gate.
      decoder("arcee", {"arcee"}, {"arcee"}, squared_relu_names,
              [](const Settings& settings, Decoder& d) -> Status {
                d.config.set_neighbouring_in_gguf(settings.gguf());
                PUMICE_CHECK(d.read_shown_biases(settings));
                return d.set_squared_relu(settings);
              }),
      decoder("bitnet", {"bitnet"}, {"bitnet"}, {.activation = {}, .default_norm_eps = 1e-5f},
              describe_bitnet),
      decoder("cohere", {"cohere"}, {"command-r"}, cohere_names, describe_cohere),
      // Command R7B and Command A (Cohere 2025): only the layers with a window have rotary positions.
      decoder("cohere2", {"cohere2"}, {"cohere2"}, cohere_names,
              [](const Settings& settings, Decoder& d) -> Status {
                PUMICE_CHECK(describe_cohere(settings, d));
                PUMICE_TRY(uint32_t period,
                           settings.u32_or({"sliding_window_pattern", ""}, 1, limits::layers, 4));
                PUMICE_CHECK(read_periodic_windows(settings, 4096, period, d.config));
                d.rotated.assign(d.config.windows.begin(), d.config.windows.end());
                d.gguf_metadata.update(gguf_windows(d.config));
                return {};
              }),
      decoder("dots1", {"dots1"}, {"dots1"}, {}, describe_dots1),
      // ERNIE 4.5, dense (Baidu 2025): neighbouring dimensions of a head are rotated in pairs.
      decoder("ernie4_5", {"ernie4_5"}, {"ernie4_5"},
              {.default_head_dim = 128, .default_norm_eps = 1e-5f, .tied_by_default = true},
              [](const Settings& settings, Decoder& d) -> Status {
                d.config.rotary.pairs = RotaryPairs::neighbouring;
                return d.read_shown_biases(settings, {.attention = "use_bias", .feed_forward = "use_bias"});
              }),
      decoder("ernie4_5_moe", {"ernie4_5_moe"}, {"ernie4_5-moe"},
              {.default_norm_eps = 1e-5f, .tied_by_default = true}, describe_ernie4_5_moe),
      // EuroBERT (Boizard et al. 2025): an encoder, LLaMA that looks both ways.
      decoder("eurobert", {"eurobert"}, {"eurobert"}, {.default_norm_eps = 1e-5f},
              [](const Settings& settings, Decoder& d) -> Status {
                d.config.both_ways = true;
                return d.read_shown_biases(settings);
              }),
      // EXAONE 4 (LG AI Research 2025): norms after the sublayers, norms of each head's query and key, and
      // rotary positions only in the layers with a window, if there are such.
      decoder("exaone4", {"exaone4"}, {"exaone4"}, {.default_norm_eps = 1e-5f},
              [](const Settings& settings, Decoder& d) -> Status {
                d.norms = norms_after;
                d.style.head_norms = true;
                PUMICE_CHECK(read_periodic_windows(settings, 0, 4, d.config));
                if (largest_window(d.config) == 0) return {};
                d.rotated.assign(d.config.windows.begin(), d.config.windows.end());
                d.gguf_metadata = gguf_windows(d.config);
                return {};
              }),
      decoder("gpt_oss", {"gpt_oss"}, {"gpt-oss"}, {.default_norm_eps = 1e-5f}, describe_gpt_oss),
      decoder("hunyuan_dense", {"hunyuan_v1_dense"}, {"hunyuan-dense"}, {.default_norm_eps = 1e-5f},
              describe_hunyuan),
      decoder("hunyuan_moe", {"hunyuan_v1_moe"}, {"hunyuan-moe"}, {.default_norm_eps = 1e-5f},
              describe_hunyuan_moe),
      decoder("internlm2", {"internlm2"}, {"internlm2"}, {}, describe_internlm2),
      decoder("minimax_m2", {"minimax_m2"}, {"minimax-m2"}, {}, describe_minimax_m2),
      decoder("neobert", {"neobert"}, {"neo-bert"},
              {.context = {"max_length", "context_length"},
               .kv_heads = {},
               .head_dim = {},
               .norm_eps = {"norm_eps", "attention.layer_norm_rms_epsilon"},
               .activation = {},
               .default_context = 1024},
              describe_neobert),
      // OLMo (Groeneveld et al. 2024): layer norms without weights, limits of queries, keys and values.
      decoder("olmo", {"olmo"}, {"olmo"},
              {.norm_eps = {"", "attention.layer_norm_epsilon"}, .default_norm_eps = 1e-5f},
              [](const Settings& settings, Decoder& d) -> Status {
                d.config.set_neighbouring_in_gguf(settings.gguf());
                d.config.norm = {.kind = NormKind::layer, .weight = false, .bias = false};
                PUMICE_CHECK(d.read_most_input(settings, {"clip_qkv", "attention.clamp_kqv"}));
                PUMICE_CHECK(d.read_biases(settings, attention_biases));
                if (d.style.input_bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
                return {};
              }),
      // OLMo 2 (OLMo Team 2025): norms after the sublayers instead of before, and norms over the whole query
      // and key projections. OLMo 3 adds a window to three of four layers, whose rotation is not scaled when
      // the context is extended.
      decoder("olmo2", {"olmo2", "olmo3"}, {"olmo2"}, {.default_norm_eps = 1e-5f},
              [](const Settings& settings, Decoder& d) -> Status {
                d.norms = norms_after;
                d.whole_norms = true;
                d.config.gguf_needs_head = true;
                PUMICE_CHECK(read_periodic_windows(settings, 0, 4, d.config));
                if (largest_window(d.config)) d.gguf_metadata = gguf_windows(d.config);
                RotaryConfig& local = d.rotary_in_windows.emplace();
                local.pairs = d.config.rotary.pairs;
                local.dim = d.config.rotary.dim;
                local.base = d.config.rotary.base;
                return d.read_bias(settings, "attention_bias");
              }),
      decoder("olmoe", {"olmoe"}, {"olmoe"}, {.default_norm_eps = 1e-5f}, describe_olmoe),
      // Phi-3 (Abdin et al. 2024): one tensor holds the query, key and value projections and another one
      // gate and up.
      decoder("phi3", {"phi3"}, {"phi3"}, {.default_norm_eps = 1e-5f},
              [](const Settings& settings, Decoder& d) -> Status {
                d.fused_inputs = {{"self_attn.qkv_proj", "attn_qkv"}};
                d.fused_gate = {"mlp.gate_up_proj", "ffn_up"};
                PUMICE_CHECK(d.read_window(settings, {"sliding_window", "attention.sliding_window"}));
                d.gguf_metadata = {{"attention.sliding_window", d.config.windows[0]},
                                   {"rope.scaling.original_context_length", d.config.original_context
                                                                                ? d.config.original_context
                                                                                : d.config.context}};
                return {};
              }),
      // Seed-OSS (ByteDance Seed Team 2025): biases of queries, keys and values.
      decoder("seed_oss", {"seed_oss"}, {"seed_oss"}, {.default_head_dim = 128},
              [](const Settings& settings, Decoder& d) -> Status {
                d.norms = norms_before_renamed;
                return d.read_shown_biases(settings,
                                           {.output = "attention_out_bias", .attention_by_default = true});
              }),
      decoder("smollm3", {"smollm3"}, {"smollm3"}, {.tied_by_default = true}, describe_smollm3),
      decoder("stablelm", {"stablelm"}, {"stablelm"},
              {.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"},
               .default_norm_eps = 1e-5f,
               .default_rotary_share = 0.25f},
              describe_stablelm),
  };
}

} // namespace pumice
