#include "models/decoder/rotary.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/config.h"

namespace pumice {

namespace {

constexpr float min_factor = 1e-3f, max_factor = 1e6f, max_base = 1e12f;

Status read_llama3(const Fields& scaling, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::llama3;
  PUMICE_TRY(rotary.factor, scaling.f32("factor", min_factor, max_factor));
  PUMICE_TRY(rotary.low_freq_factor, scaling.f32("low_freq_factor", min_factor, max_factor));
  PUMICE_TRY(rotary.high_freq_factor, scaling.f32("high_freq_factor", min_factor, max_factor));
  PUMICE_TRY(rotary.original_context, scaling.u32("original_max_position_embeddings", 1, limits::context));
  if (rotary.high_freq_factor <= rotary.low_freq_factor) {
    return scaling.error("high_freq_factor", "expected more than low_freq_factor");
  }
  return {};
}

// The context before it was extended: from the scaling, else from the config's top level (Phi-3), else the
// model's context.
Status read_original_context(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary) {
  const uint32_t fallback = config.original_context ? config.original_context : config.context;
  PUMICE_TRY(rotary.original_context,
             scaling.u32_or("original_max_position_embeddings", 1, limits::context, fallback));
  return {};
}

Status read_yarn(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::yarn;
  PUMICE_CHECK(read_original_context(scaling, config, rotary));
  PUMICE_TRY(rotary.factor, scaling.f32("factor", min_factor, max_factor));
  PUMICE_TRY(rotary.beta_fast, scaling.f32_or("beta_fast", min_factor, max_factor, rotary.beta_fast));
  PUMICE_TRY(rotary.beta_slow, scaling.f32_or("beta_slow", min_factor, max_factor, rotary.beta_slow));
  PUMICE_TRY(rotary.truncate, scaling.boolean_or("truncate", true));
  PUMICE_TRY(rotary.mscale, scaling.f32_or("mscale", 0.0f, max_factor, 0.0f));
  PUMICE_TRY(rotary.mscale_all_dim, scaling.f32_or("mscale_all_dim", 0.0f, max_factor, 0.0f));
  PUMICE_TRY(rotary.query_growth, scaling.f32_or("llama_4_scaling_beta", 0.0f, max_factor, 0.0f));
  if (scaling.has("attention_factor")) {
    PUMICE_TRY(rotary.attention_factor, scaling.f32("attention_factor", min_factor, max_factor));
  }
  return {};
}

Status read_longrope(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::longrope;
  PUMICE_CHECK(read_original_context(scaling, config, rotary));
  PUMICE_TRY(rotary.factors, scaling.f32_array("short_factor"));
  PUMICE_TRY(rotary.long_factors, scaling.f32_array("long_factor"));
  for (const auto& [name, factors] :
       {std::pair("short_factor", &rotary.factors), {"long_factor", &rotary.long_factors}}) {
    if (factors->size() == rotary.dim / 2) continue;
    return scaling.error(name,
                         fmt::format("expected a number for each of the {} pairs of dimensions; found {}",
                                     rotary.dim / 2, factors->size()));
  }
  const float default_factor =
      static_cast<float>(config.context) / static_cast<float>(rotary.original_context);
  PUMICE_TRY(rotary.factor, scaling.f32_or("factor", min_factor, max_factor, default_factor));
  if (scaling.has("attention_factor")) {
    PUMICE_TRY(rotary.attention_factor, scaling.f32("attention_factor", min_factor, max_factor));
  }
  return {};
}

// Gemma 4's: only the first pairs are rotated, with the frequencies that they have where all are.
Status read_proportional(const Fields& scaling, RotaryConfig& rotary) {
  PUMICE_TRY(float share, scaling.f32_or("partial_rotary_factor", 0.0f, 1.0f, 1.0f));
  PUMICE_TRY(float factor, scaling.f32_or("factor", min_factor, max_factor, 1.0f));
  if (share == 1 && factor == 1) return {};
  constexpr float not_rotated = 1e30f; // llama.cpp's: a frequency of zero
  rotary.factors.assign(rotary.dim / 2, not_rotated);
  const auto rotated = static_cast<ptrdiff_t>(share * static_cast<float>(rotary.dim) / 2);
  std::fill_n(rotary.factors.begin(), rotated, factor);
  return {};
}

// The base and the scaling of one type of layers.
Status read_layer_type(const Fields& fields, const DecoderConfig& config, RotaryConfig& rotary) {
  PUMICE_TRY(rotary.base, fields.f32_or("rope_theta", 1.0f, max_base, rotary.base));
  return read_rotary_scaling(fields, config, rotary);
}

Result<RotaryConfig> read_hugging_face(const Settings& settings, const DecoderConfig& config, float share) {
  const Fields& fields = settings.fields();
  RotaryConfig rotary;
  rotary.pairs = RotaryPairs::half_split;
  for (const char* base : {"rope_theta", "rotary_emb_base"}) {
    PUMICE_TRY(rotary.base, fields.f32_or(base, 1.0f, max_base, rotary.base));
  }
  for (const char* partial : {"partial_rotary_factor", "rotary_pct"}) {
    PUMICE_TRY(share, fields.f32_or(partial, 0.0f, 1.0f, share));
  }
  // transformers 5 renamed rope_scaling to rope_parameters.
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(name)) continue;
    PUMICE_TRY(Fields scaling, fields.object(name));
    PUMICE_TRY(rotary.base, scaling.f32_or("rope_theta", 1.0f, max_base, rotary.base));
    PUMICE_TRY(const std::string type, scaling.string_or("rope_type", ""));
    if (type != "proportional") {
      PUMICE_TRY(share, scaling.f32_or("partial_rotary_factor", 0.0f, 1.0f, share));
    }
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

// Reads a table of divisors of the frequencies. GGUF files store LLaMA 3's scaling in this form.
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

const SettingName gguf_original_context = {"", "rope.scaling.original_context_length"};

// Some converters write a factor, by which the default magnitude is multiplied.
Status read_gguf_yarn(const Settings& settings, const DecoderConfig& config, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::yarn;
  PUMICE_TRY(rotary.factor, settings.f32_or({"", "rope.scaling.factor"}, min_factor, max_factor, 1));
  PUMICE_TRY(rotary.original_context,
             settings.u32_or(gguf_original_context, 1, limits::context, config.context));
  PUMICE_TRY(rotary.beta_fast,
             settings.f32_or({"", "rope.scaling.yarn_beta_fast"}, min_factor, max_factor, rotary.beta_fast));
  PUMICE_TRY(rotary.beta_slow,
             settings.f32_or({"", "rope.scaling.yarn_beta_slow"}, min_factor, max_factor, rotary.beta_slow));
  PUMICE_TRY(rotary.query_growth,
             settings.f32_or({"", "attention.temperature_scale"}, 0.0f, max_factor, 0.0f));
  for (const char* key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
    const SettingName name = {"", key};
    if (!settings.has(name)) continue;
    PUMICE_TRY(float factor, settings.f32_or(name, min_factor, max_factor, 1));
    rotary.attention_factor =
        static_cast<float>(factor * (1 + 0.1 * std::log(std::max(rotary.factor, 1.0f))));
  }
  return {};
}

Status read_gguf_longrope(const Settings& settings, const DecoderConfig& config, RotaryConfig& rotary) {
  rotary.scaling = RotaryScaling::longrope;
  PUMICE_TRY(rotary.original_context,
             settings.u32_or(gguf_original_context, 1, limits::context, config.context));
  PUMICE_TRY(rotary.factors, read_factors(settings.file(), "rope_factors_short.weight", rotary.dim / 2));
  PUMICE_TRY(rotary.long_factors, read_factors(settings.file(), "rope_factors_long.weight", rotary.dim / 2));
  rotary.factor = static_cast<float>(config.context) / static_cast<float>(rotary.original_context);
  const SettingName magnitude = {"", "rope.scaling.attn_factor"};
  if (settings.has(magnitude)) {
    PUMICE_TRY(rotary.attention_factor, settings.f32_or(magnitude, min_factor, max_factor, 1));
  }
  return {};
}

Result<RotaryConfig> read_gguf(const Settings& settings, const DecoderConfig& config) {
  RotaryConfig rotary;
  rotary.pairs = RotaryPairs::half_split;
  const SettingName dim = {"", "rope.dimension_count"}, type = {"", "rope.scaling.type"},
                    factor = {"", "rope.scaling.factor"};
  PUMICE_TRY(rotary.dim, settings.u32_or(dim, 0, limits::head_dim, config.head_dim));
  PUMICE_TRY(rotary.base, settings.f32_or({"", "rope.freq_base"}, 1.0f, max_base, rotary.base));
  if (rotary.dim % 2 || rotary.dim > config.head_dim) {
    return settings.error(
        dim, fmt::format("expected an even number up to {}; found {}", config.head_dim, rotary.dim));
  }
  PUMICE_TRY(std::string scaling, settings.fields().string_or(settings.name(type), "none"));
  if (scaling == "linear") {
    rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(rotary.factor, settings.f32_or(factor, min_factor, max_factor, 1));
  } else if (scaling == "yarn") {
    PUMICE_CHECK(read_gguf_yarn(settings, config, rotary));
  } else if (scaling != "none" && scaling != "longrope") {
    return settings.error(type,
                          fmt::format("expected one of none, linear, yarn, longrope; found '{}'", scaling));
  }
  PUMICE_TRY(rotary.factors, read_factors(settings.file(), "rope_freqs.weight", rotary.dim / 2));
  if (settings.file().find("rope_factors_long.weight"))
    PUMICE_CHECK(read_gguf_longrope(settings, config, rotary));
  return rotary;
}

} // namespace

Status read_rotary_scaling(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary) {
  PUMICE_TRY(std::string type, scaling.string_or("rope_type", ""));
  const char* field = "rope_type";
  if (type.empty()) {
    field = "type"; // the older name
    PUMICE_TRY(type, scaling.string_or("type", "default"));
  }
  // mrope: sections of the pairs turn with a picture's time, height and width, which are equal in a text.
  if (type == "default" || type == "mrope") return {};
  if (type == "linear") {
    rotary.scaling = RotaryScaling::linear;
    PUMICE_TRY(rotary.factor, scaling.f32("factor", min_factor, max_factor));
    return {};
  }
  if (type == "dynamic" && scaling.has("alpha")) {
    // Hunyuan's: all contexts have a higher base.
    PUMICE_TRY(float alpha, scaling.f32("alpha", min_factor, max_factor));
    const double dim = rotary.dim;
    rotary.base = static_cast<float>(rotary.base * std::pow(alpha, dim / (dim - 2)));
    return {};
  }
  // Beyond the positions that the model was made for, which are as many as it reads.
  if (type == "dynamic") return {};
  if (type == "llama3") return read_llama3(scaling, rotary);
  if (type == "proportional") return read_proportional(scaling, rotary);
  if (type == "yarn") return read_yarn(scaling, config, rotary);
  if (type == "longrope" || type == "su")
    return read_longrope(scaling, config, rotary); // Phi-3's first name for it
  return scaling.error(
      field, fmt::format(
                 "expected one of default, linear, dynamic, proportional, llama3, yarn, longrope; found '{}'",
                 type));
}

Result<RotaryConfig> read_rotary(const Settings& settings, const DecoderConfig& config, float default_share) {
  return settings.gguf() ? read_gguf(settings, config) : read_hugging_face(settings, config, default_share);
}

Status read_rotary_in_windows(const Settings& settings, DecoderConfig& config, RotaryConfig& in_windows) {
  const Fields& fields = settings.fields();
  if (settings.gguf()) {
    PUMICE_TRY(config.rotary, read_rotary(settings, config));
    const SettingName dim = {"", "rope.dimension_count_swa"};
    const uint32_t all = in_windows.dim;
    PUMICE_TRY(in_windows.base, settings.f32_or({"", "rope.freq_base_swa"}, 1.0f, max_base, in_windows.base));
    PUMICE_TRY(in_windows.dim, settings.u32_or(dim, 0, all, all));
    if (in_windows.dim % 2) return settings.error(dim, "expected an even number");
    return {};
  }
  if (fields.has("rope_parameters")) {
    PUMICE_TRY(Fields by_type, fields.object("rope_parameters"));
    if (by_type.has("full_attention") || by_type.has("sliding_attention")) {
      PUMICE_TRY(Fields full, by_type.object_or_empty("full_attention"));
      PUMICE_TRY(Fields sliding, by_type.object_or_empty("sliding_attention"));
      PUMICE_CHECK(read_layer_type(full, config, config.rotary));
      return read_layer_type(sliding, config, in_windows);
    }
  }
  PUMICE_TRY(config.rotary.base, fields.f32_or("rope_theta", 1.0f, max_base, config.rotary.base));
  PUMICE_TRY(in_windows.base, fields.f32_or("rope_local_base_freq", 1.0f, max_base, in_windows.base));
  PUMICE_TRY(Fields scaling, fields.object_or_empty("rope_scaling"));
  return read_rotary_scaling(scaling, config, config.rotary);
}

nlohmann::json gguf_rotary_in_windows(const RotaryConfig& in_windows) {
  return {{"rope.freq_base_swa", in_windows.base}, {"rope.dimension_count_swa", in_windows.dim}};
}

namespace {

// A tensor of divisors of the frequencies.
GgufTensor gguf_factors(std::string name, std::vector<float> factors) {
  GgufTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = {factors.size()};
  tensor.values = std::move(factors);
  return tensor;
}

} // namespace

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
    std::vector<float> factors;
    for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(unscaled[i] / scaled[i]));
    tensors.push_back(gguf_factors("rope_freqs.weight", std::move(factors)));
  } else if (rotary.scaling == RotaryScaling::yarn) {
    metadata["rope.scaling.type"] = "yarn";
    metadata["rope.scaling.factor"] = rotary.factor;
    metadata["rope.scaling.original_context_length"] = rotary.original_context;
    metadata["rope.scaling.yarn_beta_fast"] = rotary.beta_fast;
    metadata["rope.scaling.yarn_beta_slow"] = rotary.beta_slow;
    if (rotary.query_growth != 0) metadata["attention.temperature_scale"] = rotary.query_growth;
    // llama.cpp takes no notice of yarn_attn_factor.
    const double default_magnitude = 1 + 0.1 * std::log(std::max(rotary.factor, 1.0f));
    metadata["rope.scaling.attn_factor"] = static_cast<float>(rotary_magnitude(rotary) / default_magnitude);
  } else if (rotary.scaling == RotaryScaling::longrope) {
    metadata["rope.scaling.original_context_length"] = rotary.original_context;
    metadata["rope.scaling.attn_factor"] = static_cast<float>(rotary_magnitude(rotary));
    tensors.push_back(gguf_factors("rope_factors_short.weight", rotary.factors));
    tensors.push_back(gguf_factors("rope_factors_long.weight", rotary.long_factors));
  } else if (!rotary.factors.empty()) {
    tensors.push_back(gguf_factors("rope_freqs.weight", rotary.factors));
  }
}

} // namespace pumice
