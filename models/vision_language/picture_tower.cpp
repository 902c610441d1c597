#include "models/vision_language/picture_tower.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "model/picture_preparation.h"

namespace pumice {

namespace {

// llama.cpp computes with 8-bit values divided by 255.
Status check_preparation(const ModelFile& file, const ImagePreparation& preparation) {
  if (std::abs(preparation.scale * 255 - 1) < 1e-4f && preparation.resizes) return {};
  return Error{Code::unsupported,
               fmt::format("{}: a GGUF file cannot say how this model's pictures are prepared: expected that "
                           "they are resized, and pixels divided by 255 (do_resize, rescale_factor)",
                           file.path())};
}

Result<nlohmann::json> activation_keys(const ModelFile& file, Activation activation) {
  switch (activation) {
  case Activation::silu:
    return nlohmann::json{{"use_silu", true}};
  case Activation::gelu:
  case Activation::gelu_tanh:
    return nlohmann::json{{"use_gelu", true}};
  case Activation::quick_gelu:
    return nlohmann::json{{"use_gelu", false}};
  default:
    return file.fields().error("vision_config.hidden_act",
                               fmt::format("expected silu, quick_gelu or a form of gelu, which GGUF has of "
                                           "encoders of pictures; found {}",
                                           to_string(activation)));
  }
}

} // namespace

Result<GgufModel> PictureTower::gguf(const ModelFile& file) const {
  PUMICE_TRY(const ImagePreparation preparation, picture_preparation(file, *shape().encoder));
  PUMICE_CHECK(check_preparation(file, preparation));
  EncoderBuilder builder(config(), false, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  GgufModel model;
  model.architecture = "clip";
  model.tensors = builder.gguf_tensors();
  namespace keys = tower_keys;
  nlohmann::json metadata = {
      {"has_vision_encoder", true},
      {"projector_type", gguf_projector()},
      {keys::columns, columns()},
      {keys::hidden, config().hidden},
      {keys::feed_forward, config().feed_forward},
      {keys::layers, config().layers},
      {keys::heads, config().heads},
      {keys::norm_eps, config().norm_eps},
      {"vision.image_mean", preparation.mean},
      {"vision.image_std", preparation.deviation},
  };
  PUMICE_TRY(const nlohmann::json activation, activation_keys(file, config().activation));
  metadata.update(activation);
  PUMICE_TRY(const nlohmann::json own, tower_metadata(file, preparation));
  metadata.update(own);
  for (const auto& [key, value] : metadata.items()) model.metadata["clip." + key] = value;
  model.metadata["general.type"] = "mmproj";
  return model;
}

void set_tower_names(StackConfigNames& names) {
  names.hidden.gguf = tower_keys::hidden;
  names.layers.gguf = tower_keys::layers;
  names.heads.gguf = tower_keys::heads;
  names.feed_forward.gguf = tower_keys::feed_forward;
  names.norm_eps.gguf = tower_keys::norm_eps;
}

Result<Activation> read_tower_activation(const Settings& settings) {
  const SettingName gelu = {"", "use_gelu"}, silu = {"", "use_silu"};
  PUMICE_TRY(const bool with_gelu, settings.boolean_or(gelu, false));
  PUMICE_TRY(const bool with_silu, settings.boolean_or(silu, false));
  if (with_gelu && with_silu)
    return settings.error(silu, "expected false where use_gelu is true; found true");
  if (with_gelu) return Activation::gelu_tanh;
  return with_silu ? Activation::silu : Activation::quick_gelu;
}

Result<Activation> read_exact_tower_activation(const Settings& settings) {
  PUMICE_TRY(const Activation activation, read_tower_activation(settings));
  return activation == Activation::gelu_tanh ? Activation::gelu : activation;
}

Result<ImagePreparation> read_tower_preparation(const Settings& settings) {
  ImagePreparation preparation;
  const auto read = [&](std::string_view key, std::array<float, 3>& colours) -> Status {
    const std::string name = settings.name({"", key});
    PUMICE_TRY(const std::vector<float> values, settings.fields().f32_array(name));
    if (values.size() != 3)
      return settings.fields().error(name, fmt::format("expected three numbers; found {}", values.size()));
    std::ranges::copy(values, colours.begin());
    return {};
  };
  PUMICE_CHECK(read("vision.image_mean", preparation.mean));
  PUMICE_CHECK(read("vision.image_std", preparation.deviation));
  for (const float deviation : preparation.deviation) {
    if (!(deviation > 0))
      return settings.error({"", "vision.image_std"},
                            fmt::format("expected numbers above 0; found {}", deviation));
  }
  return preparation;
}

} // namespace pumice
