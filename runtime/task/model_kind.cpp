#include "task/model_kind.h"

#include <fmt/format.h>

#include "convert/folder_conversion.h"
#include "model/gguf_model.h"
#include "model/model_facts.h"
#include "model/vocabulary.h"
#include "speech/audio_features.h"
#include "task/classifier.h"
#include "task/embedder.h"
#include "task/filler.h"
#include "task/reranker.h"
#include "task/spans/answerer.h"
#include "task/spans/tagger.h"

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

const char* advice(const ModelShape& shape) {
  if (!shape.encoder) return "it continues a text; use pumice run";
  const bool writes = shape.has_decoder();
  switch (shape.encoder->kind) {
  case InputKind::tokens:
    return writes ? "it turns a text into another; use pumice translate"
                  : "it writes no text; use pumice embed or pumice classify";
  case InputKind::pixels:
    return writes ? "it describes pictures; use pumice caption" : "it writes no text; use pumice classify";
  case InputKind::patches:
    return "it is for pictures in a prompt; use pumice caption or pumice chat";
  case InputKind::features:
  case InputKind::samples:
    return "it turns speech into text; use pumice transcribe";
  }
  return "";
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

Error wrong_subcommand(const std::string& model, const ModelShape& shape) {
  return wrong_kind(model, shape, advice(shape));
}

Status check_makes_text(const std::string& model, const ModelShape& shape) {
  if (shape.has_decoder()) return {};
  return wrong_subcommand(model, shape);
}

Status check_continues_text(const std::string& model, const ModelShape& shape) {
  if (shape.has_decoder() && !shape.encoder) return {};
  return wrong_subcommand(model, shape);
}

std::vector<std::string> subcommands_for(const ModelFile& file, const ModelDefinition& definition) {
  std::vector<std::string> names;
  if (!file.has_weights()) return names;
  const auto add = [&](const char* name, bool can) {
    if (can) names.push_back(name);
  };
  const ModelShape shape = definition.shape();
  const Result<std::shared_ptr<const Tokenizer>> read = load_tokenizer(file);
  const std::shared_ptr<const Tokenizer> tokenizer = read.ok() ? *read : nullptr;
  const bool text = tokenizer != nullptr, writes = shape.has_decoder(), continues = writes && !shape.encoder;
  const auto reads = [&](InputKind kind) { return shape.encoder && shape.encoder->kind == kind; };
  const bool features = reads(InputKind::features) && read_log_mel_shape(file, shape).ok();
  bool head = false; // of labels, or of a connectionist classification
  if (shape.encoder && !writes) {
    const Result<EncoderGraph> graph = definition.encoder_graph(file);
    head = graph.ok() && graph->readable.contains("logits");
  }
  add("chat", continues && text && has_chat_template(file));
  add("run", continues && text);
  add("generate", writes);
  add("translate", writes && text && reads(InputKind::tokens));
  add("transcribe", (writes && features) || (head && reads(InputKind::samples)));
  add("caption",
      writes && text && (shape.pictures || (reads(InputKind::pixels) && TaskModel::of_pictures(file).ok())));
  // What its files say of vectors.
  const Result<EmbedderPlan> vectors = EmbedderPlan::of_texts(file, {}, tokenizer);
  const bool embeds = text && vectors.ok() && (!writes || !vectors->settings.pooling.empty());
  add("embed", embeds || EmbedderPlan::of_pictures(file, {}).ok());
  add("search", embeds);
  if (text) {
    const Result<RerankerPlan> scores = RerankerPlan::of(file, {}, tokenizer);
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
