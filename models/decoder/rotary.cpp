#include "models/decoder/rotary.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/config.h"

namespace pumice {

namespace {

constexpr float smallest_factor = 1e-3f, largest_factor = 1e6f, largest_base = 1e12f;

Status read_llama3(const Fields& scaling, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::llama3;
  PUMICE_TRY(rotary.factor, scaling.f32("factor", smallest_factor, largest_factor));
  PUMICE_TRY(rotary.low_freq_factor, scaling.f32("low_freq_factor", smallest_factor, largest_factor));
  PUMICE_TRY(rotary.high_freq_factor, scaling.f32("high_freq_factor", smallest_factor, largest_factor));
  PUMICE_TRY(rotary.original_context, scaling.u32("original_max_position_embeddings", 1, most::context));
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    return scaling.error("high_freq_factor", "expected more than low_freq_factor");
  }
  return {};
}

Result<RotaryConfig> read_hugging_face(const Settings& settings, const DecoderConfig& config, float share) {
  const Fields& fields = settings.fields();
  RotaryConfig rotary;
  rotary.pairs = RotaryPairs::half_split;
  for (const char* base : {"rope_theta", "rotary_emb_base"}) {
    PUMICE_TRY(rotary.base, fields.f32_or(base, 1.0f, largest_base, rotary.base));
  }
  for (const char* partial : {"partial_rotary_factor", "rotary_pct"}) {
    PUMICE_TRY(share, fields.f32_or(partial, 0.0f, 1.0f, share));
  }
  // The second is the name since transformers 5.
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    PUMICE_TRY(Fields scaling, fields.object(name));
    PUMICE_TRY(rotary.base, scaling.f32_or("rope_theta", 1.0f, largest_base, rotary.base));
    PUMICE_TRY(share, scaling.f32_or("partial_rotary_factor", 0.0f, 1.0f, share));
    rotary.dim = static_cast<uint32_t>(static_cast<float>(config.head_dim) * share);
    PUMICE_CHECK(read_rotary_scaling(scaling, config, rotary));
  }
  rotary.dim = static_cast<uint32_t>(static_cast<float>(config.head_dim) * share);
  if (rotary.dim % 2) {
    return fields.error(
        fields.has("head_dim") ? "head_dim" : "num_attention_heads",
        fmt::format("expected an even number of dimensions to rotate; found {} of a head of {}", rotary.dim,
                    config.head_dim));
  }
  return rotary;
}

// LLaMA 3's scaling comes to GGUF as a table that divides the frequencies.
Result<std::vector<float>> read_factors(const ModelFile& file, std::string_view name, uint32_t count) {
  if (!file.find(name)) return std::vector<float>();
  const uint64_t shape[] = {count};
  PUMICE_TRY(const TensorView* tensor, file.require(name, shape));
  std::vector<float> factors(count);
  if (info(tensor->type).block_size > 1) {
    return Error{Code::unsupported, fmt::format("{}: tensor '{}': expected one of F32, F16, BF16; found {}",
                                                file.path(), name, info(tensor->type).name)};
  }
  decode_row(tensor->type, tensor->data.data(), factors);
  return factors;
}

Result<RotaryConfig> read_gguf(const Settings& settings, const DecoderConfig& config) {
  RotaryConfig rotary;
  rotary.pairs = RotaryPairs::half_split;
  const SettingName dim = {"", "rope.dimension_count"}, type = {"", "rope.scaling.type"},
                    factor = {"", "rope.scaling.factor"};
  PUMICE_TRY(rotary.dim, settings.u32_or(dim, 0, most::head_dim, config.head_dim));
  PUMICE_TRY(rotary.base, settings.f32_or({"", "rope.freq_base"}, 1.0f, largest_base, rotary.base));
  if (rotary.dim % 2 || rotary.dim > config.head_dim) {
    return settings.error(
        dim, fmt::format("expected an even number up to {}; found {}", config.head_dim, rotary.dim));
  }
  PUMICE_TRY(std::string scaling, settings.fields().string_or(settings.name(type), "none"));
  if (scaling == "linear") {
    rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(rotary.factor, settings.f32_or(factor, smallest_factor, largest_factor, 1));
  } else if (scaling != "none") {
    return settings.error(type, fmt::format("expected one of none, linear; found '{}'", scaling));
  }
  PUMICE_TRY(rotary.factors, read_factors(settings.file(), "rope_freqs.weight", rotary.dim / 2));
  return rotary;
}

} // namespace

Status read_rotary_scaling(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary) {
  PUMICE_TRY(std::string type, scaling.string_or("rope_type", ""));
  const char* field = "rope_type";
  if (type.empty()) {
    field = "type"; // the name it had before
    PUMICE_TRY(type, scaling.string_or("type", "default"));
  }
  if (type == "default") return {};
  if (type == "linear") {
    rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(rotary.factor, scaling.f32("factor", smallest_factor, largest_factor));
    return {};
  }
  if (type == "llama3") return read_llama3(scaling, rotary);
  return scaling.error(field, fmt::format("expected one of default, linear, llama3; found '{}'", type));
}

Result<RotaryConfig> read_rotary(const Settings& settings, const DecoderConfig& config, float default_share) {
  return settings.gguf() ? read_gguf(settings, config) : read_hugging_face(settings, config, default_share);
}

void add_gguf_rotary(const DecoderConfig& config, nlohmann::json& metadata,
                     std::vector<GgufTensor>& tensors) {
  const RotaryConfig& rotary = config.rotary;
  if (rotary.pairs == RotaryPairs::none) return;
  metadata["rope.dimension_count"] = rotary.dim;
  metadata["rope.freq_base"] = rotary.base;
  if (rotary.scaling == RotaryScaling::linear) {
    metadata["rope.scaling.type"] = "linear";
    metadata["rope.scaling.factor"] = rotary.factor;
  } else if (rotary.scaling == RotaryScaling::llama3) {
    RotaryConfig plain = rotary;
    plain.scaling = RotaryScaling::none;
    const std::vector<double> scaled = rotary_frequencies(rotary), unscaled = rotary_frequencies(plain);
    GgufTensor tensor;
    tensor.name = "rope_freqs.weight";
    tensor.shape = {scaled.size()};
    for (size_t i = 0; i < scaled.size(); ++i)
      tensor.values.push_back(static_cast<float>(unscaled[i] / scaled[i]));
    tensors.push_back(std::move(tensor));
  }
}

} // namespace pumice
