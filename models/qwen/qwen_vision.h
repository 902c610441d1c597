#pragma once

#include <memory>

#include "models/registry.h"

// The encoders of pictures of Qwen's models that see: patches of pictures in their own sizes, squares of
// which become the rows that the decoder reads.
namespace pumice {

// How the generations of these encoders differ.
struct QwenVisionStyle;
// Qwen 2 VL's (Wang et al., Qwen2-VL, 2024): layer norms, a feed-forward without a gate.
const QwenVisionStyle& qwen2_vision();
// Qwen 2.5-VL's (Bai et al., Qwen2.5-VL Technical Report, 2025): in most layers a patch sees those of its
// window.
const QwenVisionStyle& qwen2_5_vision();
// Qwen 3 VL's (Bai et al., Qwen3-VL Technical Report, 2025): learned positions beside the rotary ones, and
// rows of several of its layers.
const QwenVisionStyle& qwen3_vision();
// Qwen 3.5's: the same without the latter.
const QwenVisionStyle& qwen3_5_vision();

// GLM-4.1V's (GLM-V Team, GLM-4.1V-Thinking, 2025) is of the same form: learned positions by cubic
// convolution, and squares of patches by a strided one, after which there is a gated feed-forward.
const QwenVisionStyle& glm4v_vision();
// GLM-OCR's (GLM-V Team 2026): the same without learned positions, and with norms of heads.
const QwenVisionStyle& glm_ocr_vision();

// What a decoder has to know of such an encoder's rows.
struct QwenRows {
  uint32_t merge = 0;       // patches on each side of a row's square
  uint32_t deep_layers = 0; // see PictureTokens
  uint32_t columns = 0;     // of an mmproj file's rows, for each of these layers and the embedding
};
// Of a folder, or an mmproj file.
Result<QwenRows> read_qwen_rows(const ModelFile& file, const QwenVisionStyle& style);

OpenedDefinition open_qwen_vision(const ModelFile& file, const QwenVisionStyle& style);

} // namespace pumice
