#include "models/gpt2/gpt2.h"

#include <fmt/format.h>

namespace pumice {

namespace {

struct Gpt2Config {
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t feed_forward = 0;
  float norm_eps = 0;
};

class Gpt2 : public Definition {
public:
  explicit Gpt2(const Gpt2Config& config) : config_(config) {}

  DecoderShape shape() const override {
    return {config_.vocabulary, config_.context,
            std::vector<LayerCache>(config_.layers, {config_.heads, config_.hidden / config_.heads})};
  }

  std::vector<Hyperparameter> hyperparameters() const override {
    return {
        {"vocabulary", fmt::format("{}", config_.vocabulary)},
        {"context", fmt::format("{}", config_.context)},
        {"hidden", fmt::format("{}", config_.hidden)},
        {"layers", fmt::format("{}", config_.layers)},
        {"heads", fmt::format("{}", config_.heads)},
        {"head_dim", fmt::format("{}", config_.hidden / config_.heads)},
        {"feed_forward", fmt::format("{}", config_.feed_forward)},
        {"norm", fmt::format("layer, eps {}", config_.norm_eps)},
        {"positions", "learned"},
        {"tied head", "yes"},
    };
  }

  std::vector<WeightSpec> weights() const override {
    std::vector<WeightSpec> specs;
    const uint64_t hidden = config_.hidden, feed_forward = config_.feed_forward;
    const auto norm = [&](const std::string& name) {
      specs.push_back({name + ".weight", {hidden}, "norms"});
      specs.push_back({name + ".bias", {hidden}, "norms"});
    };
    // Conv1D keeps its matrices as [in, out].
    const auto conv1d = [&](const std::string& name, uint64_t in, uint64_t out, const char* component) {
      specs.push_back({name + ".weight", {in, out}, component});
      specs.push_back({name + ".bias", {out}, component});
    };
    specs.push_back({"transformer.wte.weight", {config_.vocabulary, hidden}, "embedding"});
    specs.push_back({"transformer.wpe.weight", {config_.context, hidden}, "embedding"});
    for (uint32_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = fmt::format("transformer.h.{}.", layer);
      norm(prefix + "ln_1");
      conv1d(prefix + "attn.c_attn", hidden, 3 * hidden, "attention");
      conv1d(prefix + "attn.c_proj", hidden, hidden, "attention");
      norm(prefix + "ln_2");
      conv1d(prefix + "mlp.c_fc", hidden, feed_forward, "feed-forward");
      conv1d(prefix + "mlp.c_proj", feed_forward, hidden, "feed-forward");
    }
    norm("transformer.ln_f");
    return specs;
  }

  Result<DecoderGraph> graph(const ModelFile& file) const override {
    return Error{
        Code::unsupported,
        fmt::format("{}: gpt2 models can be inspected and not run: learned positions and Conv1D weights "
                    "have no kernels here",
                    file.path())};
  }

private:
  Gpt2Config config_;
};

} // namespace

Result<std::unique_ptr<Definition>> open_gpt2(const ModelFile& file) {
  const Fields fields = file.fields();
  Gpt2Config config;
  PUMICE_TRY(config.vocabulary, fields.u32("vocab_size", 1, 1 << 24));
  PUMICE_TRY(config.context, fields.u32("n_positions", 1, 1 << 24));
  PUMICE_TRY(config.hidden, fields.u32("n_embd", 1, 1 << 20));
  PUMICE_TRY(config.layers, fields.u32("n_layer", 1, 1000));
  PUMICE_TRY(config.heads, fields.u32("n_head", 1, 4096));
  PUMICE_TRY(config.feed_forward, fields.u32_or("n_inner", 1, 1 << 22, 4 * config.hidden));
  PUMICE_TRY(config.norm_eps, fields.f32_or("layer_norm_epsilon", 0.0f, 1.0f, 1e-5f));
  if (config.hidden % config.heads) {
    return fields.error(
        "n_head", fmt::format("expected a divisor of n_embd, {}; found {}", config.hidden, config.heads));
  }
  return std::unique_ptr<Definition>(std::make_unique<Gpt2>(config));
}

} // namespace pumice
