#include "support/llama_reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include <nlohmann/json.hpp>

#include "io/quantize.h"

using namespace pumice;

namespace {

struct Matrix {
  size_t columns = 0;
  std::vector<float> values; // none where the model has no such tensor

  size_t rows() const { return columns ? values.size() / columns : 0; }
};

class Reference {
public:
  Reference(const ModelFile& file, std::optional<TensorType> weights)
      : file_(file), config_(file.config()), weights_(weights), heads_(config_["num_attention_heads"]),
        kv_heads_(config_["num_key_value_heads"]), dim_(config_["head_dim"]) {}

  std::vector<double> logits(std::span<const uint32_t> ids) const {
    const Matrix embedding = matrix("model.embed_tokens");
    std::vector<std::vector<double>> x;
    for (uint32_t id : ids) {
      const auto row = embedding.values.begin() + static_cast<ptrdiff_t>(id * embedding.columns);
      x.emplace_back(row, row + static_cast<ptrdiff_t>(embedding.columns));
    }
    for (size_t layer = 0; layer < config_["num_hidden_layers"]; ++layer) {
      run_layer("model.layers." + std::to_string(layer) + ".", x);
    }
    const Matrix head = config_["tie_word_embeddings"].get<bool>() ? embedding : matrix("lm_head");
    std::vector<double> result;
    for (const std::vector<double>& row : x) {
      const std::vector<double> part = product(head, {}, norm("model.norm", row));
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

private:
  Matrix matrix(const std::string& name) const {
    const TensorView& tensor = *file_.find(name + ".weight");
    const size_t columns = tensor.shape.back(), rows = tensor.shape[0];
    Matrix result{columns, std::vector<float>(rows * columns)};
    decode_row(tensor.type, tensor.data.data(), result.values);
    if (!weights_) return result;
    const size_t block = info(*weights_).block_size;
    std::vector<float> row((columns + block - 1) / block * block);
    std::vector<std::byte> bytes(row_bytes(*weights_, row.size()));
    for (size_t i = 0; i < rows; ++i) {
      const auto at = result.values.begin() + static_cast<ptrdiff_t>(i * columns);
      std::fill(std::copy_n(at, columns, row.begin()), row.end(), 0.0f);
      quantize_row(*weights_, row, bytes.data());
      decode_row(*weights_, bytes.data(), row);
      std::copy_n(row.begin(), columns, at);
    }
    return result;
  }

  std::vector<float> vector(const std::string& name) const {
    const TensorView* tensor = file_.find(name);
    if (!tensor) return {};
    std::vector<float> values(tensor->shape[0]);
    decode_row(tensor->type, tensor->data.data(), values);
    return values;
  }

  static std::vector<double> product(const Matrix& matrix, const std::vector<float>& bias,
                                     const std::vector<double>& x) {
    std::vector<double> result(bias.begin(), bias.end());
    result.resize(matrix.rows());
    for (size_t row = 0; row < result.size(); ++row) {
      for (size_t i = 0; i < x.size(); ++i) result[row] += double{matrix.values[row * x.size() + i]} * x[i];
    }
    return result;
  }

  std::vector<double> norm(const std::string& name, std::vector<double> x) const {
    const std::vector<float> weight = vector(name + ".weight");
    double squares = 0;
    for (double value : x) squares += value * value;
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(x.size()) + config_["rms_norm_eps"].get<double>());
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight[i];
    return x;
  }

  // Turns of pair i for each position, in radians.
  double frequency(size_t i) const {
    const nlohmann::json& rope = config_["rope_parameters"];
    const double plain =
        std::pow(rope["rope_theta"].get<double>(), -2.0 * static_cast<double>(i) / static_cast<double>(dim_));
    if (rope["rope_type"] != "llama3") return plain;
    const double turns =
        rope["original_max_position_embeddings"].get<double>() * plain / (2 * std::numbers::pi);
    const double low = rope["low_freq_factor"], high = rope["high_freq_factor"], factor = rope["factor"];
    const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    return plain * (share + (1 - share) / factor);
  }

  void rotate(std::vector<double>& x, size_t position) const {
    for (size_t head = 0; head < x.size(); head += dim_) {
      for (size_t i = 0; i < dim_ / 2; ++i) {
        const double angle = static_cast<double>(position) * frequency(i);
        double& a = x[head + i];
        double& b = x[head + i + dim_ / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }

  std::vector<double> attend(const std::vector<double>& query, const std::vector<std::vector<double>>& keys,
                             const std::vector<std::vector<double>>& values) const {
    std::vector<double> result(query.size());
    for (size_t head = 0; head < heads_; ++head) {
      const size_t q = head * dim_, kv = head / (heads_ / kv_heads_) * dim_;
      std::vector<double> scores;
      double sum = 0;
      for (const std::vector<double>& key : keys) {
        double score = 0;
        for (size_t i = 0; i < dim_; ++i) score += query[q + i] * key[kv + i];
        scores.push_back(std::exp(score / std::sqrt(static_cast<double>(dim_))));
        sum += scores.back();
      }
      for (size_t at = 0; at < values.size(); ++at) {
        for (size_t i = 0; i < dim_; ++i) result[q + i] += scores[at] / sum * values[at][kv + i];
      }
    }
    return result;
  }

  void run_layer(const std::string& layer, std::vector<std::vector<double>>& x) const {
    const auto project = [&](const std::string& name) {
      return [matrix = this->matrix(layer + name), bias = vector(layer + name + ".bias")](
                 const std::vector<double>& from) { return product(matrix, bias, from); };
    };
    const auto add = [](std::vector<double>& to, const std::vector<double>& term) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += term[i];
    };
    const auto query = project("self_attn.q_proj"), key = project("self_attn.k_proj"),
               value = project("self_attn.v_proj"), output = project("self_attn.o_proj");
    const auto gate = project("mlp.gate_proj"), up = project("mlp.up_proj"), down = project("mlp.down_proj");
    std::vector<std::vector<double>> keys, values;
    for (size_t position = 0; position < x.size(); ++position) {
      const std::vector<double> y = norm(layer + "input_layernorm", x[position]);
      std::vector<double> q = query(y), k = key(y);
      rotate(q, position);
      rotate(k, position);
      keys.push_back(std::move(k));
      values.push_back(value(y));
      add(x[position], output(attend(q, keys, values)));
    }
    for (std::vector<double>& row : x) {
      const std::vector<double> y = norm(layer + "post_attention_layernorm", row);
      std::vector<double> gated = gate(y);
      const std::vector<double> other = up(y);
      for (size_t i = 0; i < gated.size(); ++i) gated[i] *= other[i] / (1 + std::exp(-gated[i]));
      add(row, down(gated));
    }
  }

  const ModelFile& file_;
  const nlohmann::json& config_;
  const std::optional<TensorType> weights_;
  const size_t heads_, kv_heads_, dim_;
};

} // namespace

std::vector<double> llama_reference(const ModelFile& file, std::span<const uint32_t> ids,
                                    std::optional<TensorType> weights) {
  return Reference(file, weights).logits(ids);
}
