#include "task/model_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "convert/folder_conversion.h"
#include "model/gguf_model.h"
#include "model/model_facts.h"
#include "model/sound_codec.h"
#include "model/vocabulary.h"
#include "speech/audio_features.h"
#include "speech/transducer.h"
#include "task/classifier.h"
#include "task/embedder.h"
#include "task/filler.h"
#include "task/reranker.h"
#include "task/sentence_settings.h"
#include "task/spans/answerer.h"
#include "task/spans/tagger.h"
#include "task/speaking/code_tokens.h"

namespace pumice {

namespace {

// What `pumice search` keeps has the form of a model, which reads a single vector.
bool is_text_index(const ModelShape& shape) {
  return shape.encoder && !shape.has_decoder() && shape.encoder->kind == InputKind::features &&
         shape.encoder->input_shape.size() == 1;
}

const char* kind_of(const ModelShape& shape) {
  if (!shape.encoder) return "a decoder";
  if (shape.has_decoder()) return "an encoder-decoder";
  switch (shape.encoder->kind) {
  case InputKind::tokens:
    return "an encoder";
  case InputKind::pixels:
  case InputKind::patches:
    return "an encoder of pictures";
  case InputKind::features:
    return "an encoder of sounds";
  case InputKind::samples:
    return "an encoder of samples";
  }
  return "unknown";
}

const char* purpose(const ModelShape& shape) {
  if (!shape.encoder) return "it continues a text";
  const bool writes = shape.has_decoder();
  switch (shape.encoder->kind) {
  case InputKind::tokens:
    return writes ? "it turns a text into another" : "it writes no text";
  case InputKind::pixels:
    return writes ? "it describes pictures" : "it writes no text";
  case InputKind::patches:
    return "it is for pictures in a prompt";
  case InputKind::features:
  case InputKind::samples:
    return "it turns speech into text";
  }
  return "";
}

// Null where there is none that can be read.
std::shared_ptr<const Tokenizer> tokenizer_of(const ModelFile& file) {
  const Result<std::shared_ptr<const Tokenizer>> read = load_tokenizer(file);
  return read.ok() ? *read : nullptr;
}

// What an encoder of texts was made for.
std::vector<const char*> text_encoder_made_for(const ModelFile& file, const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  if (shape.encoder->token_head == TokenHead::answers) return {"pumice answer"};
  if (shape.encoder->token_head == TokenHead::labels) return {"pumice classify"};
  const Result<SentenceSettings> settings = read_sentence_settings(file, "");
  if (settings.ok() && settings->of_tokens) return {"pumice rerank", "pumice search"};
  const Result<EncoderGraph> graph = definition.encoder_graph(file);
  const auto has = [&](const char* output) { return graph.ok() && graph->readable.contains(output); };
  if (has("masked_logits")) return {"pumice fill", "pumice embed"};
  if (has("logits") && !shape.encoder->labels.empty())
    return {shape.encoder->labels.size() == 1 ? "pumice rerank" : "pumice classify"};
  if (shape.shared_space) return {"pumice embed", "pumice classify"};
  return {"pumice embed"};
}

std::vector<const char*> made_for(const ModelFile& file, const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  const bool writes = shape.has_decoder();
  if (!shape.encoder) {
    const Result<SentenceSettings> settings = read_sentence_settings(file, "");
    if (settings.ok() && !settings->pooling.empty()) return {"pumice embed"};
    if (shape.pictures && !shape.pictures->transcription.empty())
      return {"pumice caption", "pumice chat", "pumice transcribe"};
    if (shape.pictures) return {"pumice caption", "pumice chat"};
    if (speaks(tokenizer_of(file).get())) return {"pumice speak"};
    return has_chat_template(file) ? std::vector{"pumice chat", "pumice run"} : std::vector{"pumice run"};
  }
  if (sound_codec(definition)) return {"pumice speak --codec"};
  switch (shape.encoder->kind) {
  case InputKind::tokens:
    return writes ? std::vector{"pumice translate"} : text_encoder_made_for(file, definition);
  case InputKind::pixels:
    return {writes ? "pumice caption" : shape.encoder->labels.empty() ? "pumice embed" : "pumice classify"};
  case InputKind::patches:
    return {"pumice caption", "pumice chat"};
  case InputKind::features:
  case InputKind::samples:
    return {"pumice transcribe"};
  }
  return {};
}

} // namespace

Error wrong_kind(const std::string& model, const ModelShape& shape, const std::string& reason) {
  if (is_text_index(shape)) {
    return Error{
        Code::unsupported,
        fmt::format("{} is an index that pumice search has made, and no model: give the model, and the "
                    "index with --index",
                    model)};
  }
  return Error{Code::unsupported, fmt::format("{} is {}: {}", model, kind_of(shape), reason)};
}

namespace {

Error unsuitable(const ModelFile& file, const ModelDefinition& definition, const std::string& reason) {
  return wrong_kind(file.path(), definition.shape(),
                    fmt::format("{}; use {}", reason, fmt::join(made_for(file, definition), " or ")));
}

} // namespace

Error wrong_kind(const ModelFile& file, const std::string& reason) {
  const Result<std::unique_ptr<ModelDefinition>> definition = open_model_definition(file);
  return definition.ok() ? unsuitable(file, **definition, reason) : definition.error();
}

Error wrong_subcommand(const ModelFile& file) {
  const Result<std::unique_ptr<ModelDefinition>> definition = open_model_definition(file);
  return definition.ok() ? unsuitable(file, **definition, purpose((*definition)->shape()))
                         : definition.error();
}

Status check_makes_text(const ModelFile& file, const ModelShape& shape) {
  if (shape.has_decoder()) return {};
  return wrong_subcommand(file);
}

Status check_continues_text(const ModelFile& file, const ModelShape& shape) {
  if (shape.has_decoder() && !shape.encoder) return {};
  return wrong_subcommand(file);
}

std::vector<std::string> subcommands_for(const ModelFile& file, const ModelDefinition& definition) {
  std::vector<std::string> names;
  if (!file.has_weights()) return names;
  const auto add = [&](const char* name, bool can) {
    if (can) names.push_back(name);
  };
  const ModelShape shape = definition.shape();
  const std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(file);
  const bool text = tokenizer != nullptr, writes = shape.has_decoder(), continues = writes && !shape.encoder;
  const auto reads = [&](InputKind kind) { return shape.encoder && shape.encoder->kind == kind; };
  const bool hears =
      (reads(InputKind::features) || reads(InputKind::samples)) && read_sound_shape(file, shape).ok();
  bool head = false; // of labels, or of a connectionist classification, or a transducer
  if (shape.encoder && !writes) {
    const Result<EncoderGraph> graph = definition.encoder_graph(file);
    head = graph.ok() && (graph->readable.contains("logits") || graph->readable.contains(Transducer::frames));
  }
  add("chat", continues && text && has_chat_template(file));
  add("run", continues && text);
  add("generate", writes);
  add("translate", writes && text && reads(InputKind::tokens));
  add("transcribe", (writes && hears) || (head && reads(InputKind::samples)) ||
                        (text && shape.pictures && !shape.pictures->transcription.empty()));
  add("speak", continues && speaks(tokenizer.get()));
  add("caption",
      writes && text && (shape.pictures || (reads(InputKind::pixels) && TaskModel::of_pictures(file).ok())));
  // What its files say of vectors.
  const Result<EmbedderPlan> vectors = EmbedderPlan::of_texts(file, {}, tokenizer);
  const bool embeds = text && vectors.ok() && (!writes || !vectors->settings.pooling.empty());
  add("embed", embeds || EmbedderPlan::of_pictures(file, {}).ok());
  if (text) {
    const Result<RerankerPlan> scores = RerankerPlan::of(file, {}, tokenizer);
    add("search", embeds || (scores.ok() && scores->late));
    add("rerank", scores.ok() && !scores->answers);
    add("fill", FillerPlan::of(file, {}, tokenizer).ok());
  }
  ClassifierOptions labels;
  if (shape.shared_space) labels.labels = {"a label"};
  add("classify",
      ClassifierPlan::of(file, labels, tokenizer).ok() || TaggerPlan::of(file, {}, tokenizer).ok());
  add("answer", AnswererPlan::of(file, {}, tokenizer).ok());
  add("tokenize", text);
  add("perplexity", continues && text);
  for (const char* name : {"eval", "tune", "bench"}) add(name, true);
  add("convert", file.format() == ModelFile::Format::hugging_face &&
                     (definition.gguf(file).ok() || fits_as_folder(file, definition)));
  return names;
}

} // namespace pumice
