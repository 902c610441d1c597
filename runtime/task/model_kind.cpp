#include "task/model_kind.h"

#include <fmt/format.h>

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

} // namespace pumice
