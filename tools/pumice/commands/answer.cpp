#include <algorithm>

#include <fmt/format.h>

#include "input/input_stream.h"
#include "loading/task_inputs.h"
#include "options/option_values.h"
#include "options/subcommand.h"
#include "output/span_json.h"
#include "task/spans/answerer.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct AnswerOptions {
  LineOptions lines;
  std::string file;
  TextOptions questions;
  AnswererOptions answers;
  bool json = false;
};

void print_answers(const AnswerOptions& options, const std::string& question, const std::string& text,
                   const std::vector<TextSpan>& answers) {
  Json json = {{"question", question}, {"answers", Json::array()}};
  const std::string name = options.questions.texts.size() == 1 ? "" : question + "\t";
  std::string lines;
  for (const TextSpan& answer : answers) {
    std::string line(answer.of(text));
    std::ranges::replace(line, '\n', ' ');
    lines += fmt::format("{}{:.4f}\t{}\n", name, answer.score, line);
    add_span(json["answers"].emplace_back(Json::object()), text, answer);
  }
  if (options.json) return print_json(json);
  print_result(lines);
}

Status answer(const AnswerOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  AnswererOptions all = options.answers;
  all.run = options.lines.run;
  PUMICE_TRY(AnswererPlan plan, AnswererPlan::of(file, all));
  const Result<std::string> read = read_text(options.file);
  if (!read.ok()) {
    return Error{read.error().code,
                 fmt::format("{} (FILE, the text, comes before the questions)", read.error().message)};
  }
  const std::string& text = *read;
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<Answerer> answerer, Answerer::create(std::move(model), std::move(plan)));
  WaitingLines questions(options.questions);
  questions.answer_bad_with([&](const Line& line, const Error& error) {
    return options.json ? json_text({{"question", line.text}, {"error", error.text()}}) : std::string();
  });
  TaskInputs inputs(device, answerer->runner());
  PUMICE_CHECK(inputs.run_parts(
      questions,
      [&](const std::string& question, const std::string& name) {
        return answerer->read(question, text, name);
      },
      [&](const Line& line, const std::vector<float>& rows) -> Status {
        print_answers(options, line.text, text, answerer->answers(line.text, text, rows));
        return {};
      }));
  return inputs.finish();
}

} // namespace

Subcommand add_answer(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("answer", "Find the answers to questions in a text.");
  auto options = std::make_shared<AnswerOptions>();
  add_line_options(*sub, options->lines);
  sub->get_option("MODEL")->description(
      "A Hugging Face folder of a model that finds answers (BertForQuestionAnswering, RoBERTa ...)");
  sub->get_option("--max-tokens")
      ->description("Read the text in windows of N tokens, the question's included (default: 384)");
  sub->add_option("FILE", options->file, "A text of any length; - is standard input")
      ->required()
      ->type_name("");
  add_text_options(*sub, options->questions, "QUESTION",
                   "The questions; without QUESTION, the lines of standard input");
  sub->add_option("--max-answer-tokens", options->answers.max_answer_tokens,
                  "The longest answer, in tokens (default: 15)")
      ->type_name("N")
      ->check(within(1u, 1u << 10))
      ->group("Output");
  sub->add_option("--top", options->answers.top, "Number of answers to each question, best first")
      ->type_name("N")
      ->check(within(1u, 1u << 10))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object for each question. Its fields: question, and answers (a list of score, "
         "start, end, in characters, and text) or error")
      ->group("Output");
  sub->footer(
      "Prints 'SCORE<tab>ANSWER', which is a part of the text; unless exactly one QUESTION is given, "
      "the question and a tab come first. The score is a probability: a text that has no answer gives "
      "low ones.\n\n" +
      example("pumice answer roberta-base-squad2 manual.txt \"How long does the battery last?\""));
  return {sub, [options] { return answer(*options); }, {{"MODEL", "FILE", "--file"}, {}}};
}

} // namespace pumice::command
