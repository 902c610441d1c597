#include <functional>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/path.h"
#include "chat/chat_commands.h"
#include "chat/chosen_template.h"
#include "chat/conversation.h"
#include "input/input_stream.h"
#include "loading/picture_tower.h"
#include "model/vocabulary.h"
#include "options/adapter_options.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "task/generated_text.h"
#include "task/model_kind.h"
#include "terminal/counted.h"
#include "terminal/line_editor.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct ChatOptions {
  std::string model;
  std::string question;
  CLI::Option* question_option = nullptr;
  std::string file; // behind the question, or in its place; empty: none
  std::string system;
  std::string chosen; // template
  std::vector<std::string> pictures, sounds;
  std::string mmproj;
  std::string thinking_marks;
  std::string variables; // of the template, as JSON
  std::string session;   // a file of messages
  ChatSettings settings;
  DeviceOptions device;
  SizeOptions size;
  std::vector<std::string> adapters;
};

// What a person typed as one: a line; lines that end with a backslash, and the next; or what is between two
// \"\"\".
TypedLine read_question(LineEditor& editor, const std::string& text) {
  constexpr std::string_view marks = "\"\"\"", more = "... ";
  TypedLine typed = editor.read("> ", text);
  if (typed.end != TypedLine::End::enter) return typed;
  const bool marked = typed.text.starts_with(marks);
  if (marked) typed.text.erase(0, marks.size());
  for (;;) {
    const bool ended = marked ? typed.text.ends_with(marks) : !typed.text.ends_with('\\');
    if (ended && marked) typed.text.resize(typed.text.size() - marks.size());
    if (ended) break;
    if (!marked) typed.text.pop_back();
    const TypedLine next = editor.read(std::string(more));
    if (next.end == TypedLine::End::ctrl_c) return {TypedLine::End::dropped, {}};
    if (next.end != TypedLine::End::enter) return next;
    if (!(marked && typed.text.empty())) typed.text += '\n';
    typed.text += next.text;
  }
  if (marked && typed.text.ends_with('\n')) typed.text.pop_back();
  return typed;
}

// Questions from the terminal, until Ctrl-D.
class Talk {
public:
  // `keep`: called after each answer, so that a conversation is kept whatever ends it.
  Talk(Conversation& conversation, std::vector<NamedFile> reads, std::function<Status()> keep)
      : conversation_(conversation), keep_(std::move(keep)),
        editor_(history_file(conversation.device()), ChatCommands::completions),
        commands_(conversation, forget_, std::move(reads)) {}

  Status run() {
    print_figures("/help shows the commands, Ctrl-C stops an answer, Ctrl-D ends\n");
    StoppableWork talk;
    for (;;) {
      talk.forget(); // what comes before the prompt was meant for the answer
      if (interrupted()) break;
      const TypedLine typed = read_question(editor_, commands_.take_given());
      if (typed.end == TypedLine::End::dropped) continue;
      if (typed.end == TypedLine::End::ctrl_c) interrupt(); // ends, with the status of Ctrl-C
      if (typed.end != TypedLine::End::enter) break;
      if (typed.text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      editor_.remember(typed.text);
      PUMICE_TRY(const bool on, reply(typed.text));
      if (!on) break;
      (void)keep_(); // an error comes at the end
    }
    return interrupted() ? interruption() : Status();
  }

private:
  static std::filesystem::path history_file(const OpenedDevice& device) {
    return device.cache.empty() ? std::filesystem::path() : device.cache / "chat_history";
  }

  // Returns whether to go on.
  Result<bool> reply(const std::string& text) {
    const StoppableWork answering;
    const Result<ChatCommands::Then> then = reply_to(text);
    if (then.ok()) {
      if (*then == ChatCommands::Then::figures) print_figures(conversation_.figures() + "\n");
      return *then != ChatCommands::Then::end;
    }
    if (answering.stopped()) {
      print_note("stopped before the answer began: the question is not a part of the conversation");
      return true;
    }
    if (interrupted() || !goes_on_after(then.error().code)) return then.error();
    print_error(then.error().text());
    return true;
  }

  Result<ChatCommands::Then> reply_to(const std::string& text) {
    if (ChatCommands::is_command(text)) return commands_.run(text);
    if (const Status valid = check_utf8(text, "the question"); !valid.ok()) return valid.error();
    if (const Status status = conversation_.ask(commands_.take_read() + text, forget_); !status.ok())
      return status.error();
    return ChatCommands::Then::figures;
  }

  // Whether an error is about what was typed, or a file that it names, and not about the model's work.
  static bool goes_on_after(Code code) {
    return code == Code::invalid_argument || code == Code::invalid_file || code == Code::not_found ||
           code == Code::io || code == Code::unsupported || code == Code::context_full;
  }

  // Asks until the answer is yes or no.
  bool may_forget(const std::string& sentence) {
    for (;;) {
      const TypedLine typed = editor_.read(sentence + " [y/n] ");
      if (typed.end != TypedLine::End::enter) return false;
      if (typed.text == "y" || typed.text == "Y" || typed.text == "yes") return true;
      if (typed.text == "n" || typed.text == "N" || typed.text == "no") return false;
    }
  }

  Conversation& conversation_;
  const std::function<Status()> keep_;
  LineEditor editor_;
  const Conversation::AskToForget forget_ = [this](const std::string& each) { return may_forget(each); };
  ChatCommands commands_;
};

std::vector<NamedFile> files_read_by(const ChatOptions& options) {
  std::vector<NamedFile> files = {{"MODEL", path_of(options.model)}};
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path_of(options.chosen), ignored))
    files.push_back({"--template", path_of(options.chosen)});
  if (!options.mmproj.empty()) files.push_back({"--mmproj", path_of(options.mmproj)});
  if (!options.file.empty()) files.push_back({"--file", path_of(options.file)});
  for (const std::string& picture : options.pictures) files.push_back({"--image", path_of(picture)});
  for (const std::string& sound : options.sounds) files.push_back({"--audio", path_of(sound)});
  return files;
}

// Whether a pipe beside a question has something to say. One that stays open in silence, such as that of a
// program which started this one, is not waited for.
Result<bool> input_arrives() {
  InputStream input("-");
  PUMICE_TRY(bool arrived, input.arrives(1000));
  if (arrived) return true;
  print_note("standard input is an open pipe: it is waited for, in case it has more of the question");
  PUMICE_TRY(arrived, input.arrives(4000));
  if (!arrived)
    print_note(
        "nothing came from it in 5 s: the question is asked without it; '--file -' waits for all of it");
  return arrived;
}

// The question of the command line, and behind it what a file or a pipe has; nothing where a person is to be
// asked.
Result<std::optional<std::string>> read_question(const ChatOptions& options) {
  const bool asked = options.question_option->count() > 0 && options.question != "-";
  std::optional<std::string> question;
  if (asked) question = options.question;
  std::string path = options.file;
  if (path.empty()) {
    if (options.question != "-" && !input_is_given()) return question;
    if (asked) {
      PUMICE_TRY(const bool arrives, input_arrives());
      if (!arrives) return question;
    }
    path = "-";
  }
  PUMICE_TRY(const std::string text, read_text(path));
  if (!asked) return std::optional(text);
  if (!text.empty()) *question += "\n\n" + text;
  return question;
}

// Writes the file of --session.
Status keep(Conversation& conversation, const ChatOptions& options) {
  return options.session.empty() ? Status() : conversation.save(path_of(options.session));
}

Status chat(const ChatOptions& options) {
  PUMICE_TRY(ModelFile file, open_with_mmproj(options.model, options.mmproj));
  PUMICE_TRY(ChatTemplate chosen, choose_template(options.model, options.chosen, false));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(std::move(file), options.size.load.settings));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_continues_text(opened.file, shape));
  PUMICE_CHECK(check_biases(options.settings.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  PUMICE_TRY(ModelChat talk, ModelChat::open(opened.file, shape, std::move(chosen), std::move(tokenizer),
                                             {local_time(), 0, "name another template with --template"}));
  if (!options.thinking_marks.empty()) {
    if (const Status set = talk.chat().set_thinking_marks(options.thinking_marks); !set.ok())
      return Error{set.error().code, "--thinking-marks: " + set.error().message};
  }
  Conversation conversation(options.settings, std::move(talk), tower_path(opened.file));
  PUMICE_CHECK(conversation.set_system(options.system));
  if (!options.variables.empty()) PUMICE_CHECK(conversation.set_variables(options.variables));
  std::error_code ignored;
  if (!options.session.empty() && std::filesystem::exists(path_of(options.session), ignored)) {
    PUMICE_TRY(const size_t loaded, conversation.load(path_of(options.session)));
    print_detail(fmt::format("{}: {}", options.session, counted(loaded, "message")));
  }
  for (const std::string& picture : options.pictures) PUMICE_CHECK(conversation.show(picture));
  for (const std::string& sound : options.sounds) PUMICE_CHECK(conversation.play(sound));
  PUMICE_TRY(const std::optional<std::string> question, read_question(options));
  if (question) {
    PUMICE_CHECK(check_utf8(*question, "the question"));
    PUMICE_CHECK(conversation.check(*question, session_size(options.size, shape).context));
  }
  PUMICE_CHECK(conversation.open(std::move(opened), options.device, options.size, options.adapters));
  if (question) {
    std::optional<SavedWork> saved; // the answer until Ctrl-C
    if (options.settings.json || !options.session.empty()) saved.emplace();
    PUMICE_CHECK(conversation.ask(*question, {}));
    PUMICE_CHECK(keep(conversation, options));
    if (interrupted()) return interruption();
    if (stdout_is_terminal()) print_figures(conversation.figures() + "\n");
  } else {
    const auto kept = [&] { return keep(conversation, options); };
    const Status talked = Talk(conversation, files_read_by(options), kept).run();
    PUMICE_CHECK(kept());
    PUMICE_CHECK(talked);
  }
  return conversation.device().save_pipelines();
}

} // namespace

Subcommand add_chat(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("chat", "Talk to a model, or ask it one question.");
  auto options = std::make_shared<ChatOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder with a chat template")
      ->required()
      ->type_name("");
  options->question_option = sub->add_option(
      "QUESTION", options->question,
      "One question: its answer ends the command. '-' reads it from standard input. Without "
      "QUESTION, questions are read from the terminal, or one from a pipe. What a pipe has beside "
      "QUESTION comes behind it");
  options->question_option->type_name("");
  sub->add_option("-f,--file", options->file,
                  "Put the text of this file behind the question, or in its place. '-' is standard input, "
                  "however long it takes")
      ->type_name("FILE")
      ->group("Text");
  sub->add_option("--system", options->system, "A message before all others, which says how to answer")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--image", options->pictures,
                  "A PNG or JPEG file that the first question shows a model that sees (LLaVA, SmolVLM, Gemma "
                  "3, Qwen 2.5-VL). Can be given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE")
      ->group("Text");
  sub->add_option(
         "--audio", options->sounds,
         "A WAV, FLAC, Ogg or Opus file that the first question plays to a model that hears (Voxtral, "
         "Qwen2-Audio). Can be given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE")
      ->group(more_of("Text"));
  add_mmproj_option(*sub, options->mmproj, "Text");
  sub->add_option("--template", options->chosen,
                  "Use this file as the chat template, or the model's template of this name")
      ->type_name("FILE|NAME")
      ->group("Text");
  sub->add_option(
         "--thinking", options->settings.thinking,
         "What becomes of the model's thinking: show, hide, off. With off the template is asked for an "
         "answer without it")
      ->type_name("HOW")
      ->transform(one_of({"show", "hide", "off"}))
      ->capture_default_str()
      ->group("Text");
  sub->add_option("--thinking-marks", options->thinking_marks,
                  "What the model writes around its thinking, where its template does not show it, as "
                  "<think>,</think>")
      ->type_name("BEGIN,END")
      ->group("Text");
  sub->add_option(
         "--tool-choice", options->settings.tool_choice,
         "Calls of the tools in the template's variables: auto, none, required (at least one), or the name "
         "of the only tool to call")
      ->type_name("CHOICE")
      ->capture_default_str()
      ->group(more_of("Text"));
  sub->add_option("--prefill", options->settings.prefill, "What an answer begins with; it goes on from there")
      ->type_name("TEXT")
      ->group(more_of("Text"));
  sub->add_option("--stop", options->settings.stops,
                  "End an answer before this string. Can be given more than once")
      ->type_name("STRING")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(more_of("Text"));
  sub->add_option("--session", options->session,
                  "Keep the messages in this file, as JSON. It is loaded if it exists, and saved at the end")
      ->type_name("FILE")
      ->group(more_of("Text"));
  sub->add_option("--chat-template-kwargs", options->variables,
                  "Variables for the chat template, as a JSON object: {\"enable_thinking\": false}")
      ->type_name("JSON")
      ->group(more_of("Text"));
  sub->add_flag(
         "--json", options->settings.json,
         "Print one JSON object for each answer. Its fields: content, thinking, tool_calls, finish_reason, "
         "prompt_tokens, reused_tokens, tokens, seed")
      ->group(more_of("Text"));
  add_adapter_option(*sub, options->adapters);
  add_form_options(*sub, options->settings.form);
  options->settings.sampling.params = usual_sampling();
  add_chat_settings(*sub, options->settings);
  add_size_options(*sub, options->size, "f16");
  add_settings_options(*sub, options->size.load);
  add_drafts_option(*sub, options->size);
  add_fit_option(*sub, options->size);
  sub->add_flag_callback(
         "--no-context-shift", [options] { options->settings.shift = false; },
         "When turns are forgotten, read again what is behind them. Otherwise it is kept where the model "
         "allows it, and has still seen them")
      ->group(more_of(device_group));
  add_device_options(*sub, options->device);
  sub->footer(example("pumice chat FOLDER \"What is the opposite of hot?\""));
  return {
      sub, [options] { return chat(*options); }, {{"MODEL", "--file", "--image", "--mmproj"}, {"--session"}}};
}

} // namespace pumice::command
