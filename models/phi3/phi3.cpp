#include "models/phi3/phi3.h"

#include "kernel/elementwise/elementwise.h"
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
      return builder.pre_norm_block(
          x, [&](TensorId y) { return attend(builder, layer, y); },
          [&](TensorId y) { return feed_forward(builder, y); });
    });
  }

  std::string_view gguf_architecture() const override { return "phi3"; }
  nlohmann::json gguf_metadata() const override {
    return {{"attention.sliding_window", config().windows[0]},
            {"rope.scaling.original_context_length",
             config().original_context ? config().original_context : config().context}};
  }

private:
  TensorId attend(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    const TensorName name = {"self_attn.qkv_proj", "attn_qkv"};
    const uint64_t counts[] = {config().query_rows(), config().key_rows(), config().key_rows()};
    const auto slices = builder.fused_tensor(name, ".weight", counts, config().hidden, 0, "attention");
    const auto project = [&](size_t index, const char* suffix) {
      return builder.project(x, builder.node_name(name) + suffix, slices[index], nullptr, "attention");
    };
    const AttentionInputs inputs = {project(0, ".query"), project(1, ".key"), project(2, ".value")};
    const TensorId y = builder.attend(layer, inputs, {});
    return builder.project(y, {"self_attn.o_proj", "attn_output"}, config().hidden, false, "attention");
  }

  TensorId feed_forward(DecoderBuilder& builder, TensorId x) const {
    const TensorName name = {"mlp.gate_up_proj", "ffn_up"};
    const uint64_t counts[] = {config().feed_forward, config().feed_forward};
    const auto slices = builder.fused_tensor(name, ".weight", counts, config().hidden, 0, "feed-forward");
    const std::string node = builder.node_name(name);
    const TensorId gated = builder.project(x, node + ".gate", slices[0], nullptr, "feed-forward");
    const TensorId up = builder.project(x, node + ".up", slices[1], nullptr, "feed-forward");
    const TensorId y = gate(builder.graph(), node + ".gated", gated, up, config().activation);
    return builder.project(y, {"mlp.down_proj", "ffn_down"}, config().hidden, false, "feed-forward");
  }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_phi3(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  return std::unique_ptr<ModelDefinition>(std::make_unique<Phi3>(std::move(config), settings.gguf()));
}

} // namespace pumice
