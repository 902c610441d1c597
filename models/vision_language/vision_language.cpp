#include "models/vision_language/vision_language.h"

#include <fmt/format.h>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "model/vocabulary.h"
#include "models/vision_language/picture_tower.h"

namespace pumice {

namespace {

class SiglipPictures : public PictureTower {
public:
  SiglipPictures(SiglipWindows vision, ConnectWindows connect)
      : PictureTower(vision.siglip.encoder, vision.gguf), vision_(std::move(vision)),
        connect_(std::move(connect)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = build_clip_vision(builder, vision_.siglip, vision_.prefix);
    builder.prefix(vision_.prefix, "v.");
    x = builder.layer_norm(x, {"post_layernorm", "post_ln"});
    builder.finish(x);
    builder.prefix(vision_.connector, "mm.");
    builder.readable().add(PictureTokens::features, connect_(builder, x, vision_));
  }

  std::string_view gguf_projector() const override { return vision_.projector; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile&,
                                        const ImagePreparation& preparation) const override {
    nlohmann::json keys = {{tower_keys::image_size, vision_.siglip.patches.height},
                           {tower_keys::patch_size, vision_.siglip.patches.patch_height},
                           {tower_keys::scale_factor, vision_.windows.window}};
    if (preparation.tiling) keys[tower_keys::longest_edge] = preparation.tiling->longest_edge;
    return keys;
  }

private:
  SiglipWindows vision_;
  ConnectWindows connect_;
};

} // namespace

WeightView columns_by_patch(EncoderBuilder& builder, const WeightView& convolution, uint64_t joined) {
  const uint64_t rows = convolution.rows, columns = convolution.columns, each = columns / joined;
  return builder.derived_tensor("columns_by_patch", {rows, columns}, [=](std::span<float> to) {
    const std::vector<float> from = decode_vector(convolution);
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t column = i % columns;
      to[i] = from[i - column + column % each * joined + column / each];
    }
  });
}

nlohmann::json llama_text_settings(const ModelFile& file) {
  return with_defaults(file, "text_config",
                       {{"model_type", "llama"},
                        {"vocab_size", 32000},
                        {"hidden_size", 4096},
                        {"intermediate_size", 11008},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32}});
}

std::string prefix_of(const ModelFile& file, std::string_view tensor,
                      std::initializer_list<std::string_view> prefixes) {
  for (std::string_view prefix : prefixes) {
    if (file.find(fmt::format("{}{}", prefix, tensor))) return std::string(prefix);
  }
  return std::string(*prefixes.begin());
}

Result<std::string> picture_token(const ModelFile& file, std::string_view name, std::string_view fallback) {
  PUMICE_TRY(const std::optional<nlohmann::json> found, folder_of(file).object("tokenizer_config.json"));
  if (!found) return std::string(fallback);
  const nlohmann::json& config = *found;
  const auto named = [&](const nlohmann::json& fields) -> std::string {
    const auto found = fields.find(name);
    if (found == fields.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    const bool spelled = found->is_object() && found->contains("content") && (*found)["content"].is_string();
    return spelled ? (*found)["content"].get<std::string>() : std::string();
  };
  std::string token = named(config);
  const auto extra = config.find("extra_special_tokens");
  if (token.empty() && extra != config.end() && extra->is_object()) token = named(*extra);
  return token.empty() ? std::string(fallback) : token;
}

Result<SiglipWindows> read_siglip_windows(const ModelFile& file, nlohmann::json defaults) {
  SiglipWindows vision;
  vision.gguf = file.format() == ModelFile::Format::gguf;
  if (vision.gguf) {
    const Settings settings(file);
    PUMICE_TRY(vision.siglip, read_clip_vision_config(settings, {.siglip = true}));
    PUMICE_TRY(vision.siglip.encoder.preparation, read_tower_preparation(settings));
    PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  } else {
    const nlohmann::json all = with_defaults(file, "vision_config", std::move(defaults));
    const Fields fields(all, file.path() + "/config.json", "vision_config.");
    PUMICE_TRY(vision.siglip, read_clip_vision_config(Settings(file, fields), {.siglip = true}));
  }
  const PatchShape& patches = vision.siglip.patches;
  vision.windows.height = vision.windows.width = patches.height / patches.patch_height;
  return vision;
}

std::unique_ptr<ModelDefinition> make_siglip_windows(SiglipWindows vision, ConnectWindows connect) {
  return std::make_unique<SiglipPictures>(std::move(vision), std::move(connect));
}

} // namespace pumice
