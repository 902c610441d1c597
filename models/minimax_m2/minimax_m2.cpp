#include "models/minimax_m2/minimax_m2.h"

#include <fmt/format.h>

#include "models/decoder/mixture.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// MiniMax-M2 (MiniMax 2025): norms over the whole query and key projections, experts chosen by the sigmoid of
// their logits plus a bias.
class MiniMaxM2 : public MixtureModel {
public:
  using MixtureModel::MixtureModel;

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.normed_self_attention(layer, y, {}); },
          [&](TensorId y) { return pumice::mixture(builder, y, mixture(), mixtral_names); });
    });
  }

  std::string_view gguf_architecture() const override { return "minimax-m2"; }
  GgufMixtureRule gguf_rule() const override { return {true, false}; }
};

// config.json counts the rotated dimensions where others have their share.
Status read_rotary_dim(const Settings& settings, DecoderConfig& config) {
  const SettingName name = {"rotary_dim", ""};
  PUMICE_TRY(uint32_t dim, settings.u32_or(name, 2, limits::head_dim, config.rotary.dim));
  if (dim % 2 || dim > config.head_dim) {
    return settings.error(name,
                          fmt::format("expected an even number up to {}; found {}", config.head_dim, dim));
  }
  config.rotary.dim = dim;
  return {};
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_minimax_m2(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(settings.expect("use_qk_norm", true, true));
  PUMICE_CHECK(settings.expect("use_routing_bias", true, true));
  PUMICE_TRY(std::string score, settings.fields().string_or("scoring_func", "sigmoid"));
  if (score != "sigmoid") {
    return settings.error({"scoring_func", ""}, fmt::format("expected sigmoid; found '{}'", score));
  }
  DecoderConfigNames names;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(read_rotary_dim(settings, config));
  MixtureDefaults defaults;
  defaults.score = ExpertScore::sigmoid;
  defaults.biased = true;
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, defaults));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<MiniMaxM2>(std::move(config), settings.gguf(), std::move(mixture)));
}

} // namespace pumice
