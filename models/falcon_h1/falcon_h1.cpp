#include "models/falcon_h1/falcon_h1.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "model/gguf_model.h"
#include "models/decoder/model.h"
#include "models/recurrence/mamba.h"

namespace pumice {

namespace {

// Factors of what parts of a layer read or give.
struct FalconFactors {
  float attention_input = 1, attention_result = 1, key = 1;
  float mamba_input = 1, mamba_result = 1;
  float gate = 1, down = 1;
};

// Falcon-H1 (TII 2025): attention and Mamba 2 side by side in each layer.
class FalconH1 : public DecoderModel {
public:
  FalconH1(DecoderConfig config, bool gguf, const MambaConfig& mamba, const Biases& biases,
           const FalconFactors& factors)
      : DecoderModel(std::move(config), gguf), mamba_(mamba), biases_(biases), factors_(factors) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    MambaSettingNames own = hybrid_mamba_settings;
    own.output_bias = "projectors_bias";
    PUMICE_CHECK(check_gguf_mamba(mamba_, file, own));
    return DecoderModel::gguf(file);
  }

protected:
  void build(DecoderBuilder& builder) const override {
    DecoderNames names;
    names.norm = {"model.final_layernorm", "output_norm"};
    const BlockNorms norms = {{"input_layernorm", "attn_norm"}, {}, {}, {}};
    uint32_t state = 0;
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms, [&](TensorId y) { return mix(builder, layer, y, state); },
          [&](TensorId y) { return feed_forward(builder, norm_feed_forward(builder, y)); });
    };
    builder.decode(block, names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override { return pumice::hyperparameters(mamba_); }
  std::string_view gguf_architecture() const override { return "falcon-h1"; }
  nlohmann::json gguf_metadata() const override { return gguf_mamba(mamba_); }

private:
  static TensorId scaled(DecoderBuilder& builder, TensorId x, float factor, const char* name) {
    return factor == 1 ? x : scale(builder.graph(), builder.prefix() + name, x, factor);
  }

  // llama.cpp's files have its weight without the usual suffix.
  TensorId norm_feed_forward(DecoderBuilder& builder, TensorId x) const {
    TensorName name = {"pre_ff_layernorm.weight", "ffn_norm"};
    if (builder.has({"", "ffn_norm"}, ".weight")) name.gguf = "ffn_norm.weight";
    const WeightView weight = builder.tensor(name, "", config().hidden, 0, "norms");
    return rms_norm(builder.graph(), builder.prefix() + "feed_forward_input", x,
                    builder.weight(weight, "norms"), config().norm_eps);
  }

  // A projection of x * input, multiplied by `result` where GGUF's weights have both factors already.
  TensorId project(DecoderBuilder& builder, TensorId x, const TensorName& name, uint32_t rows, bool bias,
                   float input, float result) const {
    const std::string_view component = "feed-forward";
    const WeightView matrix = builder.tensor(name, ".weight", rows, builder.graph().tensor(x).columns,
                                             component, {0, 0, 0, input * result});
    std::optional<WeightView> added;
    if (bias) added = builder.tensor(name, ".bias", rows, 0, component, {0, 0, 0, result});
    const std::string node = builder.node_name(name);
    const TensorId y = builder.project(x, node, matrix, added ? &*added : nullptr, component);
    return result == 1 ? y : scale(builder.graph(), node + "_scaled", y, result);
  }

  TensorId mix(DecoderBuilder& builder, uint32_t layer, TensorId x, uint32_t& state) const {
    const TensorId input = scaled(builder, x, factors_.mamba_input, "mamba_input");
    const TensorId mixed = scaled(builder, mamba(builder, input, mamba_, "mamba.", state),
                                  factors_.mamba_result, "mamba_result");
    const bool bias = biases_.attention;
    const float own = factors_.attention_input;
    const TensorId seen = scaled(builder, x, own, "attention_input");
    AttentionInputs inputs;
    inputs.query =
        project(builder, seen, {"self_attn.q_proj", "attn_q"}, config().query_rows(), bias, own, 1);
    inputs.key =
        project(builder, seen, {"self_attn.k_proj", "attn_k"}, config().key_rows(), bias, own, factors_.key);
    inputs.value = project(builder, seen, {"self_attn.v_proj", "attn_v"}, config().key_rows(), bias, own, 1);
    const AttentionStyle style;
    const TensorId attended = project(builder, builder.attend(layer, inputs, style), style.output,
                                      config().hidden, bias, 1, factors_.attention_result);
    return builder.add(mixed, attended, "mixed");
  }

  TensorId feed_forward(DecoderBuilder& builder, TensorId x) const {
    const bool bias = biases_.feed_forward;
    const uint32_t rows = config().feed_forward;
    const TensorId gated =
        project(builder, x, {"feed_forward.gate_proj", "ffn_gate"}, rows, bias, 1, factors_.gate);
    const TensorId up = project(builder, x, {"feed_forward.up_proj", "ffn_up"}, rows, bias, 1, 1);
    const TensorId y = gate(builder.graph(), builder.prefix() + "gated", gated, up, config().activation);
    return project(builder, y, {"feed_forward.down_proj", "ffn_down"}, config().hidden, bias, 1,
                   factors_.down);
  }

  MambaConfig mamba_;
  Biases biases_;
  FalconFactors factors_;
};

Result<MambaConfig> read_falcon_mamba(const Settings& settings) {
  MambaSettingNames names = hybrid_mamba_settings;
  names.output_bias = "projectors_bias";
  PUMICE_TRY(MambaConfig mamba, read_mamba(settings, names));
  if (settings.gguf()) return mamba;
  PUMICE_TRY(mamba.norm, settings.boolean_or({"mamba_rms_norm", ""}, false));
  PUMICE_TRY(mamba.norm_before_gate, settings.boolean_or({"mamba_norm_before_gate", ""}, true));
  mamba.norm_groups = mamba.groups;
  const SettingName columns = {"mamba_d_ssm", ""};
  PUMICE_TRY(const uint32_t found, settings.u32_or(columns, 1, limits::columns, mamba.columns()));
  if (found != mamba.columns()) {
    return settings.error(
        columns, fmt::format("expected {}, the heads' dimensions; found {}", mamba.columns(), found));
  }
  if (!settings.has({"ssm_multipliers", ""})) return mamba;
  PUMICE_TRY(const std::vector<float> factors, settings.fields().f32_array("ssm_multipliers"));
  if (factors.size() != mamba.factors.size()) {
    return settings.error({"ssm_multipliers", ""}, "expected five numbers");
  }
  std::ranges::copy(factors, mamba.factors.begin());
  return mamba;
}

Result<FalconFactors> read_factors(const Settings& settings, DecoderConfig& config) {
  FalconFactors factors;
  for (const auto& [name, to] : {std::pair("attention_in_multiplier", &factors.attention_input),
                                 {"attention_out_multiplier", &factors.attention_result},
                                 {"key_multiplier", &factors.key},
                                 {"ssm_in_multiplier", &factors.mamba_input},
                                 {"ssm_out_multiplier", &factors.mamba_result},
                                 {"embedding_multiplier", &config.embedding_scale},
                                 {"lm_head_multiplier", &config.logit_scale}}) {
    PUMICE_TRY(*to, settings.f32_or({name, ""}, 1e-6f, 1e6f, 1));
  }
  if (!settings.has({"mlp_multipliers", ""})) return factors;
  PUMICE_TRY(const std::vector<float> pair, settings.fields().f32_array("mlp_multipliers"));
  if (pair.size() != 2) return settings.error({"mlp_multipliers", ""}, "expected two numbers");
  factors.gate = pair[0];
  factors.down = pair[1];
  return factors;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_falcon_h1(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(MambaConfig mamba, read_falcon_mamba(settings));
  PUMICE_TRY(const Biases biases, read_biases(settings));
  PUMICE_TRY(const FalconFactors factors, read_factors(settings, config));
  mamba.gguf_input_scale = factors.mamba_input;
  mamba.gguf_result_scale = factors.mamba_result;
  config.gguf_folds_factors = true;
  config.gguf_needs_head = config.embedding_scale != 1 || config.logit_scale != 1;
  for (uint32_t layer = 0; layer < config.layers; ++layer) add_states(mamba, config.states);
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<FalconH1>(std::move(config), settings.gguf(), mamba, biases, factors));
}

} // namespace pumice
