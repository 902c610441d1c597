#pragma once

#include <cmath>

#include "models/encoder/builder.h"

namespace pumice {

// A batch norm (Ioffe and Szegedy, Batch Normalization, 2015) with a file's means and variances. It is folded
// into the convolution before it: that one's weights times factors(), and its bias by shift().
class BatchNorm {
public:
  BatchNorm(EncoderBuilder& builder, const TensorName& name, uint32_t channels, float eps)
      : weight_(builder.tensor(name, ".weight", channels, 0, "norms")),
        bias_(builder.tensor(name, ".bias", channels, 0, "norms")),
        mean_(builder.tensor(name, ".running_mean", channels, 0, "norms")),
        variance_(builder.tensor(name, ".running_var", channels, 0, "norms")), eps_(eps) {}

  std::vector<float> factors() const {
    std::vector<float> result = decode_vector(weight_);
    const std::vector<float> variances = decode_vector(variance_);
    for (size_t c = 0; c < result.size(); ++c) result[c] /= std::sqrt(variances[c] + eps_);
    return result;
  }
  // `bias`: the convolution's, zeros if it has none.
  void shift(const std::vector<float>& bias, std::span<float> to) const {
    const std::vector<float> factor = factors(), own = decode_vector(bias_), means = decode_vector(mean_);
    for (size_t c = 0; c < to.size(); ++c) to[c] = (bias[c] - means[c]) * factor[c] + own[c];
  }

private:
  WeightView weight_, bias_, mean_, variance_;
  float eps_;
};

} // namespace pumice
