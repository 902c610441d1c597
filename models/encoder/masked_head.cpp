#include "models/encoder/masked_head.h"

#include "kernel/elementwise/elementwise.h"
#include "kernel/matmul/linear.h"
#include "kernel/norm/norm.h"

namespace pumice {

MaskedHeadNames bert_masked_head() {
  return {"cls.predictions.transform.dense",
          "cls.predictions.transform.LayerNorm",
          "cls.predictions.decoder",
          {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
}

MaskedHeadNames roberta_masked_head() {
  return {"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", {"lm_head.decoder.bias", "lm_head.bias"}};
}

TensorId MaskedHead::logits(Graph& graph, const std::string& name, TensorId x) const {
  const auto weight = [&](const WeightView& view) { return graph.weight(view, "head"); };
  const auto weight_if = [&](const std::optional<WeightView>& view) {
    return view ? std::optional(weight(*view)) : std::nullopt;
  };
  x = linear(graph, name + ".dense", x, weight(dense), weight_if(dense_bias));
  x = activate(graph, name + ".activated", x, activation);
  x = layer_norm(graph, name + ".norm", x, weight(norm), weight_if(norm_bias), norm_eps);
  return linear(graph, name, x, weight(table), weight_if(bias));
}

} // namespace pumice
