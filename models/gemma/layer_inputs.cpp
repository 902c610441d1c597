#include "models/gemma/layer_inputs.h"

#include <algorithm>
#include <cmath>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/norm/norm.h"

namespace pumice {

namespace {

constexpr const char* inputs_component = "embedding";

// GGUF's table has a row for each token of the vocabulary: the first one for those that Hugging Face's lacks,
// which pictures and sounds have.
WeightView layer_table(DecoderBuilder& builder, uint32_t rows, uint32_t columns) {
  const TensorName name = {"embed_tokens_per_layer", "per_layer_token_embd"};
  const uint32_t vocabulary = builder.config().vocabulary;
  if (rows == vocabulary || builder.gguf())
    return builder.tensor(name, ".weight", rows, columns, inputs_component);
  const WeightView view = builder.tensor({name.hugging_face, ""}, ".weight", rows, columns, inputs_component);
  std::vector<WeightView> parts = {view.slice(0, std::min(rows, vocabulary))};
  if (rows < vocabulary) parts.insert(parts.end(), vocabulary - rows, view.slice(0, 1));
  builder.add_gguf_tensor(name, ".weight", {vocabulary, columns}, std::move(parts));
  return view;
}

} // namespace

TensorId per_layer_inputs(DecoderBuilder& builder, TensorId embedded, uint32_t size, uint32_t rows) {
  const uint32_t columns = builder.config().layers * size;
  const TensorId first = embedding(builder.graph(), "per_layer_embedding",
                                   builder.weight(layer_table(builder, rows, columns), inputs_component),
                                   std::sqrt(static_cast<float>(size)));
  const TensorId projected = builder.project(embedded, {"per_layer_model_projection", "per_layer_model_proj"},
                                             columns, false, inputs_component);
  const WeightId weight = builder.norm_weight({"per_layer_projection_norm", "per_layer_proj_norm"}, size);
  // The projection is divided by the square root of `hidden` before its norm. Only epsilon notices.
  const float eps = builder.config().norm_eps * static_cast<float>(builder.config().hidden);
  const TensorId normed =
      grouped_rms_norm(builder.graph(), "per_layer_norm", projected, weight, builder.config().layers, eps);
  const TensorId sum = builder.add(normed, first, "per_layer_sum");
  return scale(builder.graph(), "per_layer_inputs", sum, std::sqrt(0.5f));
}

TensorId gated_layer_input(DecoderBuilder& builder, TensorId x, TensorId layer_inputs, uint32_t layer,
                           uint32_t size) {
  Graph& graph = builder.graph();
  const View view = {layer_inputs, layer * size};
  const TensorId input =
      graph.add_tensor({builder.prefix() + "per_layer_input", RowKind::tokens, size, view});
  TensorId y = builder.project(x, {"per_layer_input_gate", "inp_gate"}, size, false, "feed-forward");
  y = gate(graph, builder.prefix() + "per_layer_gated", y, input, builder.config().activation);
  y = builder.project(y, {"per_layer_projection", "proj"}, builder.config().hidden, false, "feed-forward");
  return builder.norm(y, {"post_per_layer_input_norm", "post_norm"});
}

} // namespace pumice
