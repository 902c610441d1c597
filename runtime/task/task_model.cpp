#include "task/task_model.h"

#include <fmt/format.h>

#include "io/no_weights.h"
#include "model/picture_preparation.h"
#include "model/vocabulary.h"
#include "task/model_kind.h"

namespace pumice {

Result<TaskModel> TaskModel::of_texts(const ModelFile& file, std::shared_ptr<const Tokenizer> loaded,
                                      bool ids) {
  TaskModel model;
  model.path = file.path();
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  if (definition->shape().has_decoder() && definition->shape().encoder) {
    return wrong_subcommand(file);
  }
  PUMICE_TRY(model.definition, open_text_reader(file));
  if (model.shape().kind != InputKind::tokens) {
    return wrong_kind(file, "it does not read text");
  }
  if (!file.has_weights()) return no_weights(file);
  model.tokenizer = std::move(loaded);
  if (!model.tokenizer) {
    Result<std::shared_ptr<const Tokenizer>> own = load_tokenizer(file);
    if (!own.ok() && !ids) return own.error();
    if (!own.ok()) return model;
    model.tokenizer = *std::move(own);
  }
  model.unknown = tokens_of(TokenRole::unknown, file, model.tokenizer.get());
  return model;
}

Result<TaskModel> TaskModel::of_pictures(const ModelFile& file) {
  TaskModel model;
  model.path = file.path();
  model.tower = has_picture_tower(file) ? Tower::pictures : Tower::main;
  PUMICE_TRY(model.definition, open_model_definition(file, model.tower));
  const ModelShape shape = model.definition->shape();
  if (shape.encoder && shape.encoder->kind == InputKind::patches) return wrong_subcommand(file);
  if (!shape.encoder || shape.encoder->kind != InputKind::pixels) {
    return wrong_kind(file, "it does not read pictures");
  }
  PUMICE_TRY(model.preparation, picture_preparation(file, *shape.encoder));
  return model;
}

LoadOptions TaskModel::load(LoadOptions options) const {
  options.tower = tower;
  options.text_reader = !reads_pictures();
  options.readable = {output};
  return options;
}

Status TaskModel::check_loaded(const Model& model) const {
  const ModelShape& shape = model.shape();
  const bool same_part = shape.encoder && !shape.has_decoder() && model.options().tower == tower;
  if (same_part) return {};
  return Error{Code::invalid_argument,
               fmt::format("{}: another part of the model was loaded than the one that reads {}", path,
                           reads_pictures() ? "pictures" : "whole texts")};
}

} // namespace pumice
