#include "models/llama/llama.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/attention.h"
#include "kernel/elementwise.h"
#include "kernel/embedding.h"
#include "kernel/linear.h"
#include "kernel/norm.h"
#include "models/llama/config.h"
#include "models/llama/weights.h"
#include "models/weight_finder.h"

namespace pumice {

namespace {

// LLaMA (Touvron et al. 2023): pre-norm blocks of grouped-query attention with rotary positions and a gated
// feed-forward.
class Builder {
public:
  Builder(const LlamaConfig& config, const LlamaNames& names, const WeightFinder& weights,
          RotaryConfig rotary, DecoderGraph& result)
      : config_(config), names_(names), weights_(weights), rotary_(std::move(rotary)), result_(result),
        graph_(result.graph) {}

  void build() {
    TensorId x = embedding(graph_, "embedding", weights_[std::string(names_.embedding) + ".weight"], 1.0f);
    for (uint32_t layer = 0; layer < config_.layers; ++layer) {
      result_.hidden_states.push_back(x);
      x = block(layer, x);
    }
    x = rms_norm(graph_, "final_norm", x, weights_[std::string(names_.final_norm) + ".weight"],
                 config_.norm_eps);
    result_.hidden_states.push_back(x);
    x = select_rows(graph_, "output_rows", x);
    const char* head = config_.tied_head ? names_.embedding : names_.head;
    result_.logits = linear(graph_, "logits", x, weights_[std::string(head) + ".weight"]);
  }

private:
  TensorId project(const std::string& layer, const char* name, TensorId x) {
    return linear(graph_, layer + name, x, weights_[layer + name + ".weight"],
                  weights_.optional(layer + name + ".bias"));
  }

  TensorId block(uint32_t layer, TensorId x) {
    const std::string prefix = fmt::format(fmt::runtime(names_.layer_prefix), layer);
    const auto norm = [&](const char* name, TensorId input) {
      return rms_norm(graph_, prefix + name, input, weights_[prefix + name + ".weight"], config_.norm_eps);
    };
    TensorId y = norm(names_.attention_norm, x);
    y = attend(layer, prefix, y);
    x = add(graph_, prefix + "attention_residual", project(prefix, names_.attention_output, y), x);

    y = norm(names_.feed_forward_norm, x);
    y = gate(graph_, prefix + "gated", project(prefix, names_.gate, y), project(prefix, names_.up, y),
             config_.activation);
    return add(graph_, prefix + "residual", project(prefix, names_.down, y), x);
  }

  TensorId attend(uint32_t layer, const std::string& prefix, TensorId y) {
    RotaryStore store;
    store.layer = layer;
    store.heads = config_.heads;
    store.kv_heads = config_.kv_heads;
    store.head_dim = config_.head_dim;
    store.rotary = rotary_;
    const TensorId query = project(prefix, names_.query, y);
    const TensorId key = project(prefix, names_.key, y);
    const TensorId value = project(prefix, names_.value, y);
    const TensorId rotated = rotary_store(graph_, prefix + "rotated_query", query, key, value, store);
    Attention operation;
    operation.layer = layer;
    operation.heads = config_.heads;
    operation.scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    return attention(graph_, prefix + "attention", rotated, operation);
  }

  const LlamaConfig& config_;
  const LlamaNames& names_;
  const WeightFinder& weights_;
  const RotaryConfig rotary_;
  DecoderGraph& result_;
  Graph& graph_;
};

class Llama : public Definition {
public:
  Llama(const LlamaConfig& config, const LlamaNames& names) : config_(config), names_(names) {}

  DecoderShape shape() const override {
    return {config_.vocabulary, config_.context,
            std::vector<LayerCache>(config_.layers, {config_.kv_heads, config_.head_dim})};
  }

  std::vector<Hyperparameter> hyperparameters() const override {
    const auto number = [](auto value) { return fmt::format("{}", value); };
    return {
        {"vocabulary", number(config_.vocabulary)},
        {"context", number(config_.context)},
        {"hidden", number(config_.hidden)},
        {"layers", number(config_.layers)},
        {"heads", number(config_.heads)},
        {"kv_heads", number(config_.kv_heads)},
        {"head_dim", number(config_.head_dim)},
        {"feed_forward", number(config_.feed_forward)},
        {"norm", fmt::format("rms, eps {}", config_.norm_eps)},
        {"activation", fmt::format("{}, gated", to_string(config_.activation))},
        {"biases", fmt::format("attention {}, feed-forward {}", config_.attention_bias ? "yes" : "no",
                               config_.feed_forward_bias ? "yes" : "no")},
        {"tied head", config_.tied_head ? "yes" : "no"},
        {"rotary", describe(config_.rotary)},
    };
  }

  std::vector<WeightSpec> weights() const override { return llama_weights(config_, names_); }

  Result<DecoderGraph> graph(const ModelFile& file) const override {
    DecoderGraph result;
    const std::vector<WeightSpec> specs = weights();
    PUMICE_TRY(WeightFinder found, WeightFinder::find(file, specs, result.graph));
    RotaryConfig rotary = config_.rotary;
    // LLaMA 3's scaling comes to GGUF as a table that divides the frequencies.
    if (file.find("rope_freqs.weight")) {
      const uint64_t shape[] = {config_.rotary.dim / 2};
      PUMICE_TRY(const TensorView* factors, file.require("rope_freqs.weight", shape));
      rotary.factors.resize(config_.rotary.dim / 2);
      decode_row(factors->type, factors->data.data(), rotary.factors);
    }
    Builder(config_, names_, found, std::move(rotary), result).build();
    return result;
  }

private:
  LlamaConfig config_;
  const LlamaNames& names_;
};

} // namespace

Result<std::unique_ptr<Definition>> open_llama(const ModelFile& file) {
  PUMICE_TRY(LlamaConfig config, LlamaConfig::read(file));
  const bool gguf = file.format() == ModelFile::Format::gguf;
  return std::unique_ptr<Definition>(
      std::make_unique<Llama>(config, gguf ? llama_gguf_names : llama_hugging_face_names));
}

} // namespace pumice
