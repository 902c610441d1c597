#include <algorithm>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/path.h"
#include "chosen_template.h"
#include "counted.h"
#include "fitting_size.h"
#include "generate/session.h"
#include "input_stream.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "open_device.h"
#include "options.h"
#include "prompt.h"
#include "subcommand.h"
#include "terminal.h"
#include "text/chat_answer.h"
#include "text/chat_prompt.h"

namespace pumice::command {

namespace {

using nlohmann::ordered_json;

struct ChatOptions {
  std::string model;
  std::string question;
  CLI::Option* question_option = nullptr;
  std::string system;
  std::string chosen; // template
  std::string thinking = "show";
  uint32_t count = 0; // 0: until the answer or the context ends
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
};

// Prints the parts of an answer as they come, without the white space before it.
class AnswerPrinter {
public:
  explicit AnswerPrinter(bool shows_thinking) : shows_thinking_(shows_thinking) {}

  void print(const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      answered_.add(part);
      if (part.kind == AnswerPart::Kind::tool_call) {
        show(false, fmt::format("\n{}({})\n", part.call.name, part.call.arguments.dump()));
      } else {
        show(part.kind == AnswerPart::Kind::thinking, part.text);
      }
    }
  }
  // Ends the line. Returns the answer.
  Answered finish() {
    dim(false);
    print_result("\n");
    const size_t begin = std::min(answered_.content.find_first_not_of(" \t\r\n"), answered_.content.size());
    answered_.content.erase(0, begin);
    return std::move(answered_);
  }

private:
  void show(bool thinks, std::string_view text) {
    if (thinks && !shows_thinking_) return;
    if (thinks != thought_) begun_ = false;
    if (!begun_) {
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
      if (text.empty()) return;
      if (thought_ && !thinks) print_result("\n\n");
      begun_ = true;
      thought_ = thinks;
    }
    dim(thinks);
    print_result(std::string(text));
  }
  void dim(bool wanted) {
    if (wanted != dim_ && stdout_is_terminal()) print_result(wanted ? "\033[2m" : "\033[0m");
    dim_ = wanted;
  }

  bool shows_thinking_, begun_ = false, thought_ = false, dim_ = false;
  Answered answered_;
};

// A model, its session, and what was said.
class Chat {
public:
  Chat(const ChatOptions& options, ChatTemplate chosen, std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), template_(std::move(chosen)), tokenizer_(std::move(tokenizer)), now_(local_time()),
        sampling_(options.sampling.resolved()) {
    reset();
  }

  // The context holds a question: says so before a model is loaded.
  Status check(const std::string& question, uint32_t context) {
    PUMICE_TRY(const ChatPrompt prompt, prompt_with(question));
    return check_fits(prompt.ids.size(), context, "the question with its template");
  }

  Status open(ModelFile file) {
    ends_ = ends_of_answers(template_, *tokenizer_, now_, end_tokens(file, tokenizer_.get()));
    const std::string path = file.path();
    PUMICE_TRY(device_, open_device(options_.device));
    PUMICE_TRY(const SizeOptions size, fitting_size(options_.size, path, *device_));
    PUMICE_TRY(const std::shared_ptr<const Model> model,
               load_model(std::move(file), *device_, size.load, &size));
    SessionOptions session;
    session.size = session_size(size, model->shape());
    Result<std::unique_ptr<Session>> created = Session::create(model, session);
    if (!created.ok()) return with_fit_advice(created.error(), size);
    session_ = std::move(*created);
    return {};
  }

  Status ask(const std::string& question) {
    PUMICE_TRY(const ChatPrompt prompt, prompt_that_fits(question));
    const ComputeWatch prefill;
    ProgressBar bar("reading");
    bar.update(0, prompt.ids.size());
    const Progress progress = prompt.ids.size() > session_->size().chunk ? bar.callback() : Progress();
    PUMICE_CHECK(session_->set_prompt(prompt.ids, sampling_, progress));
    const uint32_t reused = session_->reused();
    AnswerPrinter printer(options_.thinking == "show");
    AnswerParser parser(AnswerFormat::of(template_.text()), prompt.text);
    StreamDecoder text(tokenizer_, true);
    size_t count = 0;
    double first = 0;
    std::optional<ComputeWatch> decoding;
    while (!interrupted() && !session_->full() && (options_.count == 0 || count < options_.count)) {
      PUMICE_TRY(const uint32_t token, session_->next());
      ++count;
      if (!decoding) {
        bar.erase();
        first = prefill.seconds();
        decoding.emplace();
      }
      if (std::ranges::count(ends_, token)) break;
      printer.print(parser.push(text.push(token)));
    }
    printer.print(parser.push(text.flush()));
    printer.print(parser.finish());
    messages_.push_back({{"role", "user"}, {"content", question}});
    messages_.push_back(printer.finish().message());
    const size_t read = prompt.ids.size() - reused;
    stats_ = fmt::format("{}{}{}; answered {}{}; context {} of {} tokens", counted(read, "token"),
                         rate_text(read, first), reused ? fmt::format(", {} reused", reused) : "",
                         counted(count, "token"),
                         rate_text(count ? count - 1 : 0, decoding ? decoding->seconds() : 0),
                         session_->tokens().size(), session_->size().context);
    return interrupted() ? interruption() : Status();
  }

  // The last question again, whose answer is forgotten.
  Status regenerate() {
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
      return Error{Code::invalid_argument, "there is no answer to be given again"};
    }
    messages_.erase(messages_.size() - 1);
    const std::string question = messages_.back()["content"];
    messages_.erase(messages_.size() - 1);
    ++sampling_.seed;
    return ask(question);
  }

  void reset() {
    messages_ = ordered_json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }
  void set_system(std::string text) {
    system_ = std::move(text);
    reset();
  }
  const std::string& stats() const { return stats_; }
  Status save_pipelines() const { return device_->save_pipelines(); }

private:
  Result<ChatPrompt> prompt_with(const std::string& question) const {
    ordered_json variables = {{"messages", messages_}, {"add_generation_prompt", true}};
    if (options_.thinking == "off") variables["enable_thinking"] = false;
    variables["messages"].push_back({{"role", "user"}, {"content", question}});
    return encode_chat(template_, *tokenizer_, variables, now_);
  }

  // Forgets the oldest turns until the question fits.
  Result<ChatPrompt> prompt_that_fits(const std::string& question) {
    for (size_t dropped = 0;; dropped += 2) {
      PUMICE_TRY(ChatPrompt prompt, prompt_with(question));
      const Status fits = check_fits(prompt.ids.size(), session_->size().context, "the conversation");
      if (fits.ok() && dropped > 0)
        print_note(fmt::format("the context is full: the first {} of the conversation are forgotten",
                               counted(dropped, "message")));
      const size_t first = system_.empty() ? 0 : 1;
      if (fits.ok()) return prompt;
      if (messages_.size() < first + 2) return fits.error();
      messages_.erase(first);
      messages_.erase(first);
    }
  }

  const ChatOptions& options_;
  ChatTemplate template_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::tm now_;
  SamplingParams sampling_;
  std::string system_ = options_.system;
  std::vector<uint32_t> ends_;
  std::optional<OpenedDevice> device_;
  std::unique_ptr<Session> session_;
  ordered_json messages_;
  std::string stats_;
};

constexpr const char* help_text = "/system TEXT   begin anew, with a message that says how to answer\n"
                                  "/reset         begin anew\n"
                                  "/regenerate    answer the last question again\n"
                                  "/stats         show the speed and what the context holds\n"
                                  "/exit          end, as Ctrl-D does\n";

// A line that is a command. Returns whether to go on.
Result<bool> obey(Chat& chat, const std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, space), rest = line.substr(std::min(space + 1, line.size()));
  if (name == "/exit") return false;
  if (name == "/reset") {
    chat.reset();
  } else if (name == "/system") {
    chat.set_system(rest);
  } else if (name == "/stats") {
    print_figures(chat.stats() + "\n");
  } else if (name == "/regenerate") {
    PUMICE_CHECK(chat.regenerate());
  } else {
    print_to_stderr(help_text);
  }
  return true;
}

// Questions from the terminal, until Ctrl-D.
Status talk(Chat& chat) {
  print_figures("/help shows the commands, Ctrl-D ends\n");
  for (std::string line; !interrupted();) {
    print_to_stderr("> ");
    if (!std::getline(std::cin, line)) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line[0] == '/') {
      const Result<bool> on = obey(chat, line);
      if (!on.ok() && on.error().code != Code::invalid_argument) return on.error();
      if (!on.ok()) print_error(on.error().text());
      if (on.ok() && !*on) break;
      continue;
    }
    if (const Status status = chat.ask(line); !status.ok()) {
      if (status.error().code != Code::invalid_argument) return status;
      print_error(status.error().text());
    }
    print_figures(chat.stats() + "\n");
  }
  return interrupted() ? interruption() : Status();
}

Status chat(const ChatOptions& options) {
  PUMICE_TRY(ChatTemplate chosen, choose_template(options.model, options.chosen, false));
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_CHECK(check_continues_text(options.model, definition->shape()));
  PUMICE_CHECK(check_biases(options.sampling, definition->shape().vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  Chat chat(options, std::move(chosen), std::move(tokenizer));
  std::optional<std::string> question;
  if (options.question_option->count() > 0 && options.question != "-") {
    question = options.question;
  } else if (options.question == "-" || input_is_given()) {
    PUMICE_TRY(question, read_text("-"));
  }
  if (question) {
    PUMICE_CHECK(check_utf8(*question, "the question"));
    PUMICE_CHECK(chat.check(*question, session_size(options.size, definition->shape()).context));
  }
  PUMICE_CHECK(chat.open(std::move(file)));
  if (question) {
    PUMICE_CHECK(chat.ask(*question));
    if (stdout_is_terminal()) print_figures(chat.stats() + "\n");
  } else {
    PUMICE_CHECK(talk(chat));
  }
  return chat.save_pipelines();
}

} // namespace

Subcommand add_chat(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("chat", "Talk to a model, or ask it one question.");
  auto options = std::make_shared<ChatOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder with a chat template")
      ->required()
      ->type_name("");
  options->question_option =
      sub->add_option("QUESTION", options->question,
                      "One question: its answer ends the command. '-' reads it from standard input. Without "
                      "QUESTION, questions are read from the terminal, or one from a pipe");
  options->question_option->type_name("");
  sub->add_option("--system", options->system, "A message before all others, which says how to answer")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--template", options->chosen,
                  "Use this file as the chat template, or the model's template of this name")
      ->type_name("FILE|NAME")
      ->group("Text");
  sub->add_option(
         "--thinking", options->thinking,
         "What becomes of the model's thinking: show, hide, off. With off the template is asked for an "
         "answer without it")
      ->type_name("HOW")
      ->transform(one_of({"show", "hide", "off"}))
      ->capture_default_str()
      ->group("Text");
  sub->add_option("-n,--count", options->count, "Maximum number of tokens of an answer (default: no limit)")
      ->type_name("N")
      ->transform(token_count(0, UINT32_MAX, 0))
      ->group("Text");
  add_sampling_options(*sub, options->sampling, drawn_by_default());
  add_size_options(*sub, options->size, "f16");
  add_fit_option(*sub, options->size);
  add_device_options(*sub, options->device);
  sub->footer(example("pumice chat FOLDER \"What is the opposite of hot?\""));
  return {sub, [options] { return chat(*options); }, {{"MODEL"}, {}}};
}

} // namespace pumice::command
