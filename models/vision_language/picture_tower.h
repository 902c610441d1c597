#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "models/encoder/model.h"

// The encoder of a decoder's pictures as GGUF has it: in a file of its own, llama.cpp's mmproj file, with the
// architecture "clip".
namespace pumice {

// GGUF's keys of a tower, without "clip." in front.
namespace tower_keys {
inline constexpr std::string_view image_size = "vision.image_size";
inline constexpr std::string_view patch_size = "vision.patch_size";
inline constexpr std::string_view hidden = "vision.embedding_length";
inline constexpr std::string_view feed_forward = "vision.feed_forward_length";
inline constexpr std::string_view layers = "vision.block_count";
inline constexpr std::string_view heads = "vision.attention.head_count";
inline constexpr std::string_view norm_eps = "vision.attention.layer_norm_epsilon";
inline constexpr std::string_view columns = "vision.projection_dim";          // of the decoder's embeddings
inline constexpr std::string_view longest_edge = "vision.preproc_image_size"; // of a picture in tiles
inline constexpr std::string_view scale_factor = "vision.projector.scale_factor";
inline constexpr std::string_view merge = "vision.spatial_merge_size"; // patches on each side of a square
} // namespace tower_keys

class PictureTower : public EncoderModel {
public:
  using EncoderModel::EncoderModel;

  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  // What the projector is called in GGUF, and the columns of the rows that it makes.
  virtual std::string_view gguf_projector() const = 0;
  virtual uint32_t columns() const = 0;
  // GGUF's keys besides the common ones, without "clip." in front.
  virtual Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                                const ImagePreparation& preparation) const = 0;
};

// Sets GGUF's names of a tower's common settings.
void set_tower_names(StackConfigNames& names);

// The activation of a tower in GGUF, whose one key stands for both forms of GELU: llama.cpp computes the form
// with tanh.
Result<Activation> read_tower_activation(const Settings& settings);
// The same where the key stands for the exact form, with which the models were trained.
Result<Activation> read_exact_tower_activation(const Settings& settings);
// How GGUF's files say that pictures are normalised. The rest is left to the caller.
Result<ImagePreparation> read_tower_preparation(const Settings& settings);

} // namespace pumice
