#include "compilers/cost_models.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/architecture.h"
#include "support/files/byte_writer.h"
#include "support/files/gguf_builder.h"

using namespace pumice;

namespace {

// Gives the model that the folder's config.json describes zeros for weights: the file has a hole where they
// would be.
Result<ModelFile> with_zeros(const TemporaryFolder& folder) {
  PUMICE_TRY(const ModelFile bare, ModelFile::open(folder.path()));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(bare));
  nlohmann::json tensors;
  uint64_t bytes = 0;
  for (const WeightSpec& spec : definition->weights()) {
    const uint64_t end = bytes + tensor_bytes(TensorType::f16, spec.shape).value();
    tensors[spec.name] = {{"dtype", "F16"}, {"shape", spec.shape}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  const std::string header = tensors.dump();
  ByteWriter begin;
  begin.number(static_cast<uint64_t>(header.size())).text(header);
  std::filesystem::resize_file(folder.write("model.safetensors", begin.bytes()), begin.size() + bytes);
  return ModelFile::open(folder.path());
}

// Of value heads as wide as those of keys, one or two to a key.
nlohmann::json delta_rule_config(bool large) {
  return {{"model_type", "qwen3_5_text"},
          {"hidden_size", large ? 4096 : 1024},
          {"intermediate_size", large ? 12288 : 3584},
          {"num_hidden_layers", 2},
          {"layer_types", {"linear_attention", "full_attention"}},
          {"linear_num_key_heads", 16},
          {"linear_key_head_dim", 128},
          {"linear_num_value_heads", large ? 32 : 16},
          {"linear_value_head_dim", 128},
          {"linear_conv_kernel_dim", 4},
          {"num_attention_heads", large ? 16 : 8},
          {"num_key_value_heads", large ? 4 : 2},
          {"head_dim", 256},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 1024},
          {"rope_parameters",
           {{"rope_theta", 10000000.0}, {"rope_type", "default"}, {"partial_rotary_factor", 0.25}}}};
}

nlohmann::json selective_scan_config(bool large) {
  const uint32_t hidden = large ? 4096 : 1536, head_dim = 64;
  return {{"model_type", "mamba2"},    {"hidden_size", hidden},
          {"num_hidden_layers", 2},    {"expand", 2},
          {"head_dim", head_dim},      {"num_heads", 2 * hidden / head_dim},
          {"n_groups", large ? 8 : 1}, {"state_size", 128},
          {"conv_kernel", 4},          {"layer_norm_epsilon", 1e-5},
          {"use_bias", false},         {"use_conv_bias", true}};
}

} // namespace

Result<ModelFile> llama_model(TensorType type, bool large) {
  constexpr uint32_t vocabulary = 32000, context = 1024;
  const uint32_t width = large ? 4096 : 2048, feed_forward = large ? 14336 : 8192,
                 head_dim = large ? 128 : 64;
  const uint32_t heads = width / head_dim, kv_width = width / 4;
  GgufBuilder file;
  file.string("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.vocab_size", vocabulary);
  file.u32("llama.context_length", context).u32("llama.embedding_length", width);
  file.u32("llama.feed_forward_length", feed_forward).u32("llama.attention.head_count", heads);
  file.u32("llama.attention.head_count_kv", heads / 4);
  file.pair("llama.attention.layer_norm_rms_epsilon", GgufType::f32, 1e-5f);
  uint64_t bytes = 0;
  const auto tensor = [&](const std::string& name, std::vector<uint64_t> shape) {
    const TensorTypeInfo& kind = info(shape.size() == 1 ? TensorType::f32 : type);
    const std::vector<uint64_t> dims(shape.rbegin(), shape.rend());
    file.tensor({name, dims, kind.gguf_id, bytes});
    bytes = (bytes + tensor_bytes(kind.type, shape).value() + 31) / 32 * 32;
  };
  tensor("token_embd.weight", {vocabulary, width});
  tensor("output.weight", {vocabulary, width});
  tensor("output_norm.weight", {width});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    tensor(layer + "attn_norm.weight", {width});
    tensor(layer + "attn_q.weight", {width, width});
    tensor(layer + "attn_k.weight", {kv_width, width});
    tensor(layer + "attn_v.weight", {kv_width, width});
    tensor(layer + "attn_output.weight", {width, width});
    tensor(layer + "ffn_norm.weight", {width});
    tensor(layer + "ffn_gate.weight", {feed_forward, width});
    tensor(layer + "ffn_up.weight", {feed_forward, width});
    tensor(layer + "ffn_down.weight", {width, feed_forward});
  }
  const std::vector<std::byte> header = file.header();
  const ReadBytes read = [&](uint64_t at, std::span<std::byte> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = at + i < header.size() ? header[at + i] : std::byte{0};
    return true;
  };
  return ModelFile::read_header(read, (header.size() + 31) / 32 * 32 + bytes,
                                fmt::format("llama of {}", info(type).name));
}

Result<ModelFile> recurrent_model(std::string_view family, bool large, const TemporaryFolder& folder) {
  nlohmann::json config = family == "delta_rule" ? delta_rule_config(large) : selective_scan_config(large);
  config.update({{"vocab_size", 32000}, {"tie_word_embeddings", false}});
  folder.write("config.json", config.dump());
  return with_zeros(folder);
}

Result<ModelFile> folder_model(const std::filesystem::path& config, const TemporaryFolder& folder) {
  for (const auto& each : std::filesystem::directory_iterator(config)) {
    if (each.path().extension() != ".json" || each.path().filename() == "weights.json") continue;
    std::filesystem::copy_file(each, folder.path() / each.path().filename());
  }
  return with_zeros(folder);
}
