#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "text/tokenizer.h"

namespace pumice {

// What a task of vectors, scores or labels reads of a model's files before its weights are on a device.
struct TaskModel {
  std::string path; // of the model, for messages
  std::shared_ptr<const ModelDefinition> definition;
  Tower tower = Tower::main;
  std::shared_ptr<const Tokenizer> tokenizer;  // of texts; null: inputs are token ids
  std::vector<uint32_t> unknown;               // tokens that stand for what the vocabulary lacks
  std::optional<ImagePreparation> preparation; // of pictures
  std::string output;                          // the encoder's tensor that is read: a row for each input
  bool each_token = false;                     // or for each of its tokens

  // An encoder of text, or a decoder that reads whole texts. `loaded`: its tokenizer, if it is there already.
  // `ids`: it may have none.
  static Result<TaskModel> of_texts(const ModelFile& file, std::shared_ptr<const Tokenizer> loaded = nullptr,
                                    bool ids = false);
  // What of a model reads pictures: its tower of them, or all of it.
  static Result<TaskModel> of_pictures(const ModelFile& file);

  bool reads_pictures() const { return preparation.has_value(); }
  EncoderShape shape() const { return *definition->shape().encoder; }
  // The options that the model is loaded with.
  LoadOptions load(LoadOptions options) const;
  // An error unless the model was loaded with such options.
  Status check_loaded(const Model& model) const;
};

} // namespace pumice
