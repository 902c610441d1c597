#include "options/form_options.h"

#include "input/input_stream.h"
#include "options/option_text.h"
#include "text/tokenizer.h"

namespace pumice::command {

void add_form_options(CLI::App& app, FormSource& source) {
  const std::string group = more_of("Form of the answer");
  CLI::Option* choices =
      app.add_option("--choices", source.choices,
                     "Answer with one of these texts, separated by commas. Can be given more than once")
          ->type_name("TEXT,...")
          ->delimiter(',')
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->group(group);
  CLI::Option* regex = app.add_option("--regex", source.regex,
                                      "Answer with a text that this regular expression matches as a whole")
                           ->type_name("REGEX")
                           ->excludes(choices)
                           ->group(more_of(group));
  CLI::Option* schema = app.add_option("--json-schema", source.json_schema,
                                       "Answer with JSON that is valid for this schema. '-' is standard "
                                       "input, and what begins with { is "
                                       "the schema itself")
                            ->type_name("FILE")
                            ->excludes(choices)
                            ->excludes(regex)
                            ->group(group);
  app.add_option(
         "--grammar", source.grammar,
         "Answer with a text of the grammar in this file, in the format GBNF or Lark; what has ::= or start: "
         "in it is the grammar itself")
      ->type_name("FILE")
      ->excludes(choices)
      ->excludes(regex)
      ->excludes(schema)
      ->group(more_of(group));
}

Result<FormSource> read_form(const FormSource& options) {
  FormSource source = options;
  for (std::string* text : {&source.json_schema, &source.grammar}) {
    if (text->empty() || (text == &source.json_schema && text->starts_with('{'))) continue;
    if (text == &source.grammar && is_grammar(*text)) continue;
    const std::string path = *text;
    PUMICE_TRY(*text, read_text(path));
    if (text->empty()) return Error{Code::invalid_argument, path + ": the file is empty"};
  }
  return source;
}

Result<std::shared_ptr<Form>> FormMaker::make(const FormSource& source) {
  if (!has_form(source)) return std::shared_ptr<Form>();
  if (form_ && source == last_) return form_;
  PUMICE_TRY(form_, Form::create(source, vocabulary_.get()));
  last_ = source;
  return form_;
}

Status check_form(const FormSource& source, bool ignore_end) {
  if (!ignore_end || !has_form(source)) return {};
  return Error{Code::invalid_argument,
               "--ignore-eos cannot be used with a form of the answer, which ends where its form does"};
}

} // namespace pumice::command
