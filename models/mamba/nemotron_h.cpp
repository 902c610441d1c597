#include <algorithm>

#include <fmt/format.h>

#include "models/mamba/mamba.h"

namespace pumice {

namespace {

constexpr MambaSettingNames nemotron_mamba = {"mamba_num_heads", "mamba_head_dim", "n_groups",
                                              "ssm_state_size",  "conv_kernel",    "use_bias",
                                              "use_bias",        "use_conv_bias"};

// Each layer has one sublayer.
enum class Sublayer { mamba, attention, feed_forward, experts };

// By the names of either form of config.json: a word for each layer, or a letter.
Result<std::vector<Sublayer>> read_sublayers(const Settings& settings) {
  static constexpr std::pair<std::string_view, Sublayer> known[] = {{"mamba", Sublayer::mamba},
                                                                    {"linear_attention", Sublayer::mamba},
                                                                    {"attention", Sublayer::attention},
                                                                    {"full_attention", Sublayer::attention},
                                                                    {"mlp", Sublayer::feed_forward},
                                                                    {"moe", Sublayer::experts},
                                                                    {"M", Sublayer::mamba},
                                                                    {"*", Sublayer::attention},
                                                                    {"-", Sublayer::feed_forward},
                                                                    {"E", Sublayer::experts}};
  const Fields& fields = settings.fields();
  std::string_view name = "layers_block_type";
  std::vector<std::string> words;
  if (fields.has("hybrid_override_pattern")) {
    name = "hybrid_override_pattern";
    PUMICE_TRY(const std::string letters, fields.string(name));
    for (const char letter : letters) words.emplace_back(1, letter);
  } else {
    if (!fields.has(name)) name = "layer_types";
    PUMICE_TRY(words, fields.string_array(name));
  }
  std::vector<Sublayer> sublayers;
  for (const std::string& word : words) {
    const auto found =
        std::ranges::find(known, std::string_view(word), [](const auto& each) { return each.first; });
    if (found == std::end(known)) {
      return fields.error(
          name, fmt::format("expected mamba (M), attention (*), mlp (-) or moe (E); found '{}'", word));
    }
    sublayers.push_back(found->second);
  }
  if (sublayers.empty() || sublayers.size() > limits::layers)
    return fields.error(name, fmt::format("expected 1 to {} layers; found {}", limits::layers, words.size()));
  return sublayers;
}

// In GGUF, layers without heads of keys and without a feed-forward's size are Mamba's.
Result<std::vector<Sublayer>> read_gguf_sublayers(const Settings& settings, DecoderConfig& config) {
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  const SettingName heads = {"", "attention.head_count_kv"}, sizes = {"", "feed_forward_length"};
  std::vector<int64_t> lists[2];
  for (size_t i = 0; i < 2; ++i) {
    const SettingName& name = i ? sizes : heads;
    if (const GgufArray* list = settings.file().array(settings.name(name))) lists[i] = list->integers();
    if (lists[i].size() < config.layers) return settings.error(name, "expected a value for each layer");
  }
  std::vector<Sublayer> sublayers(config.layers, Sublayer::mamba);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const int64_t kv_heads = lists[0][layer], rows = lists[1][layer];
    if (kv_heads < 0 || kv_heads > limits::heads || rows < 0 || rows > 4 * int64_t{limits::columns})
      return settings.error(heads, "expected whole numbers that are not negative");
    if (kv_heads > 0) {
      sublayers[layer] = Sublayer::attention;
      config.kv_heads = static_cast<uint32_t>(kv_heads);
    } else if (rows > 0) {
      const bool sparse = settings.file().find(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
      sublayers[layer] = sparse ? Sublayer::experts : Sublayer::feed_forward;
      if (!sparse) config.feed_forward = static_cast<uint32_t>(rows);
    }
  }
  return sublayers;
}

Result<MixtureConfig> read_nemotron_mixture(const Settings& settings, const DecoderConfig& config) {
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, config, {.score = ExpertScore::sigmoid, .biased = true}));
  mixture.ungated = true;
  mixture.sparse.assign(config.layers, true); // read_sublayers() says which are
  const SettingName shared = {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"};
  PUMICE_TRY(mixture.shared_feed_forward, settings.u32_or(shared, 0, 4 * limits::columns, 0));
  PUMICE_TRY(mixture.latent, settings.u32_or({"moe_latent_size", "moe_latent_size"}, 0, limits::columns, 0));
  return mixture;
}

MixtureNames nemotron_experts() {
  MixtureNames names;
  names.router.hugging_face = "mixer.gate";
  names.routing_bias.hugging_face = "mixer.gate.e_score_correction_bias";
  names.up.hugging_face = "mixer.experts.{}.up_proj";
  names.down.hugging_face = "mixer.experts.{}.down_proj";
  names.result.hugging_face = "mixer";
  names.shared.up = {"mixer.shared_experts.up_proj", "ffn_up_shexp"};
  names.shared.down = {"mixer.shared_experts.down_proj", "ffn_down_shexp"};
  names.to_latent.hugging_face = "mixer.fc1_latent_proj";
  names.from_latent.hugging_face = "mixer.fc2_latent_proj";
  return names;
}

TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x) {
  const DecoderConfig& config = builder.config();
  const auto projected = [&](const TensorName& name, uint32_t rows) {
    return builder.project(x, name, rows, false, "attention");
  };
  AttentionInputs inputs;
  inputs.query = projected({"mixer.q_proj", "attn_q"}, config.query_rows());
  inputs.key = projected({"mixer.k_proj", "attn_k"}, config.key_rows());
  inputs.value = projected({"mixer.v_proj", "attn_v"}, config.key_rows());
  AttentionStyle style;
  style.output.hugging_face = "mixer.o_proj";
  return builder.attend_and_project(layer, inputs, style);
}

// What llama.cpp has for each layer.
void add_nemotron_metadata(const Settings& settings, const std::vector<Sublayer>& sublayers, Decoder& d) {
  const auto has = [&](Sublayer kind) { return std::ranges::find(sublayers, kind) != sublayers.end(); };
  nlohmann::json heads = nlohmann::json::array(), sizes = nlohmann::json::array();
  for (const Sublayer each : sublayers) {
    heads.push_back(each == Sublayer::attention ? d.config.kv_heads : 0);
    sizes.push_back(each == Sublayer::experts        ? d.mixture->feed_forward
                    : each == Sublayer::feed_forward ? d.config.feed_forward
                                                     : 0);
  }
  d.gguf_metadata["attention.head_count_kv"] = heads;
  d.gguf_metadata["feed_forward_length"] = sizes;
  d.gguf_name = d.mixture ? "nemotron_h_moe" : "nemotron_h";
  if (d.mixture && has(Sublayer::feed_forward))
    d.refuse_gguf(settings, "layers_block_type", "have experts in place of all feed-forwards, or none");
}

// Nemotron-H and Nemotron 3 (Nvidia 2025): Mamba 2, attention without positions, a feed-forward of squared
// ReLU or experts of it, one of them in each layer.
Status describe_nemotron_h(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(settings.expect("attention_bias", false, false));
  for (const auto& [name, only] : {std::pair("mlp_hidden_act", "relu2"), {"mamba_hidden_act", "silu"}}) {
    PUMICE_TRY(const std::string found, settings.fields().string_or(settings.gguf() ? "" : name, only));
    if (found != only) return settings.error({name, ""}, fmt::format("expected {}; found '{}'", only, found));
  }
  std::vector<Sublayer> sublayers;
  if (settings.gguf()) {
    PUMICE_TRY(sublayers, read_gguf_sublayers(settings, config));
    d.feed_forward_bias = settings.has_tensor(".ffn_up.bias");
  } else {
    PUMICE_TRY(sublayers, read_sublayers(settings));
    PUMICE_TRY(d.feed_forward_bias, settings.boolean_or({"mlp_bias", ""}, false));
  }
  config.layers = static_cast<uint32_t>(sublayers.size());
  config.windows.assign(config.layers, 0);
  std::vector<bool> mixes;
  for (const Sublayer each : sublayers) {
    config.attends.push_back(each == Sublayer::attention);
    mixes.push_back(each == Sublayer::mamba);
  }
  PUMICE_TRY(MambaConfig mixer, read_mamba(settings, nemotron_mamba));
  mixer.norm_groups = mixer.groups;
  add_mamba(settings, mixer, nemotron_mamba, d, mixes);
  if (std::ranges::find(sublayers, Sublayer::experts) != sublayers.end()) {
    PUMICE_TRY(MixtureConfig mixture, read_nemotron_mixture(settings, config));
    if (d.feed_forward_bias) return settings.error({"mlp_bias", ""}, "biases of experts are not supported");
    d.experts = nemotron_experts();
    d.set_mixture(settings, std::move(mixture), {});
  }
  add_nemotron_metadata(settings, sublayers, d);
  const std::string root = settings.file().find("model.norm_f.weight") ? "model." : "backbone.";
  // transformers saves the table under another name than the published files have.
  const std::string table = root + (settings.has_tensor(".embedding.weight") ? "embedding" : "embeddings");
  d.own_build = [=](const Decoder& own, DecoderBuilder& builder) {
    const std::string norm = root + "norm_f", layers = root + "layers.{}.";
    const bool bias = own.feed_forward_bias;
    const auto sublayer = [&](uint32_t layer, TensorId x) {
      switch (sublayers[layer]) {
      case Sublayer::mamba:
        return mamba(builder, x, mixer, "mixer.");
      case Sublayer::attention:
        return attend(builder, layer, x);
      case Sublayer::experts:
        return mixture(builder, x, *own.mixture, own.experts);
      case Sublayer::feed_forward:
        break;
      }
      return builder.squared_feed_forward(x, {"mixer.up_proj", "ffn_up"}, {"mixer.down_proj", "ffn_down"},
                                          builder.config().feed_forward, bias);
    };
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.add(sublayer(layer, builder.norm(x, {"norm", "attn_norm"})), x, "residual");
    };
    builder.decode(block,
                   {.embedding = {table, "token_embd"}, .layers = layers, .norm = {norm, "output_norm"}});
  };
  return {};
}

} // namespace

Architectures nemotron_h_models() {
  return {decoder("nemotron_h", {"nemotron_h"}, {"nemotron_h", "nemotron_h_moe"},
                  {.layers = {"", "block_count"},           // config.json has a list
                   .kv_heads = {"num_key_value_heads", ""}, // GGUF has lists
                   .feed_forward = {"intermediate_size", ""},
                   .norm_eps = {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
                   .activation = {},
                   .default_context = 4096,
                   .default_head_dim = 128,
                   .default_norm_eps = 1e-5f,
                   .default_activation = Activation::relu,
                   .rotary = false},
                  describe_nemotron_h)};
}

} // namespace pumice
