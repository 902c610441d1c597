#include "model/architecture.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/albert/albert.h"
#include "models/bart/bart.h"
#include "models/beit/beit.h"
#include "models/bert/bert.h"
#include "models/bloom/bloom.h"
#include "models/clip/clip.h"
#include "models/cohere2/cohere2.h"
#include "models/deberta_v2/deberta_v2.h"
#include "models/deepseek/deepseek.h"
#include "models/deit/deit.h"
#include "models/dinov2/dinov2.h"
#include "models/distilbert/distilbert.h"
#include "models/electra/electra.h"
#include "models/ernie4_5/ernie4_5.h"
#include "models/exaone4/exaone4.h"
#include "models/falcon/falcon.h"
#include "models/falcon_h1/falcon_h1.h"
#include "models/gemma/gemma.h"
#include "models/gemma2/gemma2.h"
#include "models/gemma3/gemma3.h"
#include "models/gemma3_vision/gemma3_vision.h"
#include "models/gemma4/gemma4.h"
#include "models/glm4/glm4.h"
#include "models/glm4_moe/glm4_moe.h"
#include "models/gpt2/gpt2.h"
#include "models/gpt_neox/gpt_neox.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/granite/granite.h"
#include "models/granite_hybrid/granite_hybrid.h"
#include "models/hunyuan_dense/hunyuan_dense.h"
#include "models/lfm2/lfm2.h"
#include "models/llama/llama.h"
#include "models/llama4/llama4.h"
#include "models/llava/llava.h"
#include "models/m2m100/m2m100.h"
#include "models/mamba2/mamba2.h"
#include "models/marian/marian.h"
#include "models/mbart/mbart.h"
#include "models/minimax_m2/minimax_m2.h"
#include "models/mistral/mistral.h"
#include "models/mistral3/mistral3.h"
#include "models/mixtral/mixtral.h"
#include "models/modernbert/modernbert.h"
#include "models/mpnet/mpnet.h"
#include "models/nemotron/nemotron.h"
#include "models/nomic_bert/nomic_bert.h"
#include "models/olmo2/olmo2.h"
#include "models/opt/opt.h"
#include "models/pegasus/pegasus.h"
#include "models/phi/phi.h"
#include "models/phi3/phi3.h"
#include "models/qwen2/qwen2.h"
#include "models/qwen2_5_vl/qwen2_5_vl.h"
#include "models/qwen2_moe/qwen2_moe.h"
#include "models/qwen3/qwen3.h"
#include "models/qwen3_moe/qwen3_moe.h"
#include "models/qwen3_next/qwen3_next.h"
#include "models/resnet/resnet.h"
#include "models/rnn_attention/rnn_attention.h"
#include "models/roberta/roberta.h"
#include "models/seed_oss/seed_oss.h"
#include "models/siglip/siglip.h"
#include "models/smollm3/smollm3.h"
#include "models/smolvlm/smolvlm.h"
#include "models/stablelm/stablelm.h"
#include "models/starcoder2/starcoder2.h"
#include "models/t5/t5.h"
#include "models/text_index/text_index.h"
#include "models/transformer/transformer.h"
#include "models/vision_encoder_decoder/vision_encoder_decoder.h"
#include "models/vit/vit.h"
#include "models/wav2vec2/wav2vec2.h"
#include "models/whisper/whisper.h"

namespace pumice {

std::span<const Architecture> architectures() {
  static const Architecture table[] = {
      {"albert", {"albert"}, {}, open_albert},
      {"bart", {"bart"}, {}, open_bart},
      {"beit", {"beit"}, {}, open_beit},
      {"bert", {"bert"}, {"bert"}, open_bert},
      {"bloom", {"bloom"}, {"bloom"}, open_bloom},
      {"clip", {"clip"}, {}, open_clip, open_clip_pictures},
      {"cohere2", {"cohere2"}, {"cohere2"}, open_cohere2},
      {"deberta_v2", {"deberta-v2"}, {}, open_deberta_v2},
      {"deepseek", {"deepseek_v2", "deepseek_v3"}, {"deepseek2"}, open_deepseek},
      {"deit", {"deit"}, {}, open_deit},
      {"dinov2", {"dinov2"}, {}, open_dinov2},
      {"distilbert", {"distilbert"}, {}, open_distilbert},
      {"electra", {"electra"}, {}, open_electra},
      {"ernie4_5", {"ernie4_5"}, {"ernie4_5"}, open_ernie4_5},
      {"exaone4", {"exaone4"}, {"exaone4"}, open_exaone4},
      {"falcon_h1", {"falcon_h1"}, {"falcon-h1"}, open_falcon_h1},
      {"falcon", {"falcon"}, {"falcon"}, open_falcon},
      {"gemma", {"gemma"}, {"gemma"}, open_gemma},
      {"gemma2", {"gemma2"}, {"gemma2"}, open_gemma2},
      {"gemma3", {"gemma3_text"}, {"gemma3", "gemma-embedding"}, open_gemma3},
      {"gemma3_vision", {"gemma3"}, {}, open_gemma3_vision, open_gemma3_pictures, {"gemma3"}},
      {"gemma4", {"gemma4_text", "gemma4"}, {"gemma4"}, open_gemma4},
      {"glm4", {"glm4", "glm4v_text"}, {"glm4"}, open_glm4},
      {"glm4_moe", {"glm4_moe", "glm4v_moe_text"}, {"glm4moe"}, open_glm4_moe},
      {"gpt2", {"gpt2"}, {"gpt2"}, open_gpt2},
      {"gpt_neox", {"gpt_neox"}, {"gptneox"}, open_gpt_neox},
      {"gpt_oss", {"gpt_oss"}, {"gpt-oss"}, open_gpt_oss},
      {"granite_hybrid", {"granitemoehybrid"}, {"granitehybrid"}, open_granite_hybrid},
      {"granite", {"granite"}, {"granite"}, open_granite},
      {"hunyuan_dense", {"hunyuan_v1_dense"}, {"hunyuan-dense"}, open_hunyuan_dense},
      {"lfm2", {"lfm2"}, {"lfm2"}, open_lfm2},
      {"llama", {"llama"}, {"llama"}, open_llama},
      {"llama4", {"llama4_text", "llama4"}, {"llama4"}, open_llama4},
      {"llava", {"llava"}, {}, open_llava, open_llava_pictures, {"mlp"}},
      {"m2m100", {"m2m_100"}, {}, open_m2m100},
      {"mamba2", {"mamba2"}, {"mamba2"}, open_mamba2},
      {"marian", {"marian"}, {}, open_marian},
      {"mbart", {"mbart"}, {}, open_mbart},
      {"minimax_m2", {"minimax_m2"}, {"minimax-m2"}, open_minimax_m2},
      {"mistral", {"mistral"}, {}, open_mistral},
      {"mistral3", {"ministral3", "mistral3"}, {"mistral3"}, open_mistral3},
      {"mixtral", {"mixtral"}, {}, open_mixtral},
      {"modernbert", {"modernbert"}, {"modern-bert"}, open_modernbert},
      {"mpnet", {"mpnet"}, {}, open_mpnet},
      {"nemotron", {"nemotron"}, {"nemotron"}, open_nemotron},
      {"nomic_bert", {"nomic_bert"}, {"nomic-bert"}, open_nomic_bert},
      {"olmo2", {"olmo2", "olmo3"}, {"olmo2"}, open_olmo2},
      {"opt", {"opt"}, {}, open_opt},
      {"pegasus", {"pegasus"}, {}, open_pegasus},
      {"phi", {"phi"}, {"phi2"}, open_phi},
      {"phi3", {"phi3"}, {"phi3"}, open_phi3},
      {"qwen2", {"qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl_text"}, {"qwen2", "qwen2vl"}, open_qwen2},
      {"qwen2_5_vl", {"qwen2_5_vl"}, {}, open_qwen2_5_vl, open_qwen2_5_vl_pictures, {"qwen2.5vl_merger"}},
      {"qwen2_moe", {"qwen2_moe"}, {"qwen2moe"}, open_qwen2_moe},
      {"qwen3", {"qwen3", "qwen3_vl_text"}, {"qwen3", "qwen3vl"}, open_qwen3},
      {"qwen3_next",
       {"qwen3_next", "qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe"},
       {"qwen3next", "qwen35", "qwen35moe"},
       open_qwen3_next},
      {"qwen3_moe", {"qwen3_moe", "qwen3_vl_moe_text"}, {"qwen3moe", "qwen3vlmoe"}, open_qwen3_moe},
      {"resnet", {"resnet"}, {}, open_resnet},
      {"rnn_attention", {"rnn_attention"}, {}, open_rnn_attention},
      {"roberta", {"roberta", "xlm-roberta"}, {}, open_roberta},
      {"seed_oss", {"seed_oss"}, {"seed_oss"}, open_seed_oss},
      {"siglip", {"siglip"}, {}, open_siglip, open_siglip_pictures},
      {"smollm3", {"smollm3"}, {"smollm3"}, open_smollm3},
      {"smolvlm", {"smolvlm", "idefics3"}, {}, open_smolvlm, open_smolvlm_pictures, {"idefics3"}},
      {"stablelm", {"stablelm"}, {"stablelm"}, open_stablelm},
      {"starcoder2", {"starcoder2"}, {"starcoder2"}, open_starcoder2},
      {"t5", {"t5"}, {"t5", "t5encoder"}, open_t5},
      {"text_index", {"text_index"}, {}, open_text_index},
      {"transformer", {"transformer"}, {}, open_transformer},
      {"vision_encoder_decoder", {"vision-encoder-decoder"}, {}, open_vision_encoder_decoder},
      {"vit", {"vit"}, {}, open_vit},
      {"wav2vec2", {"wav2vec2"}, {}, open_wav2vec2},
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

Result<EncoderShape> ModelDefinition::reading_shape(const ModelFile& file) const {
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' cannot turn texts into vectors", file.path(),
                           file.architecture())};
}

Result<EncoderGraph> ModelDefinition::reading_graph(const ModelFile& file) const {
  return reading_shape(file).error();
}

Status ModelDefinition::set_picture_size(uint32_t height, uint32_t width) {
  return Error{Code::unsupported,
               fmt::format("this model reads pictures of one size only, not of {} x {}", width, height)};
}

Result<GgufModel> ModelDefinition::gguf(const ModelFile& file) const {
  return Error{Code::unsupported,
               fmt::format("{}: a GGUF file cannot be made of models of the architecture '{}'", file.path(),
                           file.architecture())};
}

namespace {

// What a file says about its architecture, and where.
struct Named {
  const ModelFile& file;
  std::string field;
  std::vector<std::string> names; // the first that is known counts
  std::vector<std::string_view> Architecture::*known;
};

// llama.cpp's names of the projector, the older one first. The first files of LLaVA have neither.
Named named_projector(const ModelFile& mmproj) {
  Named named{mmproj, "clip.projector_type", {}, &Architecture::gguf_projectors};
  for (const char* field : {"clip.vision.projector_type", "clip.projector_type"}) {
    const Result<std::string> name = mmproj.fields().string_or(field, "");
    if (!name.ok() || name->empty()) continue;
    named.field = field;
    named.names = {*name};
  }
  const Result<bool> llava = mmproj.fields().boolean_or("clip.has_llava_projector", false);
  if (named.names.empty()) named.names = {llava.ok() && *llava ? "mlp" : ""};
  return named;
}

Named named_architecture(const ModelFile& file) {
  if (file.mmproj()) return named_projector(*file.mmproj());
  if (file.is_mmproj()) return named_projector(file);
  if (file.format() == ModelFile::Format::gguf)
    return {file, "general.architecture", {file.architecture()}, &Architecture::gguf_architectures};
  // The text model's architecture says how to read a model that also sees, unless the whole has one.
  return {file,
          "model_type",
          {file.architecture(), file.text_architecture()},
          &Architecture::hugging_face_model_types};
}

// Null if no architecture has that name.
const Architecture* find_architecture(const Named& named) {
  for (const std::string& name : named.names) {
    for (const Architecture& architecture : architectures()) {
      const auto& known = architecture.*named.known;
      if (std::find(known.begin(), known.end(), name) != known.end()) return &architecture;
    }
  }
  return nullptr;
}

Error unknown_architecture(const Named& named) {
  std::string known;
  for (const Architecture& architecture : architectures()) {
    for (std::string_view name : architecture.*named.known)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return {Code::unsupported, fmt::format("{}: field '{}': expected one of {}; found '{}'", named.file.path(),
                                         named.field, known, named.names.front())};
}

} // namespace

bool has_picture_tower(const ModelFile& file) {
  const Architecture* architecture = find_architecture(named_architecture(file));
  return architecture && architecture->open_pictures;
}

bool has_gguf_name(const ModelFile& file) {
  const Architecture* architecture = find_architecture(named_architecture(file));
  return architecture && !architecture->gguf_architectures.empty();
}

Result<std::unique_ptr<ModelDefinition>> open_model_definition(const ModelFile& file, Tower tower) {
  if (tower == Tower::main && file.is_mmproj()) {
    return Error{Code::unsupported,
                 fmt::format("{}: field 'general.architecture': expected a text model's; found 'clip': this "
                             "file has the encoder of a model's pictures, and is given beside that model, "
                             "with --mmproj",
                             file.path())};
  }
  const Named named = named_architecture(file);
  const Architecture* architecture = find_architecture(named);
  if (!architecture) return unknown_architecture(named);
  if (tower == Tower::main) return architecture->open(file);
  if (architecture->open_pictures) return architecture->open_pictures(file.mmproj() ? *file.mmproj() : file);
  return Error{Code::unsupported, fmt::format("{}: a model of the architecture '{}' reads no pictures",
                                              file.path(), file.architecture())};
}

} // namespace pumice
