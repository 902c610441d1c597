#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "models/settings.h"

namespace pumice {

using OpenedDefinition = Result<std::unique_ptr<ModelDefinition>>;

// What files call a model, and what reads their configs.
struct Architecture {
  std::string_view name;
  std::vector<std::string_view> hugging_face_model_types; // config.json's model_type
  std::vector<std::string_view> gguf_architectures;       // general.architecture
  std::function<OpenedDefinition(const ModelFile& file)> open;
  // The tower of pictures, if there is one.
  std::function<OpenedDefinition(const ModelFile& file)> open_pictures = nullptr;
  // Of that tower in a GGUF file of its own (mmproj): clip.projector_type.
  std::vector<std::string_view> gguf_projectors = {};
  // Of a decoder that an entry describes: with its settings, and the pictures that its prompts may have.
  std::function<OpenedDefinition(const Settings& settings, std::optional<PictureTokens> pictures)>
      open_decoder = nullptr;
};

// The models of one file of models/.
using Architectures = std::vector<Architecture>;

// All of them.
const Architectures& architectures();

// The decoder of the table with this name, for a model that it is a part of.
OpenedDefinition open_decoder(std::string_view name, const Settings& settings,
                              std::optional<PictureTokens> pictures = {});
// The decoder of the architecture that the settings name, for a model whose text model may be any.
OpenedDefinition open_text_decoder(const Settings& settings, std::optional<PictureTokens> pictures);

} // namespace pumice
