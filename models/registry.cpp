#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "io/nearest_names.h"
#include "model/gguf_model.h"
#include "models/registry.h"

namespace pumice {

#define MODELS(table) Architectures table();
#include "models/registry.def"
#undef MODELS

const Architectures& architectures() {
  static const Architectures all = [] {
    Architectures joined;
    for (const auto table : {
#define MODELS(table) table,
#include "models/registry.def"
#undef MODELS
         })
      for (Architecture& each : table()) joined.push_back(std::move(each));
    return joined;
  }();
  return all;
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

Result<std::unique_ptr<ModelDefinition>> ModelDefinition::prediction_layer(const ModelFile& file) const {
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' has no layer that predicts further tokens",
                           file.path(), file.architecture())};
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

// The model type of a class such as "XLMRobertaForMaskedLM"; empty: none that is known here.
std::string_view type_of_class(std::string_view name) {
  const auto plain = [](std::string_view written) {
    std::string letters;
    for (const char c : written)
      if (c != '-' && c != '_') letters += lower_case(c);
    return letters;
  };
  const std::string wanted = plain(name);
  for (const Architecture& architecture : architectures()) {
    for (const std::string_view type : architecture.hugging_face_model_types) {
      const std::string begin = plain(type);
      if (!wanted.starts_with(begin)) continue;
      const std::string_view rest = std::string_view(wanted).substr(begin.size());
      for (const std::string_view task : {"for", "model", "lmhead", "mtmodel"})
        if (rest.starts_with(task)) return type;
    }
  }
  return {};
}

// The model type whose files have tensors of such names; empty: none that is known here.
std::string_view type_of_tensors(const ModelFile& file) {
  static constexpr std::pair<std::string_view, std::string_view> all[] = {
      {"albert_layer_groups.0.", "albert"},
      {"transformer.layer.0.attention.q_lin.", "distilbert"},
      {"roberta.encoder.layer.0.", "roberta or xlm-roberta"},
      {"electra.encoder.layer.0.", "electra"},
      {"encoder.layer.0.attention.self.query_proj.", "deberta-v2"},
      {"encoder.layer.0.attention.self.query.", "bert"},
      {"encoder.layer.0.attention.attn.q.", "mpnet"},
      {"embeddings.distillation_token", "deit"},
      {"encoder.layer.0.layer_scale1.", "dinov2"},
      {"encoder.layer.0.lambda_1", "beit"},
      {"encoder.layer.0.attention.attention.query.", "vit"},
      {"layers.0.attn.Wqkv.", "modernbert"},
      {"encoder.layers.0.attn.Wqkv.", "nomic_bert"},
      {"encoder.block.0.layer.0.SelfAttention.", "t5"},
      {"text_model.encoder.layers.0.", "clip or siglip"},
      {"feature_extractor.conv_layers.0.", "wav2vec2"},
      {"encoder.groupnorm.", "moonshine"},
      {"encoder.conv1.", "whisper"},
      {"encoder.layers.0.self_attn.q_proj.", "bart or marian"},
      {"h.0.attn.c_attn.", "gpt2"},
      {"gpt_neox.layers.0.", "gpt_neox"},
      {"layers.0.self_attn.q_norm.", "qwen3"},
      {"layers.0.self_attn.qkv_proj.", "phi3"},
      {"layers.0.self_attn.q_proj.bias", "qwen2"},
      {"layers.0.self_attn.q_proj.", "llama or mistral"},
  };
  const auto first_with = [&](std::string_view part) {
    return std::ranges::find_if(file.tensors(), [&](const TensorView& tensor) {
      return tensor.name.find(part) != std::string::npos;
    });
  };
  for (const auto& [part, type] : all) {
    if (first_with(part) == file.tensors().end()) continue;
    if (type != "bert") return type;
    // RoBERTa has BERT's names, and one type of token.
    const auto types = first_with("embeddings.token_type_embeddings.");
    const bool one = types != file.tensors().end() && !types->shape.empty() && types->shape[0] == 1;
    return one ? "roberta or xlm-roberta" : type;
  }
  return {};
}

// Of a config.json without `model_type`.
Error no_architecture(const Named& named) {
  std::string hint;
  const Result<std::vector<std::string>> classes = named.file.fields().string_array("architectures");
  if (classes.ok() && !classes->empty()) {
    const std::string_view type = type_of_class(classes->front());
    if (!type.empty()) hint = fmt::format("; that of the class '{}' is {}", classes->front(), type);
  }
  if (const std::string_view type = type_of_tensors(named.file); hint.empty() && !type.empty())
    hint = fmt::format("; its tensors have the names of {}", type);
  return {Code::unsupported,
          fmt::format("{}: field '{}' is missing, which names the architecture{}: add it to config.json",
                      named.file.path(), named.field, hint)};
}

Error unknown_architecture(const Named& named) {
  if (named.field == "model_type" && named.names.front().empty()) return no_architecture(named);
  std::set<std::string_view> known;
  for (const Architecture& architecture : architectures()) {
    const auto& names = architecture.*named.known;
    known.insert(names.begin(), names.end());
  }
  const std::vector<std::string_view> all(known.begin(), known.end());
  if (const auto near = nearest_names(named.names.front(), all); !near.empty())
    return {Code::unsupported,
            fmt::format("{}: field '{}': '{}' is no architecture that runs here; the nearest: {}",
                        named.file.path(), named.field, named.names.front(), fmt::join(near, ", "))};
  return {Code::unsupported, fmt::format("{}: field '{}': expected one of {}; found '{}'", named.file.path(),
                                         named.field, fmt::join(known, ", "), named.names.front())};
}

// Files of NVFP4 may have a factor of each expert's matrix, which no product here takes.
Status check_scales(const ModelFile& file) {
  constexpr std::string_view end = ".weight";
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.type != TensorType::nvfp4 || !tensor.name.ends_with(end)) continue;
    const std::string scale = tensor.name.substr(0, tensor.name.size() - end.size()) + ".scale";
    if (!file.find(scale)) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: tensor '{}': factors of experts are not supported: expected "
                             "'{}' without one",
                             file.path(), scale, tensor.name)};
  }
  return {};
}

} // namespace

OpenedDefinition open_decoder(std::string_view name, const Settings& settings,
                              std::optional<PictureTokens> pictures) {
  const auto& entry = *std::ranges::find(architectures(), name, &Architecture::name);
  return entry.open_decoder(settings, std::move(pictures));
}

OpenedDefinition open_text_decoder(const Settings& settings, std::optional<PictureTokens> pictures) {
  const std::string name = settings.architecture();
  for (const Architecture& each : architectures()) {
    const auto& known = settings.gguf() ? each.gguf_architectures : each.hugging_face_model_types;
    if (each.open_decoder && std::ranges::find(known, name) != known.end())
      return each.open_decoder(settings, std::move(pictures));
  }
  Error error = settings.fields().error(settings.gguf() ? "general.architecture" : "model_type",
                                        fmt::format("expected that of a text model; found '{}'", name));
  error.code = Code::unsupported;
  return error;
}

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
  PUMICE_CHECK(check_scales(file));
  if (tower == Tower::main) return architecture->open(file);
  if (tower == Tower::prediction) {
    PUMICE_TRY(const std::unique_ptr<ModelDefinition> whole, architecture->open(file));
    return whole->prediction_layer(file);
  }
  if (architecture->open_pictures) return architecture->open_pictures(file.mmproj() ? *file.mmproj() : file);
  return Error{Code::unsupported, fmt::format("{}: a model of the architecture '{}' reads no pictures",
                                              file.path(), file.architecture())};
}

} // namespace pumice
