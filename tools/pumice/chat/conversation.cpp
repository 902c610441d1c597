#include "chat/conversation.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "chat/answer_printer.h"
#include "input/input_stream.h"
#include "io/json_text.h"
#include "io/output_file.h"
#include "loading/fitting_size.h"
#include "options/prompt.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"
#include "text/chat/message_pictures.h"

namespace pumice::command {

namespace {

using nlohmann::ordered_json;

Result<ordered_json> read_conversation(const std::filesystem::path& path) {
  const std::string name = path_text(path);
  if (name == "-")
    return Error{Code::invalid_argument, "questions are read from standard input: name a file"};
  InputStream stream(name);
  PUMICE_TRY(const std::string text, read_all(stream));
  PUMICE_TRY(ordered_json file, parse_ordered_json(text, name));
  if (const Status status = check_messages(file); !status.ok())
    return Error{Code::invalid_file, fmt::format("{}: {}", name, status.error().message)};
  return file;
}

struct Question {
  std::string text;
  ordered_json pictures = ordered_json::array();
};

// What a message asks, if that is a text and pictures.
std::optional<Question> question_of(const ordered_json& content) {
  Question question;
  if (content.is_string()) {
    question.text = content;
    return question;
  }
  if (!content.is_array()) return {};
  for (const ordered_json& part : content) {
    const bool text = part.is_object() && part.value("type", ordered_json()) == "text";
    if (shows_picture(part)) {
      question.pictures.push_back(part);
    } else if (text && part.contains("text") && part["text"].is_string() && question.text.empty()) {
      question.text = part["text"];
    } else {
      return {};
    }
  }
  return question;
}

} // namespace

Conversation::Conversation(ChatSettings settings, Chat chat, ChatPictures pictures)
    : settings_(std::move(settings)), chat_(std::move(chat)), pictures_(std::move(pictures)) {
  if (!settings_.sampling.seed) settings_.sampling.seed = settings_.sampling.resolved().seed;
}

Status Conversation::show(const std::string& picture) {
  PUMICE_TRY(ordered_json part, pictures_.show(picture));
  shown_.push_back(std::move(part));
  return {};
}

// Pictures come before the text, as the models were trained.
ordered_json Conversation::question_message(const std::string& text) const {
  if (shown_.empty()) return {{"role", "user"}, {"content", text}};
  ordered_json parts = shown_;
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(parts)}};
}

Status Conversation::check(const std::string& question, uint32_t context) {
  PUMICE_CHECK(chat_.add(question_message(question)));
  const Result<Prompt> asked = prompt();
  chat_.remove(chat_.messages().size() - 1, 1);
  if (!asked.ok()) return asked.error();
  return check_fits(asked->tokens, context, "the question with its template");
}

Status Conversation::open(ModelFile file, const DeviceOptions& device, const SizeOptions& wanted) {
  const std::string path = file.path();
  PUMICE_TRY(device_, open_device(device));
  load_ = wanted.load;
  if (wanted.fit) PUMICE_CHECK(pictures_.load_tower(*device_, load_));
  PUMICE_TRY(const SizeOptions size, fitting_size(wanted, path, *device_));
  PUMICE_TRY(const std::shared_ptr<const Model> model,
             load_model(std::move(file), *device_, size.load, &size));
  SessionOptions session;
  session.size = session_size(size, model->shape());
  Result<std::unique_ptr<Session>> created = Session::create(model, session);
  if (!created.ok()) return with_fit_advice(created.error(), size);
  session_ = std::move(*created);
  return {};
}

Status Conversation::ask(const std::string& question, const AskToForget& forget) {
  ordered_json before = chat_.messages();
  PUMICE_CHECK(chat_.add(question_message(question)));
  const Status status = answer(forget);
  if (!status.ok()) PUMICE_CHECK(chat_.set_messages(std::move(before)));
  if (status.ok()) shown_.clear();
  return status;
}

Status Conversation::regenerate(const AskToForget& forget) {
  ordered_json before = chat_.messages();
  const size_t last = chat_.last_question();
  if (last == before.size()) return Error{Code::invalid_argument, "there is no question to answer again"};
  chat_.remove(last + 1, SIZE_MAX);
  ++*settings_.sampling.seed;
  const Status status = answer(forget);
  if (!status.ok()) PUMICE_CHECK(chat_.set_messages(std::move(before)));
  return status;
}

Result<std::string> Conversation::take_last_question() {
  const size_t last = chat_.last_question();
  if (last == chat_.messages().size()) return Error{Code::invalid_argument, "there is no question to change"};
  std::optional<Question> question = question_of(chat_.messages()[last].value("content", ordered_json()));
  if (!question) {
    return Error{Code::invalid_argument,
                 "the last question is not a text with pictures, so that no line can hold it"};
  }
  chat_.remove(last, SIZE_MAX);
  shown_ = std::move(question->pictures);
  return std::move(question->text);
}

Status Conversation::reset() {
  shown_.clear();
  pictures_.forget();
  ordered_json messages = ordered_json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  return chat_.set_messages(std::move(messages));
}

Status Conversation::set_system(const std::string& text) {
  system_ = text;
  return reset();
}

Status Conversation::save(const std::filesystem::path& path) const {
  // A text that was cut within a character has a mark there.
  const std::string text = ordered_json{{"messages", chat_.messages()}}.dump(
                               2, ' ', false, ordered_json::error_handler_t::replace) +
                           "\n";
  OutputFile file;
  PUMICE_CHECK(file.open(path));
  PUMICE_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

Result<size_t> Conversation::load(const std::filesystem::path& path) {
  PUMICE_TRY(ordered_json file, read_conversation(path));
  const auto named = [&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", path_text(path), error.message)};
  };
  if (const Status pictures = pictures_.show_all(file["messages"]); !pictures.ok())
    return named(pictures.error());
  ordered_json before = chat_.messages();
  PUMICE_CHECK(chat_.set_messages(file["messages"]));
  if (const Result<Prompt> rendered = prompt(); !rendered.ok()) {
    PUMICE_CHECK(chat_.set_messages(std::move(before)));
    return named(rendered.error());
  }
  shown_.clear();
  system_.clear();
  const ordered_json& messages = chat_.messages();
  if (!messages.empty() && messages[0]["role"] == "system" && messages[0].contains("content") &&
      messages[0]["content"].is_string())
    system_ = messages[0]["content"];
  for (const auto& [name, value] : file.items()) {
    if (name != "messages")
      print_note(
          fmt::format("{}: '{}' has no effect here: only the messages are used", path_text(path), name));
  }
  return messages.size();
}

std::string Conversation::statistics() const {
  std::string text = figures_.empty() ? "" : "last answer: " + figures_ + "\n";
  text +=
      fmt::format("so far: {}; {} read, {} reused, {} answered\n",
                  counted(chat_.messages().size(), "message"), counted(read_, "token"), reused_, answered_);
  text += fmt::format("context: {} of {} tokens\n", context_used_, session_->size().context);
  const SamplingParams& params = settings_.sampling.params;
  text +=
      fmt::format("settings: temp {}, top-k {}, top-p {}, min-p {}, seed {}, count {}, thinking {}\n",
                  params.temperature, params.top_k, params.top_p, params.min_p, *settings_.sampling.seed,
                  settings_.count ? std::to_string(settings_.count) : "-1 (no limit)", settings_.thinking);
  return text;
}

Result<Conversation::Prompt> Conversation::prompt() {
  chat_.ask_for_thinking(settings_.thinking == "off" ? std::optional(false) : std::nullopt);
  PUMICE_TRY(ChatPrompt made, chat_.prompt(pictures_.places(chat_.messages())));
  PUMICE_TRY(const size_t tokens, pictures_.length(made, chat_.messages()));
  return Prompt{std::move(made), tokens};
}

// Forgets the oldest turns, if they may be, until there is room for an answer.
Result<Conversation::Prompt> Conversation::prompt_with_room(const AskToForget& forget) {
  const uint32_t context = session_->size().context;
  const size_t before = chat_.messages().size();
  PUMICE_TRY(Prompt shortest, prompt());
  const Status room = chat_.check_room(shortest.tokens, context, settings_.count);
  while (!chat_.check_room(shortest.tokens, context, settings_.count).ok() &&
         chat_.forget_oldest_turn() > 0) {
    PUMICE_TRY(shortest, prompt());
  }
  PUMICE_CHECK(check_fits(shortest.tokens, context, "the question with its template"));
  if (chat_.messages().size() == before) return shortest;
  const std::string oldest = counted(before - chat_.messages().size(), "message");
  if (!forget) return room.error();
  if (!forget(fmt::format("{}. Forget the oldest {}?", room.error().message, oldest))) {
    return Error{Code::invalid_argument,
                 "the question was not asked; /reset begins anew, /save FILE keeps what was said"};
  }
  return shortest;
}

Status Conversation::answer(const AskToForget& forget) {
  PUMICE_TRY(const Prompt asked, prompt_with_room(forget));
  return answer_prompt(asked);
}

Status Conversation::answer_prompt(const Prompt& prompt) {
  const ComputeWatch prefill;
  ProgressBar bar("reading");
  bar.update(0, prompt.tokens);
  const Progress progress = prompt.tokens > session_->size().chunk ? bar.callback() : Progress();
  sampling_ = settings_.sampling.resolved();
  PUMICE_TRY(PicturePrompt read, pictures_.prompt(prompt.chat, chat_.messages(), *device_, load_));
  PUMICE_CHECK(session_->set_prompt(read.tokens, sampling_, progress, std::move(read.given)));
  const uint32_t reused = session_->reused(), context = session_->size().context;
  AnswerPrinter printer(settings_.thinking == "show");
  ChatAnswer answer(chat_, prompt.chat);
  StreamDecoder text(chat_.tokenizer(), true);
  size_t count = 0;
  double first = 0;
  std::optional<ComputeWatch> decoding;
  const char* cut = nullptr;
  while (!interrupted()) {
    if (prompt.tokens + count >= context) cut = "the context is full";
    if (settings_.count != 0 && count >= settings_.count) cut = "it has as many tokens as 'count' allows";
    if (cut) break;
    const Result<uint32_t> token = session_->next();
    if (!token.ok() && token.error().code == Code::cancelled && interrupted()) break;
    if (!token.ok()) return token.error();
    ++count;
    if (!decoding) {
      bar.erase();
      first = prefill.seconds();
      decoding.emplace();
    }
    if (std::ranges::count(chat_.ends(), *token)) break;
    printer.print(answer.push(*token, text.push(*token)));
  }
  bar.erase();
  session_->end_at(prompt.tokens + count); // what was computed ahead is no part of the answer
  if (count == 0 && interrupted()) return interruption();
  printer.print(answer.finish(text.flush()));
  printer.finish();
  thinking_ = answer.answered().thinking;
  answer.add_to(chat_);
  const size_t fresh = prompt.tokens - reused;
  read_ += fresh, reused_ += reused, answered_ += count;
  context_used_ = prompt.tokens + count;
  figures_ = fmt::format("{}{}, {} reused; answered {}{}{}; context {} of {} tokens", counted(fresh, "token"),
                         rate_text(fresh, first), reused, counted(count, "token"),
                         rate_text(count > 1 ? count - 1 : 0, decoding ? decoding->seconds() : 0),
                         interrupted() ? ", stopped" : "", context_used_, context);
  if (cut) print_note(fmt::format("the answer is cut off: {}", cut));
  return {};
}

} // namespace pumice::command
