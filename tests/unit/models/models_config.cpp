// The configs of every architecture: what is read, and what is refused.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <deque>
#include <functional>

#include "model/architecture.h"
#include "support/command/messages.h"

using namespace pumice;
using json = nlohmann::json;

namespace {

Result<std::unique_ptr<ModelDefinition>> open(const json& config) {
  static std::deque<std::string> texts; // the files point into these
  static std::deque<ModelFile> files;
  const std::string& text = texts.emplace_back(config.dump());
  auto file = ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json");
  if (!file.ok()) return file.error();
  return open_model_definition(files.emplace_back(*std::move(file)));
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

// Whether opening fails with a message that contains all of these.
void refused(const json& config, const std::vector<std::string>& parts) {
  const auto definition = open(config);
  REQUIRE(!definition.ok());
  CAPTURE(definition.error().text());
  for (const std::string& part : parts) CHECK(definition.error().text().find(part) != std::string::npos);
}

json base(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 100},
          {"hidden_size", 64},        {"num_hidden_layers", 4},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 96},  {"max_position_embeddings", 256}};
}

std::vector<uint32_t> windows(const json& config) {
  const auto definition = open(config);
  if (!definition.ok()) FAIL(definition.error().text());
  std::vector<uint32_t> result;
  for (const LayerCache& layer : (*definition)->shape().layers) result.push_back(layer.window);
  return result;
}

std::string shown(const json& config, std::string_view name) {
  const auto definition = open(config);
  if (!definition.ok()) FAIL(definition.error().text());
  for (const Hyperparameter& each : (*definition)->hyperparameters()) {
    if (each.name == name) return each.value;
  }
  return {};
}

std::string rotary(const json& config) {
  return shown(config, "rotary");
}

using Windows = std::vector<uint32_t>;

json bart(const char* model_type) {
  return {{"model_type", model_type},
          {"vocab_size", 100},
          {"d_model", 64},
          {"encoder_layers", 3},
          {"encoder_attention_heads", 4},
          {"encoder_ffn_dim", 96},
          {"decoder_layers", 2},
          {"decoder_attention_heads", 8},
          {"decoder_ffn_dim", 128},
          {"max_position_embeddings", 256},
          {"max_source_positions", 50},
          {"max_target_positions", 40},
          {"activation_function", "gelu"},
          {"share_encoder_decoder_embeddings", true}};
}

json transformer() {
  return {{"model_type", "transformer"}, {"vocab_size", 100},       {"d_model", 64},        {"num_heads", 4},
          {"num_encoder_layers", 3},     {"num_decoder_layers", 2}, {"dim_feedforward", 96}};
}

json t5() {
  return {{"model_type", "t5"}, {"vocab_size", 100}, {"d_model", 64}, {"d_kv", 8},
          {"d_ff", 96},         {"num_layers", 3},   {"num_heads", 4}};
}

json vit() {
  return with(base("vit"), {{"image_size", {32, 48}}, {"patch_size", 8}});
}

json captioner() {
  const json gpt2 = {
      {"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 48}, {"n_layer", 2}, {"n_head", 3}};
  return {{"model_type", "vision-encoder-decoder"}, {"encoder", vit()}, {"decoder", gpt2}};
}

json donut(const json& changes = json::object()) {
  const json swin = {
      {"model_type", "donut-swin"}, {"image_size", 32},    {"patch_size", 4},  {"embed_dim", 8},
      {"depths", {1, 1}},           {"num_heads", {2, 2}}, {"window_size", 4}, {"num_channels", 3}};
  return with(captioner(), {{"encoder", with(swin, changes)}});
}

// `changes`: of the part that sees.
json florence2(const json& changes = json::object()) {
  const json bart = {{"model_type", "bart"},
                     {"vocab_size", 100},
                     {"d_model", 32},
                     {"encoder_layers", 2},
                     {"encoder_attention_heads", 4},
                     {"encoder_ffn_dim", 48},
                     {"decoder_layers", 1},
                     {"decoder_attention_heads", 2},
                     {"decoder_ffn_dim", 48},
                     {"max_position_embeddings", 64}};
  const json davit = {{"model_type", "florence_vision"},
                      {"embed_dim", {16, 24}},
                      {"depths", {1, 1}},
                      {"num_heads", {2, 3}},
                      {"num_groups", {4, 2}},
                      {"patch_size", {7, 3}},
                      {"patch_stride", {4, 2}},
                      {"patch_padding", {3, 1}},
                      {"patch_prenorm", {false, true}},
                      {"window_size", 3},
                      {"projection_dim", 32},
                      {"max_position_embeddings", 7}};
  return {{"model_type", "florence2"}, {"text_config", bart}, {"vision_config", with(davit, changes)}};
}

json beit() {
  return with(base("beit"), {{"image_size", 24}, {"patch_size", 4}});
}

json each_bias(const json& config) {
  return with(config, {{"use_relative_position_bias", true}});
}

json reader(const json& encoder) {
  const json trocr = {{"model_type", "trocr"},
                      {"vocab_size", 100},
                      {"d_model", 48},
                      {"decoder_layers", 2},
                      {"decoder_attention_heads", 3},
                      {"decoder_ffn_dim", 80},
                      {"max_position_embeddings", 30}};
  return {{"model_type", "vision-encoder-decoder"}, {"encoder", encoder}, {"decoder", trocr}};
}

std::unique_ptr<ModelDefinition> opened(const json& config) {
  auto definition = open(config);
  if (!definition.ok()) FAIL(definition.error().text());
  return *std::move(definition);
}

std::vector<uint64_t> weight_shape(const ModelDefinition& definition, const std::string& name) {
  for (const WeightSpec& spec : definition.weights()) {
    if (spec.name == name) return spec.shape;
  }
  return {};
}

// Calls use() with copies of a config in which one setting, of it or of an object in it, is missing or has
// another value.
void damage(const json& config, const std::function<void(const json&)>& use) {
  const json values[] = {nullptr,
                         true,
                         -1,
                         0,
                         1,
                         3,
                         7.5,
                         4294967295,
                         1e300,
                         "",
                         "mish",
                         json::array(),
                         {1, 2},
                         json::array({1, 2, 3}),
                         json::object(),
                         {{"0", 1}}};
  for (const auto& [name, value] : config.items()) {
    for (const json& each : values) use(with(config, {{name, each}}));
    json without = config;
    without.erase(name);
    use(without);
    if (!value.is_object()) continue;
    damage(value, [&, key = name](const json& inner) {
      json outer = config;
      outer[key] = inner;
      use(outer);
    });
  }
}

using Shape = std::vector<uint64_t>;

} // namespace

TEST_CASE("which layers have a window") {
  CHECK(windows(base("llama")) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("mistral"), {{"sliding_window", 9}})) == Windows{9, 9, 9, 9});
  CHECK(windows(with(base("mistral"), {{"sliding_window", nullptr}})) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("qwen2"), {{"sliding_window", 9}})) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("qwen2"),
                     {{"sliding_window", 9}, {"use_sliding_window", true}, {"max_window_layers", 3}})) ==
        Windows{0, 0, 0, 9});
  CHECK(windows(with(base("gemma2"), {{"sliding_window", 9}})) == Windows{9, 0, 9, 0});
  CHECK(windows(with(base("gemma3_text"), {{"sliding_window", 9}, {"sliding_window_pattern", 3}})) ==
        Windows{9, 9, 0, 9});
  for (const char* name : {"olmo3", "exaone4", "cohere2"}) {
    CHECK(windows(with(base(name), {{"sliding_window", 9}})) == Windows{9, 9, 9, 0});
  }
  CHECK(windows(base("olmo2")) == Windows{0, 0, 0, 0});
  CHECK(windows(with(base("starcoder2"), {{"sliding_window", 9}})) == Windows{9, 9, 9, 9});
  const json types = {"full_attention", "full_attention", "sliding_attention", "full_attention"};
  CHECK(windows(with(base("gemma2"), {{"sliding_window", 9}, {"layer_types", types}})) ==
        Windows{0, 0, 9, 0});
}

TEST_CASE("rotary positions under all their names") {
  CHECK(rotary(with(base("llama"), {{"rope_theta", 500000}})).find("base 500000") != std::string::npos);
  CHECK(rotary(with(base("llama"), {{"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}}}))
            .find("base 500000") != std::string::npos);
  CHECK(rotary(with(base("llama"), {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}})).find("linear") !=
        std::string::npos);
  CHECK(
      rotary(with(base("qwen2"), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}})).find("yarn") !=
      std::string::npos);
  const json dynamic = {{"rope_type", "dynamic"}, {"alpha", 1000}};
  CHECK(rotary(with(base("hunyuan_v1_dense"), {{"rope_scaling", dynamic}})).find("base 2.6827e+07") !=
        std::string::npos);
  CHECK(rotary(with(base("gpt_neox"), {{"rotary_pct", 0.5}})).find("8 dimensions") != std::string::npos);
  CHECK(rotary(base("gpt_neox")).find("4 dimensions") != std::string::npos); // the default is a quarter
}

TEST_CASE("errors name what is wrong or not supported") {
  refused(base("perceptron"), {"config.json", "model_type", "gemma3_text", "mixtral", "perceptron"});
  refused(with(base("mistral"), {{"num_key_value_heads", 3}}), {"num_key_value_heads", "4 heads", "found 3"});
  refused(with(base("qwen3"), {{"head_dim", 1000}}), {"head_dim", "576", "1000"});
  refused(with(base("qwen2"), {{"hidden_act", "mish"}}), {"hidden_act", "silu", "mish"});
  // Its factor counts beyond the context alone.
  CHECK(rotary(with(base("llama"), {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2}}}})) ==
        rotary(base("llama")));
  refused(with(base("llama"), {{"rope_scaling", {{"rope_type", "ntk"}, {"factor", 2}}}}),
          {"rope_scaling", "rope_type", "yarn", "'ntk'"});
  refused(with(base("llama"), {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}),
          {"rope_scaling", "low_freq_factor"});
  refused(with(base("phi3"),
               {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2}}}}}),
          {"rope_scaling", "short_factor", "8 pairs", "found 2"});
  refused(with(base("mixtral"), {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
          {"num_experts_per_tok", "4 experts", "found 5"});
  refused(base("mixtral"), {"num_local_experts"});
  refused(with(base("gemma2"), {{"layer_types", {"full_attention"}}}),
          {"layer_types", "4 layers", "found 1"});
  refused(
      with(base("gemma2"),
           {{"layer_types", {"full_attention", "chunked_attention", "full_attention", "full_attention"}}}),
      {"layer_types", "sliding_attention", "chunked_attention"});
  refused(with(base("mistral"), {{"sliding_window", -4}}), {"sliding_window", "-4"});
  refused(with(base("gpt_neox"), {{"rotary_pct", 0.2}}), {"even number", "found 3"});
  refused(with(base("smollm3"), {{"no_rope_layers", {1, 0}}}), {"no_rope_layers", "4 layers", "found 2"});
  refused(with(base("ministral3"), {{"sliding_window", 9}}), {"sliding_window", "not supported"});
  refused(with(base("nemotron"), {{"hidden_act", "silu"}}), {"hidden_act", "relu2", "silu"});
  refused(with(base("falcon"), {{"alibi", true}}), {"alibi", "only false", "found true"});
  refused(with(base("falcon"), {{"new_decoder_architecture", true}, {"num_kv_heads", 3}}),
          {"num_kv_heads", "4 heads", "found 3"});
  refused(with(base("stablelm"), {{"qk_layernorm", true}}), {"qk_layernorm"});
  refused(with(base("phi"), {{"qk_layernorm", true}}), {"qk_layernorm", "only false"});
  refused(with(base("opt"), {{"do_layer_norm_before", false}}), {"do_layer_norm_before", "only true"});
  refused(with(base("opt"), {{"word_embed_proj_dim", 32}}), {"word_embed_proj_dim", "64", "found 32"});
  const json gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 65},
                     {"n_layer", 2},         {"n_head", 4},       {"n_positions", 64}};
  refused(gpt2, {"n_head", "65 columns", "found 4"});
}

TEST_CASE("settings of mixtures of experts that cannot be are refused") {
  const json glm =
      with(base("glm4_moe"), {{"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"head_dim", 16}});
  CHECK(open(glm).ok());
  CHECK(open(with(glm, {{"n_group", 4}, {"topk_group", 1}})).ok());
  refused(with(glm, {{"n_group", 3}}), {"n_group", "8 experts", "found 3"});
  refused(with(glm, {{"n_group", 8}, {"topk_group", 1}}), {"topk_group", "1 experts", "found 1"});
  refused(with(glm, {{"n_group", 4}, {"topk_group", 5}}), {"topk_group", "found 5"});
  refused(with(glm, {{"num_experts_per_tok", 9}}), {"num_experts_per_tok", "8 experts", "found 9"});
  const json mini = with(base("minimax_m2"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
  CHECK(open(mini).ok());
  refused(with(mini, {{"scoring_func", "softmax"}}), {"scoring_func", "sigmoid", "softmax"});
  refused(with(mini, {{"rotary_dim", 17}}), {"rotary_dim", "found 17"});
  const json llama =
      with(base("llama4_text"), {{"num_local_experts", 4}, {"num_experts_per_tok", 1}, {"head_dim", 16}});
  CHECK(windows(with(llama, {{"attention_chunk_size", 9}})) == Windows{9, 9, 9, 0});
  refused(with(llama, {{"no_rope_layers", {1, 0}}}), {"no_rope_layers", "4 layers", "found 2"});
  refused(with(llama, {{"layer_types", {"sliding_attention"}}}), {"layer_types", "4 layers", "found 1"});
  refused(with(llama, {{"moe_layers", {4}}}), {"moe_layers", "4"});
  const json gpt =
      with(base("gpt_oss"), {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"sliding_window", 9}});
  CHECK(windows(gpt) == Windows{9, 0, 9, 0});
  refused(with(gpt, {{"swiglu_limit", 0}}), {"swiglu_limit"});
}

TEST_CASE("what mixtures of several families cannot do is refused by name") {
  const json phi = with(base("phimoe"), {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  CHECK(open(phi).ok());
  refused(with(phi, {{"num_experts_per_tok", 3}}), {"num_experts_per_tok", "expected 2", "found 3"});
  const json factors = {1, 1, 1, 1, 1, 1, 1, 1};
  const json scaling = {{"type", "longrope"},     {"short_factor", factors},
                        {"long_factor", factors}, {"short_mscale", 1.2f},
                        {"long_mscale", 1.2f},    {"original_max_position_embeddings", 64}};
  CHECK(rotary(with(phi, {{"rope_scaling", scaling}})).find("magnitude 1.2") != std::string::npos);
  refused(with(phi, {{"rope_scaling", with(scaling, {{"long_mscale", 1.3f}})}}),
          {"long_mscale", "1.2", "found 1.3"});
  const json afm =
      with(base("afmoe"), {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"sliding_window", 9}});
  CHECK(windows(afm) == Windows{9, 9, 9, 0});
  CHECK(windows(with(afm, {{"global_attn_every_n_layers", 2}})) == Windows{9, 0, 9, 0});
  refused(with(afm, {{"route_norm", false}}), {"route_norm", "only true"});
  const json exaone =
      with(base("exaone_moe"), {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"sliding_window", 9}});
  CHECK(windows(with(exaone, {{"sliding_window_pattern", 3}})) == Windows{9, 9, 0, 9});
  refused(with(exaone, {{"mlp_layer_types", {"dense", "sparse"}}}), {"mlp_layer_types", "4 layers"});
}

TEST_CASE("layers of several kinds, and what their models cannot do") {
  const json nemotron = with(base("nemotron_h"), {{"mamba_num_heads", 4},
                                                  {"mamba_head_dim", 8},
                                                  {"ssm_state_size", 16},
                                                  {"conv_kernel", 4},
                                                  {"hybrid_override_pattern", "M-*M-"}});
  const auto shape = [](const json& config) {
    const auto definition = open(config);
    if (!definition.ok()) FAIL(definition.error().text());
    return (*definition)->shape();
  };
  CHECK(shape(nemotron).layers.size() == 5);
  CHECK(shape(nemotron).states.size() == 2 * 4); // three convolutions and a scan of each mixer
  CHECK(shape(nemotron).layers[1].kv_heads == 0);
  CHECK(shape(nemotron).layers[2].kv_heads == 2);
  refused(with(nemotron, {{"hybrid_override_pattern", "MX"}}), {"hybrid_override_pattern", "found 'X'"});
  refused(with(nemotron, {{"attention_bias", true}}), {"attention_bias", "only false"});
  refused(with(nemotron, {{"mlp_hidden_act", "silu"}}), {"mlp_hidden_act", "relu2", "silu"});
  const json jamba =
      with(base("jamba"), {{"num_experts", 1}, {"attn_layer_period", 2}, {"attn_layer_offset", 1}});
  CHECK(shape(jamba).states.size() == 2 * 2); // a convolution and a scan of each mixer
  CHECK(shape(jamba).layers[0].kv_heads == 0);
  refused(with(jamba, {{"attn_layer_offset", 2}}), {"attn_layer_offset", "2"});
  const json mamba = {
      {"model_type", "mamba"}, {"vocab_size", 100}, {"hidden_size", 40}, {"num_hidden_layers", 2}};
  CHECK(shape(with(mamba, {{"time_step_rank", "auto"}})).states ==
        std::vector<uint32_t>{240, 1280, 240, 1280});
  refused(with(mamba, {{"time_step_rank", "some"}}), {"time_step_rank", "some"});
  refused(with(mamba, {{"hidden_act", "gelu"}}), {"hidden_act", "silu", "gelu"});
  refused(with(base("bitnet"), {{"hidden_act", "gelu"}}), {"hidden_act", "relu2", "gelu"});
  refused(with(base("apertus"), {{"hidden_act", "silu"}}), {"hidden_act", "xielu", "silu"});
}

TEST_CASE("both sides of an encoder-decoder have sizes of their own") {
  for (const char* type : {"bart", "marian", "whisper"}) {
    CAPTURE(type);
    const auto definition = opened(bart(type));
    const ModelShape shape = definition->shape();
    CHECK(shape.layers.size() == 2);
    CHECK(shape.layers[0].kv_heads == 8);
    CHECK(shape.layers[0].head_dim == 8);
    REQUIRE(shape.encoder);
    REQUIRE(shape.encoder->caches.size() == 3);
    CHECK(shape.encoder->caches[0].kv_heads == 8);
    CHECK(shape.encoder->caches[1].head_dim == 8);
    CHECK(shape.encoder->caches[2].kv_heads == 4);
    CHECK(shape.encoder->caches[2].head_dim == 16);
    CHECK(weight_shape(*definition, "model.encoder.layers.2.fc1.weight") == Shape{96, 64});
    CHECK(weight_shape(*definition, "model.encoder.layers.3.fc1.weight").empty());
    CHECK(weight_shape(*definition, "model.decoder.layers.1.fc1.weight") == Shape{128, 64});
    CHECK(weight_shape(*definition, "model.decoder.layers.2.fc1.weight").empty());
  }
  const auto t5_model = opened(with(t5(), {{"num_decoder_layers", 5}}));
  CHECK(t5_model->shape().layers.size() == 5);
  CHECK(t5_model->shape().layers[0].head_dim == 8);
  CHECK(t5_model->shape().encoder->caches.size() == 6);
  CHECK(weight_shape(*t5_model, "encoder.block.2.layer.0.SelfAttention.q.weight") == Shape{32, 64});
  CHECK(weight_shape(*t5_model, "decoder.block.4.layer.1.EncDecAttention.o.weight") == Shape{64, 32});
  CHECK(opened(transformer())->shape().layers.size() == 2);
  CHECK(opened(transformer())->shape().encoder->caches.size() == 3);
}

TEST_CASE("an encoder of pictures may be wider than the decoder") {
  const auto definition = opened(captioner());
  const ModelShape shape = definition->shape();
  CHECK(shape.encoder->hidden == 64);
  CHECK(shape.encoder->context == 25);
  CHECK(shape.encoder->input_shape == std::vector<uint32_t>{3, 32, 48});
  CHECK(shape.encoder->caches[0].kv_heads == 3);
  CHECK(shape.encoder->caches[2].kv_heads == 4);
  CHECK(weight_shape(*definition, "enc_to_dec_proj.weight") == Shape{48, 64});
  CHECK(weight_shape(*definition, "decoder.transformer.h.1.crossattention.c_attn.weight") == Shape{48, 96});
}

TEST_CASE("TrOCR's decoder reads the encoder's rows as they are, or projected to its own width") {
  const std::string key = "decoder.model.decoder.layers.1.encoder_attn.k_proj.weight",
                    head = "decoder.output_projection.weight";
  json config = reader(with(base("deit"), {{"image_size", {32, 48}}, {"patch_size", 8}}));
  auto definition = opened(config);
  CHECK(definition->shape().encoder->context == 26); // a class token and a distillation token
  CHECK(definition->shape().context == 30);
  CHECK(weight_shape(*definition, "encoder.embeddings.position_embeddings") == Shape{1, 26, 64});
  CHECK(weight_shape(*definition, "decoder.model.decoder.embed_positions.weight") == Shape{32, 48});
  CHECK(weight_shape(*definition, "enc_to_dec_proj.weight") == Shape{48, 64});
  CHECK(weight_shape(*definition, key) == Shape{48, 48});
  CHECK(weight_shape(*definition, head).empty()); // tied, unless it says otherwise
  config["decoder"]["cross_attention_hidden_size"] = 64;
  config["decoder"]["tie_word_embeddings"] = false;
  config["decoder"]["use_learned_position_embeddings"] = false;
  config["decoder"]["layernorm_embedding"] = false;
  definition = opened(config);
  CHECK(weight_shape(*definition, "enc_to_dec_proj.weight").empty());
  CHECK(weight_shape(*definition, key) == Shape{48, 64});
  CHECK(weight_shape(*definition, head) == Shape{100, 48});
  CHECK(weight_shape(*definition, "decoder.model.decoder.embed_positions.weight").empty());
  CHECK(weight_shape(*definition, "decoder.model.decoder.layernorm_embedding.weight").empty());
  config["decoder"]["cross_attention_hidden_size"] = 63;
  refused(config, {"decoder.cross_attention_hidden_size", "expected 64", "found 63"});
  config["decoder"].erase("cross_attention_hidden_size");
  config["decoder"]["d_model"] = 51;
  refused(config, {"decoder.d_model", "even", "found 51"});
}

TEST_CASE("what BEiT's config turns on has weights, and nothing else") {
  const std::string layer = "encoder.layer.1.", table = "relative_position_bias.relative_position_bias_table",
                    own = layer + "attention.attention." + table, shared = "encoder." + table;
  auto definition = opened(beit());
  CHECK(weight_shape(*definition, layer + "lambda_2") == Shape{64});
  CHECK(weight_shape(*definition, "pooler.layernorm.weight") == Shape{64});
  for (const std::string& none :
       {own, shared, std::string("layernorm.weight"), std::string("embeddings.position_embeddings"),
        layer + "attention.attention.key.bias"})
    CHECK(weight_shape(*definition, none).empty());
  definition = opened(with(beit(), {{"use_shared_relative_position_bias", true},
                                    {"use_absolute_position_embeddings", true},
                                    {"use_mean_pooling", false},
                                    {"layer_scale_init_value", 0}}));
  CHECK(weight_shape(*definition, shared) == Shape{11 * 11 + 3, 4});
  CHECK(weight_shape(*definition, own).empty());
  CHECK(weight_shape(*definition, "embeddings.position_embeddings") == Shape{1, 37, 64});
  CHECK(weight_shape(*definition, "layernorm.weight") == Shape{64});
  CHECK(weight_shape(*definition, "pooler.layernorm.weight").empty());
  CHECK(weight_shape(*definition, layer + "lambda_2").empty());
  const json each = each_bias(beit());
  CHECK(weight_shape(*opened(each), own) == Shape{11 * 11 + 3, 4});
  refused(with(each, {{"use_shared_relative_position_bias", true}}),
          {"use_shared_relative_position_bias", "expected false"});
  refused(with(each, {{"image_size", {24, 32}}}), {"image_size", "square", "found 6 x 8"});
  refused(with(each, {{"image_size", 400}}), {"image_size", "90 x 90", "found 100 x 100"});
}

TEST_CASE("sizes of Donut's encoder that no row can have are refused") {
  const std::vector<uint32_t> ones(8, 1);
  CHECK(open(donut()).ok());
  // 2^14 patches of 2^18 numbers: 2^32.
  refused(donut({{"image_size", 512},
                 {"patch_size", 512},
                 {"num_channels", 1},
                 {"embed_dim", 4},
                 {"depths", ones},
                 {"num_heads", ones},
                 {"window_size", 1}}),
          {"encoder.patch_size", "67108864 numbers", "16384 pixels of 262144"});
  refused(donut({{"embed_dim", 1 << 20}, {"mlp_ratio", 1000}}),
          {"encoder.embed_dim", "1048576", "last stage"});
  refused(donut({{"embed_dim", 1 << 19}, {"num_heads", {4096, 4096}}, {"mlp_ratio", 1000}}),
          {"encoder.embed_dim", "4 pixels of 524288000"});
  refused(donut({{"embed_dim", 1024}, {"num_heads", {1, 1}}}),
          {"encoder.num_heads", "at most 576", "found 1"});
}

TEST_CASE("Florence-2's settings are read, and those of an encoder that cannot be computed refused") {
  const EncoderShape shape = *opened(florence2())->shape().encoder;
  CHECK(shape.kind == InputKind::pixels);
  // 768, 384, 192 and 96 would have more rows than there are places and positions.
  CHECK(shape.input_shape == std::vector<uint32_t>{3, 48, 48});
  CHECK(shape.picture_rows == 1 + 6 * 6);
  CHECK(shape.context == 64);
  const auto sized = opened(florence2());
  CHECK(sized->set_picture_size(30, 50).ok());
  CHECK(sized->shape().encoder->picture_rows == 1 + 4 * 7);
  const Status places = sized->set_picture_size(30, 58), positions = sized->set_picture_size(56, 56),
               small = opened(florence2({{"patch_padding", {0, 0}}}))->set_picture_size(6, 6);
  CHECK(places.error().text().find("4 x 8 rows: expected at most 7") != std::string::npos);
  CHECK(positions.ok());
  CHECK(small.error().text().find("becomes 0 x 0 of 16 channels") != std::string::npos);
  json crowded = florence2();
  crowded["text_config"]["max_position_embeddings"] = 3;
  crowded["vision_config"]["max_position_embeddings"] = 1000;
  refused(crowded, {"config.json: a picture of 768 x 768 pixels", "text_config.max_position_embeddings"});
  crowded["text_config"]["model_type"] = "mbart";
  refused(crowded, {"text_config.model_type", "expected bart", "mbart"});
  refused(florence2({{"model_type", "davit"}}), {"vision_config.model_type", "florence_vision", "davit"});
  refused(florence2({{"projection_dim", 48}}), {"vision_config.projection_dim", "expected 32", "found 48"});
  refused(florence2({{"embed_dim", {16, 22}}}), {"vision_config.embed_dim", "multiples of 4"});
  refused(florence2({{"num_heads", {3, 3}}}), {"vision_config.num_heads", "16 columns", "found 3"});
  refused(florence2({{"num_groups", {4, 4}}}), {"vision_config.num_groups", "24 columns", "found 4"});
  refused(florence2({{"depths", {1}}}), {"vision_config.depths", "2 stages of embed_dim", "found 1"});
  refused(florence2({{"patch_stride", json()}}), {"vision_config.patch_stride", "found 0"});
  refused(florence2({{"patch_prenorm", {true, true}}}), {"vision_config.patch_prenorm", "[true,true]"});
  refused(florence2({{"patch_size", {7, 1}}}), {"vision_config.patch_padding", "found 1"});
  refused(florence2({{"mlp_ratio", 1.1}}), {"vision_config.mlp_ratio", "16 columns", "1.1"});
  // 132 columns, of 131.99999 in 32 bits.
  const json wide = {
      {"embed_dim", {40, 40}}, {"num_heads", {2, 2}}, {"num_groups", {2, 2}}, {"mlp_ratio", 3.3}};
  CHECK(opened(florence2(wide))->shape().encoder->picture_rows == 37);
  refused(florence2({{"window_size", 129}}), {"vision_config.window_size", "128", "found 129"});
  refused(florence2({{"activation_function", "swish9"}}), {"vision_config.activation_function", "swish9"});
}

TEST_CASE("what Gemma 3n and MiniCPM 3 make of settings that are not there, or null") {
  const json gemma = with(base("gemma3n_text"), {{"vocab_size_per_layer_input", 90}});
  const auto shared = [&](const json& changes) { return shown(with(gemma, changes), "layers without keys"); };
  CHECK(shared({{"num_hidden_layers", 20}}) == "15");
  CHECK(shared({{"num_hidden_layers", 20}, {"num_kv_shared_layers", 5}}) == "5");
  CHECK(shared({{"num_kv_shared_layers", 4}}) == "0"); // as many as there are
  CHECK(shared(json::object()) == "0");
  refused(with(gemma, {{"vocab_size", 1 << 17}, {"vocab_size_per_layer_input", 1}}),
          {"vocab_size_per_layer_input", "at least 65536", "found 1"});

  const json minicpm =
      with(base("minicpm3"),
           {{"q_lora_rank", 32}, {"kv_lora_rank", 16}, {"qk_nope_head_dim", 8}, {"qk_rope_head_dim", 8}});
  const auto scales = [&](const json& changes) {
    return shown(with(minicpm, changes), "factors of residuals and logits");
  };
  CHECK(scales({{"scale_depth", nullptr}, {"dim_model_base", nullptr}}) == "1, 1");
  CHECK(scales({{"scale_depth", 4}, {"dim_model_base", 32}}) == "2, 0.5");
  CHECK(scales(json::object()) == "0.7, 4");
}

TEST_CASE("a translation model may have two vocabularies") {
  const json config =
      with(bart("marian"), {{"share_encoder_decoder_embeddings", false}, {"decoder_vocab_size", 70}});
  const auto definition = opened(config);
  CHECK(definition->shape().vocabulary == 70);
  CHECK(definition->shape().encoder->vocabulary == 100);
  CHECK(weight_shape(*definition, "model.encoder.embed_tokens.weight") == Shape{100, 64});
  CHECK(weight_shape(*definition, "model.decoder.embed_tokens.weight") == Shape{70, 64});
  CHECK(opened(bart("marian"))->shape().vocabulary == 100);
}

TEST_CASE("where positions begin") {
  CHECK(opened(base("bert"))->shape().encoder->context == 256);
  CHECK(opened(base("roberta"))->shape().encoder->context == 254);
  CHECK(opened(with(base("xlm-roberta"), {{"pad_token_id", 5}}))->shape().encoder->context == 250);
  CHECK(opened(bart("bart"))->shape().encoder->context == 256);
  CHECK(weight_shape(*opened(bart("bart")), "model.encoder.embed_positions.weight") == Shape{258, 64});
}

TEST_CASE("an encoder with a linear bias in place of positions") {
  const json jina =
      with(base("bert"), {{"position_embedding_type", "alibi"}, {"feed_forward_type", "reglu"}});
  CHECK(shown(jina, "positions") == "linear bias of scores");
  CHECK(shown(jina, "activation") == "relu");
  CHECK(weight_shape(*opened(jina), "encoder.layer.0.mlp.gated_layers.weight") == Shape{192, 64});
  const json plain = with(jina, {{"feed_forward_type", nullptr}});
  CHECK(weight_shape(*opened(plain), "encoder.layer.0.intermediate.dense.weight") == Shape{96, 64});
  refused(with(jina, {{"feed_forward_type", "swiglu"}}), {"feed_forward_type", "geglu", "swiglu"});
}

TEST_CASE("Nomic's encoders with experts in some layers") {
  const json nomic = {{"model_type", "nomic_bert"},
                      {"vocab_size", 100},
                      {"n_embd", 64},
                      {"n_layer", 5},
                      {"n_head", 4},
                      {"n_inner", 96},
                      {"activation_function", "gelu"},
                      {"moe_every_n_layers", 3},
                      {"num_experts", 6},
                      {"moe_top_k", 2}};
  CHECK(shown(nomic, "experts") == "6, of which 2 for a token, in one of 3 layers");
  const auto definition = opened(nomic);
  CHECK(weight_shape(*definition, "encoder.layers.4.mlp.experts.mlp.w2") == Shape{576, 64});
  CHECK(weight_shape(*definition, "encoder.layers.3.mlp.fc1.bias") == Shape{96});
  refused(with(nomic, {{"moe_top_k", 7}}), {"moe_top_k", "6 experts", "found 7"});
  refused(with(nomic, {{"activation_function", "swiglu"}}), {"activation_function", "gelu"});
  refused(with(nomic, {{"moe_normalize_expert_weights", true}}),
          {"moe_normalize_expert_weights", "only false"});
  refused(with(nomic, {{"mlp_fc2_bias", false}}), {"mlp_fc2_bias", "mlp_fc1_bias"});
  CHECK(shown(nomic, "activation") == "gelu");
  CHECK(shown(base("nomic_bert"), "activation") == "silu");
  CHECK(shown(with(base("nomic_bert"), {{"hidden_act", "relu"}}), "activation") == "relu");
}

TEST_CASE("NeoBERT's feed-forward has two thirds of the setting's size") {
  const json neo = with(base("neobert"), {{"max_length", 512}, {"intermediate_size", 100}});
  CHECK(weight_shape(*opened(neo), "transformer_encoder.0.ffn.w12.weight") == Shape{144, 64});
  CHECK(opened(neo)->shape().encoder->context == 512);
  refused(with(neo, {{"hidden_act", "GELU"}}), {"hidden_act", "swiglu", "gelu"});
  refused(with(neo, {{"rms_norm", false}}), {"rms_norm", "only true"});
}

TEST_CASE("DBRX's settings are in objects") {
  const json dbrx = {{"model_type", "dbrx"},
                     {"vocab_size", 100},
                     {"d_model", 64},
                     {"n_heads", 4},
                     {"n_layers", 2},
                     {"attn_config", {{"kv_n_heads", 2}, {"rope_theta", 500000}}},
                     {"ffn_config", {{"ffn_hidden_size", 40}, {"moe_num_experts", 3}, {"moe_top_k", 2}}}};
  CHECK(weight_shape(*opened(dbrx), "transformer.blocks.1.ffn.experts.mlp.w2") == Shape{120, 64});
  CHECK(rotary(dbrx) == "16 dimensions half_split, base 500000");
  CHECK(shown(dbrx, "routing") == "softmax normalised");
  json other = dbrx;
  other["ffn_config"]["moe_normalize_expert_weights"] = nullptr;
  CHECK(shown(other, "routing") == "softmax");
  other["ffn_config"]["moe_normalize_expert_weights"] = 2;
  refused(other, {"ffn_config.moe_normalize_expert_weights", "1 or null", "found 2"});
  other = dbrx;
  other["attn_config"]["kv_n_heads"] = 3;
  refused(other, {"attn_config.kv_n_heads", "4 heads", "found 3"});
}

TEST_CASE("MiMo V2's layers, as its publisher's config.json names them") {
  const json mimo = with(base("mimo_v2_flash"), {{"head_dim", 24},
                                                 {"v_head_dim", 16},
                                                 {"num_key_value_heads", 1},
                                                 {"swa_num_key_value_heads", 4},
                                                 {"hybrid_layer_pattern", {0, 1, 0, 1}},
                                                 {"moe_layer_freq", {0, 1, 1, 0}},
                                                 {"sliding_window_size", 9},
                                                 {"partial_rotary_factor", 0.5},
                                                 {"rope_theta", 7000},
                                                 {"swa_rope_theta", 30},
                                                 {"n_routed_experts", 3},
                                                 {"num_experts_per_tok", 2}});
  CHECK(windows(mimo) == Windows{0, 9, 0, 9});
  CHECK(shown(mimo, "heads of keys") == "1 4 1 4");
  CHECK(rotary(mimo) == "12 dimensions half_split, base 7000");
  CHECK(shown(mimo, "rotary in windows") == "12 dimensions half_split, base 30");
  CHECK(shown(mimo, "sparse") == "2 of 4 layers");
  CHECK(shown(mimo, "value of a head") == "16, times 0.707");
  CHECK(shown(with(mimo, {{"attention_value_scale", nullptr}}), "value of a head") == "16, times 1");
  refused(with(mimo, {{"v_head_dim", 25}}), {"v_head_dim", "at most 24", "found 25"});
  refused(with(mimo, {{"hybrid_layer_pattern", {0, 1}}}), {"hybrid_layer_pattern", "4 layers", "found 2"});
  refused(with(mimo, {{"attention_projection_layout", "fused_qkv"}}),
          {"attention_projection_layout", "split", "fused_qkv"});
  refused(with(mimo, {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}), {"rope_scaling.type", "yarn"});
  refused(with(mimo, {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7000}}}}),
          {"rope_parameters.rope_theta", "full_attention"});
  // 0.58 * 100 is less than 58 for a double: 57, which is odd.
  refused(with(mimo, {{"head_dim", 100}, {"v_head_dim", 100}, {"partial_rotary_factor", 0.58}}),
          {"partial_rotary_factor", "even", "57"});
  CHECK(rotary(with(mimo, {{"head_dim", 20}, {"partial_rotary_factor", 0.9}})) ==
        "18 dimensions half_split, base 7000");
}

TEST_CASE("errors name what is wrong with an encoder's config") {
  refused(with(base("bert"), {{"num_attention_heads", 5}}), {"num_attention_heads", "64 columns", "found 5"});
  refused(with(base("bert"), {{"position_embedding_type", "relative_key"}}),
          {"position_embedding_type", "absolute", "relative_key"});
  refused(with(base("bert"), {{"position_embedding_type", "alibi"},
                              {"max_position_embeddings", 1 << 20},
                              {"num_attention_heads", 32}}),
          {"max_position_embeddings", "524287", "32 heads", "found 1048576"});
  refused(with(base("bert"), {{"is_decoder", true}}), {"is_decoder", "false"});
  refused(with(base("roberta"), {{"pad_token_id", 300}}), {"max_position_embeddings", "301", "found 256"});
  refused({{"model_type", "distilbert"}, {"vocab_size", 9}, {"dim", 8}, {"n_layers", 1}}, {"n_heads"});
  refused(with(bart("bart"), {{"decoder_attention_heads", 7}}),
          {"decoder_attention_heads", "64 columns", "found 7"});
  refused(with(bart("marian"), {{"activation_function", "mish"}}), {"activation_function", "gelu", "mish"});
  refused(with(bart("whisper"), {{"max_source_positions", 1 << 22}}),
          {"max_source_positions", "1048576", "found 4194304"});
  refused(with(bart("whisper"), {{"num_mel_bins", 0}}), {"num_mel_bins", "found 0"});
  refused(with(transformer(), {{"position_encoding", "learned"}}),
          {"position_encoding", "sinusoidal", "learned"});
  refused(with(t5(), {{"feed_forward_proj", "gated-mish"}}), {"feed_forward_proj", "relu", "gated-mish"});
  refused(with(t5(), {{"relative_attention_num_buckets", 9}}),
          {"relative_attention_num_buckets", "even", "9"});
  refused(with(t5(), {{"relative_attention_max_distance", 16}}),
          {"relative_attention_max_distance", "32 buckets", "found 16"});
  refused(with(vit(), {{"patch_size", 7}}), {"patch_size", "32 x 48", "7 x 7"});
  refused(with(vit(), {{"image_size", {1, 2, 3}}}), {"image_size", "height", "3 numbers"});
  json wrong = captioner();
  wrong["encoder"]["model_type"] = "swin";
  refused(wrong, {"encoder.model_type", "beit, deit, donut-swin, vit", "swin"});
  wrong = captioner();
  wrong["decoder"]["n_head"] = 5;
  refused(wrong, {"decoder.n_head", "48 columns", "found 5"});
  wrong.erase("decoder");
  refused(wrong, {"decoder"});
}

TEST_CASE("damaged configs of encoders are refused or read, without a crash") {
  size_t read = 0, blocklist = 0;
  const std::vector<json> all = {base("bert"),    base("roberta"), bart("bart"),  bart("marian"),
                                 bart("whisper"), transformer(),   t5(),          vit(),
                                 captioner(),     base("deit"),    reader(vit()), each_bias(beit())};
  for (const json& config : all) {
    opened(config);
    damage(config, [&](const json& damaged) {
      const auto definition = open(damaged);
      if (!definition.ok()) {
        ++blocklist;
        CHECK(definition.error().text().find("field '") != std::string::npos);
        return;
      }
      ++read;
      CHECK((*definition)->hyperparameters().size() > 5);
      CHECK(!(*definition)->weights().empty());
    });
  }
  CHECK(read > 100);
  CHECK(blocklist > 100);
}
