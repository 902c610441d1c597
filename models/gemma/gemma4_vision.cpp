#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/image/image.h"
#include "model/vocabulary.h"
#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// A step of the tower has room for a picture of so many patches. Larger ones are made smaller.
constexpr uint32_t most_patches = 16384;
constexpr uint32_t most_edge = 256; // of a patch
constexpr uint32_t most_merge = 16;
constexpr uint32_t most_places = 1 << 16; // of the positions' tables
constexpr float rotary_base = 100;
constexpr uint32_t most_rows = 280; // of a picture, for files that do not say

// GGUF's keys that other towers do not have.
constexpr std::string_view kv_heads_key = "vision.attention.head_count_kv";
constexpr std::string_view head_dim_key = "vision.attention.head_dim";
constexpr std::string_view max_pixels_key = "vision.image_max_pixels";

// llama.cpp reads a picture's size even where it may be any; its converter writes this one.
constexpr uint32_t gguf_image_size = 224;

// The rows of a picture see all of it in the larger models. GGUF does not say so: these are the models
// without an input for each layer.
constexpr SettingName both_ways = {"use_bidirectional_attention", ""};
constexpr SettingName layer_inputs = {"hidden_size_per_layer_input", "embedding_length_per_layer_input"};

// The encoder of Gemma 4's pictures (Gemma Team 2026): patches of pictures in their own proportions, placed
// by learned positions and by rotary ones, across in the first half of each head and down in the second.
// Squares of them are averaged, normed and projected to the decoder's embeddings.
struct Gemma4Vision {
  EncoderConfig encoder;
  std::string prefix, projector; // of tensor names
  uint32_t places = 0;           // of the tables of positions
  uint32_t size = 0;             // columns of the decoder's embeddings
  bool clipped = false;          // what matrices read and give has limits
  bool standardised = false;     // the averages have factors and offsets
  bool gguf = false;             // the format of its file
};

class Gemma4Pictures : public PictureTower {
public:
  explicit Gemma4Pictures(Gemma4Vision vision)
      : PictureTower(vision.encoder, vision.gguf), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    builder.prefix(vision_.prefix + "patch_embedder.", "v.");
    const TensorId pixels = graph.input("pixel_values", RowKind::tokens, config().shape().input_values());
    TensorId x =
        builder.project(pixels, builder.node_name(patch_name), patch_matrix(builder), nullptr, "embedding");
    x = with_positions(builder, x);
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      builder.hidden_state(x);
      builder.layer_input(x);
      builder.layer(layer, vision_.prefix + "encoder.layers.{}.", "v.blk.{}.");
      x = block(builder, layer, x);
    }
    builder.finish(x);
    builder.prefix(vision_.prefix, "v.");
    x = pooled(builder, x);
    builder.prefix(vision_.projector, "mm.");
    x = builder.project(x, {"embedding_projection", "input_projection"}, vision_.size, false, "head");
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"averaged", fmt::format("{0} x {0} patches", merge())},
            {"limits", vision_.clipped ? "of each matrix" : "none"}};
  }

  std::string_view gguf_projector() const override { return "gemma4v"; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                        const ImagePreparation& preparation) const override {
    if (config().rotary.base != rotary_base || config().activation != Activation::gelu_tanh) {
      return file.fields().error(
          "vision_config.hidden_activation",
          fmt::format("expected gelu_pytorch_tanh, and a rope_theta of {:g}, as GGUF's models have; found {} "
                      "and {:g}",
                      rotary_base, to_string(config().activation), config().rotary.base));
    }
    const Settings text = Settings::of_text(file);
    PUMICE_TRY(const uint32_t inputs, text.u32_or(layer_inputs, 0, limits::columns, 0));
    if (text.has(both_ways) == (inputs > 0)) {
      return text.error(both_ways, "expected vision where there are no inputs of each layer, and none where "
                                   "there are, as GGUF's models have it");
    }
    const PatchCutting& cutting = *preparation.patches;
    nlohmann::json keys = {{tower_keys::image_size, gguf_image_size}, {tower_keys::patch_size, cutting.patch},
                           {tower_keys::scale_factor, cutting.merge}, {max_pixels_key, cutting.max_pixels},
                           {kv_heads_key, config().kv_heads},         {head_dim_key, config().head_dim}};
    // llama.cpp's graph doubles pixels and takes 1 from them itself.
    std::array<float, 3> mean = preparation.mean, deviation = preparation.deviation;
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] -= deviation[i];
      deviation[i] *= 2;
    }
    keys["vision.image_mean"] = mean;
    keys["vision.image_std"] = deviation;
    return keys;
  }

private:
  static constexpr TensorName patch_name = {"input_proj", "patch_embd"};

  uint32_t merge() const { return config().patch_groups->merge; }

  // Hugging Face's files have each pixel's colours side by side.
  WeightView patch_matrix(EncoderBuilder& builder) const {
    const uint64_t edge = config().input_shape[2], pixels = edge * edge, colours = 3, rows = config().hidden;
    const std::vector<uint64_t> in_planes = {rows, colours, edge, edge};
    if (builder.gguf()) return builder.flat_tensor(patch_name, ".weight", in_planes, "embedding");
    const WeightView file_order =
        builder.tensor({patch_name.hugging_face, ""}, ".weight", rows, pixels * colours, "embedding");
    std::vector<WeightView> planes;
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t colour = 0; colour < colours; ++colour)
        planes.push_back(
            {file_order.tensor, pixels, 1, false, row * pixels * colours + colour, 1, colours, 1});
    builder.add_gguf_tensor(patch_name, ".weight", in_planes, std::move(planes));
    return columns_by_patch(builder, file_order, colours);
  }

  TensorId with_positions(EncoderBuilder& builder, TensorId x) const {
    const WeightView tables = builder.shaped_tensor({"position_embedding_table", "position_embd.weight"}, "",
                                                    {2, vision_.places, config().hidden}, "embedding");
    // As many places as a picture may have in a line.
    const uint32_t used = std::min(vision_.places, config().context / merge());
    return grid_positions(
        builder.graph(), "with_positions", x,
        builder.weight(tables.slice(0, uint64_t{2} * used, used, vision_.places), "embedding"), used,
        GridPositions::Rule::apart);
  }

  TensorId block(EncoderBuilder& builder, uint32_t layer, TensorId x) const {
    AttentionStyle style;
    style.score_scale = 1;
    style.head_norms = style.value_norm = true;
    TensorId y = builder.rms_norm(x, {"input_layernorm", "ln1"});
    AttentionInputs inputs;
    inputs.query = project(builder, y, "self_attn.q_proj", "attn_q", config().query_rows(), "attention");
    inputs.key = project(builder, y, "self_attn.k_proj", "attn_k", config().key_rows(), "attention");
    inputs.value = project(builder, y, "self_attn.v_proj", "attn_v", config().key_rows(), "attention");
    y = builder.attend(layer, inputs, style);
    y = project(builder, y, "self_attn.o_proj", "attn_out", config().hidden, "attention");
    y = builder.rms_norm(y, {"post_attention_layernorm", "attn_post_norm"});
    x = builder.add(y, x, "attention_residual");
    y = builder.rms_norm(x, {"pre_feedforward_layernorm", "ln2"});
    const uint32_t wide = config().feed_forward;
    const TensorId gated = project(builder, y, "mlp.gate_proj", "ffn_gate", wide, "feed-forward");
    const TensorId up = project(builder, y, "mlp.up_proj", "ffn_up", wide, "feed-forward");
    y = gate(builder.graph(), builder.prefix() + "gated", gated, up, config().activation);
    y = project(builder, y, "mlp.down_proj", "ffn_down", config().hidden, "feed-forward");
    y = builder.rms_norm(y, {"post_feedforward_layernorm", "ffn_post_norm"});
    return builder.add(y, x, "residual");
  }

  // A matrix, with the limits of what it reads and gives.
  TensorId project(EncoderBuilder& builder, TensorId x, const std::string& hugging_face,
                   const std::string& gguf, uint32_t rows, std::string_view component) const {
    const auto limited = [&](TensorId y, const std::string& side) {
      if (!vision_.clipped) return y;
      const float least = limit(builder, hugging_face, gguf, side + "_min"),
                  most = limit(builder, hugging_face, gguf, side + "_max");
      return clamp(builder.graph(), builder.prefix() + hugging_face + "." + side + "_limited", y, least,
                   most);
    };
    const std::string matrix = hugging_face + ".linear";
    return limited(builder.project(limited(x, "input"), {matrix, gguf}, rows, false, component), "output");
  }

  // One number, which files that were never calibrated have as infinite.
  static float limit(EncoderBuilder& builder, const std::string& hugging_face, const std::string& gguf,
                     const std::string& which) {
    const std::string own = hugging_face + "." + which, converted = gguf + "." + which;
    const TensorName name = {own, converted};
    const WeightView number = builder.gguf()
                                  ? builder.flat_tensor(name, "", {1}, "limits")
                                  : builder.flat_tensor({own, ""}, "", std::vector<uint64_t>(), "limits");
    builder.add_gguf_tensor(name, "", {1}, {number});
    if (number.tensor->data.empty()) return 0; // the weights are only listed
    constexpr float finite = std::numeric_limits<float>::max();
    const float found = decode_vector(number)[0];
    return std::clamp(found, -finite, finite);
  }

  // A row for each square of patches, which lie one after the other.
  TensorId pooled(EncoderBuilder& builder, TensorId x) const {
    Graph& graph = builder.graph();
    const uint32_t hidden = config().hidden;
    PatchWindows squares;
    squares.rule = PatchWindows::Rule::averaged;
    squares.width = squares.window = merge();
    squares.height = config().context / merge();
    x = patch_windows(graph, "averaged_patches", x, squares);
    const auto derived = [&](const char* name, std::vector<uint64_t> shape,
                             const std::function<float(size_t i)>& value) {
      const auto fill = [value](std::span<float> values) {
        for (size_t i = 0; i < values.size(); ++i) values[i] = value(i);
      };
      return builder.weight(builder.derived_tensor(name, std::move(shape), fill), "norms");
    };
    const auto root = std::sqrt(static_cast<float>(hidden)); // that averages are multiplied with
    float eps = config().norm_eps;
    if (vision_.standardised) {
      const WeightView bias = builder.tensor({"std_bias", "std_bias"}, "", hidden, 0, "norms");
      const WeightView factors = builder.tensor({"std_scale", "std_scale"}, "", hidden, 0, "norms");
      const bool listed = factors.tensor->data.empty() || bias.tensor->data.empty();
      const std::vector<float> scale = listed ? std::vector<float>(hidden) : decode_vector(factors),
                               offset = listed ? scale : decode_vector(bias);
      x = scale_columns(graph, "scaled_patches", x,
                        derived("std_factor", {hidden}, [=](size_t i) { return root * scale[i]; }));
      // A table of one place is added to all rows.
      x = grid_positions(graph, "standardised_patches", x,
                         derived("std_offset", {1, hidden}, [=](size_t i) { return -offset[i] * scale[i]; }),
                         1);
    } else {
      eps /= static_cast<float>(hidden);
    }
    return rms_norm(graph, "normed_patches", x, derived("ones", {hidden}, [](size_t) { return 1.0f; }), eps);
  }

  Gemma4Vision vision_;
};

// "vision_config" with its class's defaults.
nlohmann::json vision_fields(const ModelFile& file) {
  return with_defaults(file, "vision_config",
                       {{"hidden_size", 768},
                        {"intermediate_size", 3072},
                        {"num_hidden_layers", 16},
                        {"num_attention_heads", 12},
                        {"hidden_activation", "gelu_pytorch_tanh"}});
}

// Of a folder, whose settings `all` are, or an mmproj file.
Settings vision_settings(const ModelFile& file, const nlohmann::json& all) {
  return file.is_mmproj() ? Settings(file)
                          : Settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
}

Result<uint32_t> read_merge(const Settings& settings) {
  return settings.u32_or({"pooling_kernel_size", tower_keys::scale_factor}, 1, most_merge, 3);
}

Status read_vision_rotary(const Settings& settings, EncoderConfig& config) {
  RotaryConfig& rotary = config.rotary;
  if (config.head_dim % 4 != 0) {
    return settings.error(
        {"head_dim", head_dim_key},
        fmt::format("expected heads of a multiple of 4 dimensions; found {}", config.head_dim));
  }
  rotary.pairs = RotaryPairs::quarters;
  rotary.dim = config.head_dim;
  rotary.places = PlaceKind::patches;
  rotary.base = rotary_base;
  if (settings.gguf()) return {};
  PUMICE_TRY(const Fields own, settings.fields().object_or_empty("rope_parameters"));
  PUMICE_TRY(const std::string type, own.string_or("rope_type", "default"));
  if (type != "default") return own.error("rope_type", fmt::format("expected default; found {}", type));
  PUMICE_TRY(rotary.base, own.f32_or("rope_theta", 1.0f, 1e12f, rotary_base));
  return {};
}

// All but the preparation and the context.
Result<EncoderConfig> read_vision_config(const Settings& settings) {
  StackConfigNames names;
  set_tower_names(names);
  names.vocabulary = names.context = {};
  names.kv_heads.gguf = kv_heads_key;
  names.head_dim.gguf = head_dim_key;
  names.value_dim = {};
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh; // whatever GGUF's files say
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(const uint32_t patch, settings.u32_or({"patch_size", tower_keys::patch_size}, 1, most_edge, 16));
  PUMICE_TRY(const bool bias, settings.boolean_or({"attention_bias", ""}, false));
  if (bias) return settings.error({"attention_bias", ""}, "expected false; found true");
  PatchGroups groups{1, 0};
  PUMICE_TRY(groups.merge, read_merge(settings));
  config.kind = InputKind::patches;
  config.input_shape = {3, 1, patch, patch};
  config.patch_groups = groups;
  PUMICE_CHECK(read_vision_rotary(settings, config));
  return config;
}

// How pictures are cut, and normed to what the tower reads: it doubles the processor's pixels and takes 1
// from them.
Result<ImagePreparation> read_preparation(const Settings& settings, const EncoderConfig& config) {
  const uint32_t patch = config.input_shape[2];
  PatchCutting cutting{patch, 1, config.patch_groups->merge};
  cutting.fills = true;
  const uint64_t room = uint64_t{most_patches} * patch * patch;
  cutting.max_pixels = room;
  ImagePreparation preparation;
  if (settings.gguf()) {
    const uint64_t row = uint64_t{cutting.square()} * cutting.square();
    const auto usual = static_cast<uint32_t>(std::min(most_rows * row, std::max(room, row)));
    PUMICE_TRY(preparation, read_tower_preparation(settings));
    PUMICE_TRY(cutting.max_pixels,
               settings.u32_or({"", max_pixels_key}, static_cast<uint32_t>(row), UINT32_MAX, usual));
    cutting.max_pixels = std::min(cutting.max_pixels, room);
    preparation.resampling = Resampling::bicubic;
    preparation.patches = cutting;
  } else {
    PUMICE_TRY(preparation, read_patch_preparation(folder_of(settings.file()), cutting));
  }
  for (size_t i = 0; i < preparation.mean.size(); ++i) {
    preparation.deviation[i] /= 2;
    preparation.mean[i] += preparation.deviation[i];
  }
  return preparation;
}

Result<Gemma4Vision> read_gemma4_vision(const ModelFile& file) {
  const nlohmann::json all = vision_fields(file);
  const Settings settings = vision_settings(file, all);
  Gemma4Vision vision;
  vision.gguf = settings.gguf();
  EncoderConfig& encoder = vision.encoder;
  PUMICE_TRY(encoder, read_vision_config(settings));
  PUMICE_TRY(encoder.preparation, read_preparation(settings, encoder));
  const PatchCutting& cutting = *encoder.preparation->patches;
  encoder.context = static_cast<uint32_t>(cutting.max_pixels / cutting.patch / cutting.patch);
  if (vision.gguf) {
    const TensorView* tables = file.find("v.position_embd.weight");
    if (tables && tables->shape.size() == 3)
      vision.places = static_cast<uint32_t>(std::min<uint64_t>(tables->shape[1], most_places));
    vision.clipped = file.find("v.blk.0.attn_q.input_min");
    vision.standardised = file.find("v.std_bias");
    PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
    return vision;
  }
  PUMICE_TRY(vision.places, settings.u32_or({"position_embedding_size", ""}, 1, most_places, 10240));
  PUMICE_TRY(vision.clipped, settings.boolean_or({"use_clipped_linears", ""}, false));
  PUMICE_TRY(vision.standardised, settings.boolean_or({"standardize", ""}, false));
  PUMICE_TRY(vision.size, Settings::of_text(file).u32({"hidden_size", ""}, 1, limits::columns));
  vision.prefix =
      prefix_of(file, "patch_embedder.input_proj.weight", {"model.vision_tower.", "vision_tower."});
  vision.projector = prefix_of(file, "embedding_projection.weight", {"model.embed_vision.", "embed_vision."});
  return vision;
}

PictureTokens shown_as(const Gemma4Vision& vision, const std::string& begin, const std::string& picture,
                       const std::string& end) {
  PictureTokens tokens;
  tokens.merge = vision.encoder.patch_groups->merge;
  tokens.rows = vision.encoder.context / tokens.merge / tokens.merge; // at most
  tokens.placed = false;
  tokens.markup.place = tokens.markup.picture = picture;
  tokens.markup.begin = begin;
  tokens.markup.end = end;
  return tokens;
}

Result<PictureTokens> read_gemma4_tokens(const ModelFile& file) {
  PUMICE_TRY(const std::string begin, picture_token(file, "boi_token", "<|image>"));
  PUMICE_TRY(const std::string picture, picture_token(file, "image_token", "<|image|>"));
  PUMICE_TRY(const std::string end, picture_token(file, "eoi_token", "<image|>"));
  PUMICE_TRY(const Gemma4Vision vision, read_gemma4_vision(file));
  PictureTokens tokens = shown_as(vision, begin, picture, end);
  PUMICE_TRY(tokens.token, file.fields().u32_or("image_token_id", 0, limits::tokens, 258880));
  const Settings text = Settings::of_text(file);
  tokens.bidirectional = text.has(both_ways);
  PUMICE_TRY(const uint32_t padding, text.u32_or({"pad_token_id", ""}, 0, limits::tokens, 0));
  if (padding == 0) return tokens;
  return text.error({"pad_token_id", ""},
                    fmt::format("expected 0, whose inputs pictures have; found {}", padding));
}

// Of a text model in GGUF, which names tokens by their spelling alone.
Result<PictureTokens> read_gguf_gemma4_tokens(const ModelFile& file) {
  PUMICE_TRY(const Gemma4Vision vision, read_gemma4_vision(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, "gemma4", vision.size, "clip.vision.projection_dim"));
  PictureTokens tokens = shown_as(vision, "<|image>", "<|image|>", "<image|>");
  PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
  PUMICE_TRY(const uint32_t columns, Settings(file).u32_or(layer_inputs, 0, limits::columns, 0));
  tokens.bidirectional = columns == 0;
  return tokens;
}

OpenedDefinition open_gemma4(const ModelFile& file) {
  std::optional<PictureTokens> pictures;
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_gemma4_tokens(file));
  } else if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_gemma4_tokens(file));
  }
  return open_decoder("gemma4", Settings::of_text(file), std::move(pictures));
}

OpenedDefinition open_gemma4_pictures(const ModelFile& file) {
  PUMICE_TRY(Gemma4Vision vision, read_gemma4_vision(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Gemma4Pictures>(std::move(vision)));
}

} // namespace

Architectures gemma4_vision_models() {
  return {{"gemma4_vision", {"gemma4"}, {}, open_gemma4, open_gemma4_pictures, {"gemma4v"}}};
}

} // namespace pumice
