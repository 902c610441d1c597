#pragma once

#include <memory>

#include <CLI/CLI.hpp>

#include "form/form.h"

namespace pumice::command {

// Adds --choices, --regex, --json-schema and --grammar, of which one can be given.
void add_form_options(CLI::App& app, FormSource& source);

// Reads the files that the options name: the schema and the grammar are then their texts.
Result<FormSource> read_form(const FormSource& options);

// Makes forms for a model's answers. Those that follow each other and are the same are made once.
class FormMaker {
public:
  explicit FormMaker(std::shared_ptr<const Tokenizer> tokenizer) : vocabulary_(std::move(tokenizer)) {}
  // Nothing without a source.
  Result<std::shared_ptr<Form>> make(const FormSource& source);

private:
  LazyFormVocabulary vocabulary_;
  FormSource last_;
  std::shared_ptr<Form> form_; // of last_
};

// Where both are given, one cannot be.
Status check_form(const FormSource& source, bool ignore_end);

} // namespace pumice::command
