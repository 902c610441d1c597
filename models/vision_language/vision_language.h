#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "kernel/image/image.h"
#include "model/architecture.h"
#include "models/clip/clip_vision.h"

// What decoders that read pictures in their prompts have in common.
namespace pumice {

// "text_config" with the defaults of LLaMA's class.
nlohmann::json llama_text_settings(const ModelFile& file);

// The first prefix of these with which the file has the tensor; without any, the first one.
std::string prefix_of(const ModelFile& file, std::string_view tensor,
                      std::initializer_list<std::string_view> prefixes);

// A special token that tokenizer_config.json names for pictures ("image_token"), beside the other fields or
// in "extra_special_tokens".
Result<std::string> picture_token(const ModelFile& file, std::string_view name, std::string_view fallback);

// The matrix of a convolution whose strides are its kernel's size, for rows that join `joined` patches: the
// file's columns are each dimension's of all patches in turn, and these each patch's of all dimensions.
WeightView columns_by_patch(EncoderBuilder& builder, const WeightView& convolution, uint64_t joined);

// A tower of SigLIP's encoder, windows of whose patches become the rows that the decoder reads.
struct SiglipWindows {
  ClipVisionConfig siglip;
  PatchWindows windows;
  std::string prefix, connector;   // of tensor names
  uint32_t size = 0;               // columns of the decoder's embeddings; of GGUF's files read with the rest
  bool gguf = false;               // the format of its file
  std::string_view projector = {}; // its name in GGUF
};

// Reads "vision_config" with its class's defaults, or GGUF's keys. The windows are left to the caller, all
// but their grid.
Result<SiglipWindows> read_siglip_windows(const ModelFile& file, nlohmann::json defaults);

// From SigLIP's last hidden state to the decoder's embeddings. The builder has the prefix of the connector.
using ConnectWindows =
    std::function<TensorId(EncoderBuilder& builder, TensorId x, const SiglipWindows& vision)>;
std::unique_ptr<ModelDefinition> make_siglip_windows(SiglipWindows vision, ConnectWindows connect);

} // namespace pumice
