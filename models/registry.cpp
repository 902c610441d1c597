#include "model/architecture.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/bart/bart.h"
#include "models/bert/bert.h"
#include "models/distilbert/distilbert.h"
#include "models/gemma/gemma.h"
#include "models/gemma2/gemma2.h"
#include "models/gemma3/gemma3.h"
#include "models/gpt2/gpt2.h"
#include "models/gpt_neox/gpt_neox.h"
#include "models/llama/llama.h"
#include "models/marian/marian.h"
#include "models/mistral/mistral.h"
#include "models/mixtral/mixtral.h"
#include "models/olmo2/olmo2.h"
#include "models/phi3/phi3.h"
#include "models/qwen2/qwen2.h"
#include "models/qwen3/qwen3.h"
#include "models/roberta/roberta.h"
#include "models/t5/t5.h"
#include "models/transformer/transformer.h"
#include "models/vision_encoder_decoder/vision_encoder_decoder.h"
#include "models/vit/vit.h"
#include "models/whisper/whisper.h"

namespace pumice {

std::span<const Architecture> architectures() {
  static const Architecture table[] = {
      {"bart", {"bart"}, {}, open_bart},
      {"bert", {"bert"}, {"bert"}, open_bert},
      {"distilbert", {"distilbert"}, {}, open_distilbert},
      {"gemma", {"gemma"}, {"gemma"}, open_gemma},
      {"gemma2", {"gemma2"}, {"gemma2"}, open_gemma2},
      {"gemma3", {"gemma3_text", "gemma3"}, {"gemma3"}, open_gemma3},
      {"gpt2", {"gpt2"}, {"gpt2"}, open_gpt2},
      {"gpt_neox", {"gpt_neox"}, {"gptneox"}, open_gpt_neox},
      {"llama", {"llama"}, {"llama"}, open_llama},
      {"marian", {"marian"}, {}, open_marian},
      {"mistral", {"mistral"}, {}, open_mistral},
      {"mixtral", {"mixtral"}, {}, open_mixtral},
      {"olmo2", {"olmo2"}, {"olmo2"}, open_olmo2},
      {"phi3", {"phi3"}, {"phi3"}, open_phi3},
      {"qwen2", {"qwen2"}, {"qwen2"}, open_qwen2},
      {"qwen3", {"qwen3"}, {"qwen3"}, open_qwen3},
      {"roberta", {"roberta", "xlm-roberta"}, {}, open_roberta},
      {"t5", {"t5"}, {"t5", "t5encoder"}, open_t5},
      {"transformer", {"transformer"}, {}, open_transformer},
      {"vision_encoder_decoder", {"vision-encoder-decoder"}, {}, open_vision_encoder_decoder},
      {"vit", {"vit"}, {}, open_vit},
      {"whisper", {"whisper"}, {}, open_whisper},
  };
  return table;
}

Result<DecoderGraph> ModelDefinition::graph(const ModelFile& file) const {
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' has no decoder, so it cannot generate text",
                           file.path(), file.architecture())};
}

Result<EncoderGraph> ModelDefinition::encoder_graph(const ModelFile& file) const {
  return Error{Code::unsupported, fmt::format("{}: a model of the architecture '{}' has no encoder",
                                              file.path(), file.architecture())};
}

Result<GgufModel> ModelDefinition::gguf(const ModelFile& file) const {
  return Error{Code::unsupported,
               fmt::format("{}: a GGUF file cannot be made of models of the architecture '{}'", file.path(),
                           file.architecture())};
}

Result<std::unique_ptr<ModelDefinition>> open_model_definition(const ModelFile& file) {
  const bool gguf = file.format() == ModelFile::Format::gguf;
  const std::string wanted = file.architecture();
  std::string known;
  for (const Architecture& architecture : architectures()) {
    const auto& names = gguf ? architecture.gguf_architectures : architecture.hugging_face_model_types;
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return architecture.open(file);
    for (std::string_view name : names) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return Error{Code::unsupported, fmt::format("{}: field '{}': expected one of {}; found '{}'", file.path(),
                                              gguf ? "general.architecture" : "model_type", known, wanted)};
}

} // namespace pumice
