#include "models/phi3/phi3.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Phi-3 (Abdin et al. 2024): LLaMA's blocks, where one tensor holds the query, key and value projections and
// another one gate and up.
class Phi3 : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before,
          [&](TensorId y) {
            const TensorName name = {"self_attn.qkv_proj", "attn_qkv"};
            return builder.attend_and_project(layer, builder.fused_query_key_value(y, name, 1, false), {});
          },
          [&](TensorId y) { return builder.fused_gated_feed_forward(y); });
    });
  }

  std::string_view gguf_architecture() const override { return "phi3"; }
  nlohmann::json gguf_metadata() const override {
    return {{"attention.sliding_window", config().windows[0]},
            {"rope.scaling.original_context_length",
             config().original_context ? config().original_context : config().context}};
  }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_phi3(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  return std::unique_ptr<ModelDefinition>(std::make_unique<Phi3>(std::move(config), settings.gguf()));
}

} // namespace pumice
