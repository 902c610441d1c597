#include <fmt/format.h>

#include "kernel/recurrence/gru.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// The translator of Bahdanau, Cho and Bengio (2015), with the tensor names of torch.nn.GRU and GRUCell: a
// bidirectional GRU reads, a GRU with additive attention writes.
class RnnAttention : public EncoderDecoderModel {
public:
  using EncoderDecoderModel::EncoderDecoderModel;

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    const uint32_t hidden = encoder().hidden, half = hidden / 2;
    const TensorId x = builder.embed({"encoder_embedding", ""});
    builder.layer_input(x);
    std::vector<TensorId> gates;
    std::vector<GruWeights> weights;
    for (const std::string suffix : {"", "_reverse"}) {
      const auto part = [&](const std::string& name, uint64_t columns) {
        return builder.tensor({"encoder." + name + "_l0" + suffix, ""}, "", uint64_t{3} * half, columns,
                              "recurrence");
      };
      const WeightView matrix = part("weight_ih", hidden), bias = part("bias_ih", 0);
      gates.push_back(builder.project(x, "gates" + suffix, matrix, &bias, "recurrence"));
      weights.push_back({builder.weight(part("weight_hh", half), "recurrence"),
                         builder.weight(part("bias_hh", 0), "recurrence")});
    }
    const TensorId states = gru(builder.graph(), "states", gates, weights, half);
    builder.finish(states);
    builder.store_memory(0, builder.project(states, {"key", ""}, hidden, false, "attention"), states);
  }

  void build_decoder(DecoderBuilder& builder) const override {
    const uint32_t hidden = decoder().hidden, layers = decoder().layers;
    const TensorId x = builder.embed({"decoder_embedding", ""});
    builder.layer_input(x);
    const auto part = [&](std::string_view name, std::string_view suffix, uint64_t rows, uint64_t columns) {
      return builder.weight(builder.tensor({name, ""}, suffix, rows, columns, "recurrence"), "recurrence");
    };
    AttentiveGruWeights weights;
    weights.bridge = part("bridge", ".weight", hidden, hidden);
    weights.bridge_bias = part("bridge", ".bias", hidden, 0);
    weights.query = part("query", ".weight", hidden, hidden);
    weights.score = part("score", ".weight", 1, hidden);
    weights.input = part("decoder.weight_ih", "", uint64_t{3} * hidden, uint64_t{2} * hidden);
    weights.input_bias = part("decoder.bias_ih", "", uint64_t{3} * hidden, 0);
    weights.state = part("decoder.weight_hh", "", uint64_t{3} * hidden, hidden);
    weights.state_bias = part("decoder.bias_hh", "", uint64_t{3} * hidden, 0);
    AttentiveGru operation;
    operation.hidden = hidden;
    operation.states = 0;
    operation.memory = layers;
    const TensorId y = attentive_gru(builder.graph(), "states", x, weights, operation);
    builder.readable().add("cross_attentions.0",
                           [y](Graph& graph, const std::string& name, const ReadableExtent& extent) {
                             return attentive_gru_weights(graph, name, y, extent.input_context);
                           });
    const WeightView bias = builder.tensor({"output", ""}, ".bias", decoder().vocabulary, 0, "head");
    builder.finish(y, {"output", ""}, &bias);
  }
};

OpenedDefinition open_rnn_attention(const ModelFile& file) {
  const Settings settings(file);
  const SettingName size = {"hidden_size", ""};
  StackConfig stack;
  PUMICE_TRY(stack.hidden, settings.u32(size, 2, most_gru_columns));
  if (stack.hidden % 2 != 0) {
    return settings.error(
        size,
        fmt::format("expected an even number: two directions share the columns; found {}", stack.hidden));
  }
  PUMICE_TRY(stack.vocabulary, settings.u32({"vocab_size", ""}, 1, limits::tokens));
  PUMICE_TRY(stack.context, settings.u32_or({"max_position_embeddings", ""}, 1, limits::context, 512));
  stack.layers = stack.heads = stack.kv_heads = 1;
  stack.head_dim = stack.hidden;
  stack.activation = Activation::tanh;
  EncoderConfig encoder;
  static_cast<StackConfig&>(encoder) = stack;
  encoder.any_length = true;
  DecoderConfig decoder;
  static_cast<StackConfig&>(decoder) = stack;
  decoder.windows = {0};
  decoder.values_are_keys = true;
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<RnnAttention>(std::move(encoder), std::move(decoder), settings.gguf()));
}

} // namespace

Architectures rnn_attention_models() {
  return {{"rnn_attention", {"rnn_attention"}, {}, open_rnn_attention}};
}

} // namespace pumice
