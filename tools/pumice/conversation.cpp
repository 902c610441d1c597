#include "conversation.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "answer_printer.h"
#include "base/path.h"
#include "counted.h"
#include "fitting_size.h"
#include "input_stream.h"
#include "io/json_text.h"
#include "io/output_file.h"
#include "prompt.h"
#include "terminal.h"

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

} // namespace

Conversation::Conversation(ChatSettings settings, Chat chat)
    : settings_(std::move(settings)), chat_(std::move(chat)) {
  if (!settings_.sampling.seed) settings_.sampling.seed = settings_.sampling.resolved().seed;
}

Status Conversation::check(const std::string& question, uint32_t context) {
  PUMICE_CHECK(chat_.add({{"role", "user"}, {"content", question}}));
  const Result<ChatPrompt> asked = prompt();
  chat_.remove(chat_.messages().size() - 1, 1);
  if (!asked.ok()) return asked.error();
  return check_fits(asked->ids.size(), context, "the question with its template");
}

Status Conversation::open(ModelFile file, const DeviceOptions& device, const SizeOptions& wanted) {
  const std::string path = file.path();
  PUMICE_TRY(device_, open_device(device));
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
  PUMICE_CHECK(chat_.add({{"role", "user"}, {"content", question}}));
  const Status status = answer(forget);
  if (!status.ok()) PUMICE_CHECK(chat_.set_messages(std::move(before)));
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
  const ordered_json content = chat_.messages()[last].value("content", ordered_json());
  if (!content.is_string()) {
    return Error{Code::invalid_argument,
                 "the last question is not a text alone, so that no line can hold it"};
  }
  chat_.remove(last, SIZE_MAX);
  return content.get<std::string>();
}

Status Conversation::reset() {
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
  PUMICE_TRY(const ordered_json file, read_conversation(path));
  ordered_json before = chat_.messages();
  PUMICE_CHECK(chat_.set_messages(file["messages"]));
  if (const Result<ChatPrompt> rendered = prompt(); !rendered.ok()) {
    PUMICE_CHECK(chat_.set_messages(std::move(before)));
    return Error{rendered.error().code, fmt::format("{}: {}", path_text(path), rendered.error().message)};
  }
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

Result<ChatPrompt> Conversation::prompt() {
  chat_.ask_for_thinking(settings_.thinking == "off" ? std::optional(false) : std::nullopt);
  return chat_.prompt();
}

// Forgets the oldest turns, if they may be, until there is room for an answer.
Result<ChatPrompt> Conversation::prompt_with_room(const AskToForget& forget) {
  const uint32_t context = session_->size().context;
  const size_t before = chat_.messages().size();
  PUMICE_TRY(ChatPrompt shortest, prompt());
  const Status room = chat_.check_room(shortest.ids.size(), context, settings_.count);
  while (!chat_.check_room(shortest.ids.size(), context, settings_.count).ok() &&
         chat_.forget_oldest_turn() > 0) {
    PUMICE_TRY(shortest, prompt());
  }
  PUMICE_CHECK(check_fits(shortest.ids.size(), context, "the question with its template"));
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
  PUMICE_TRY(const ChatPrompt asked, prompt_with_room(forget));
  return answer_prompt(asked);
}

Status Conversation::answer_prompt(const ChatPrompt& prompt) {
  const ComputeWatch prefill;
  ProgressBar bar("reading");
  bar.update(0, prompt.ids.size());
  const Progress progress = prompt.ids.size() > session_->size().chunk ? bar.callback() : Progress();
  sampling_ = settings_.sampling.resolved();
  PUMICE_CHECK(session_->set_prompt(prompt.ids, sampling_, progress));
  const uint32_t reused = session_->reused(), context = session_->size().context;
  AnswerPrinter printer(settings_.thinking == "show");
  ChatAnswer answer(chat_, prompt);
  StreamDecoder text(chat_.tokenizer(), true);
  size_t count = 0;
  double first = 0;
  std::optional<ComputeWatch> decoding;
  const char* cut = nullptr;
  while (!interrupted()) {
    if (prompt.ids.size() + count >= context) cut = "the context is full";
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
  session_->end_at(prompt.ids.size() + count); // what was computed ahead is no part of the answer
  if (count == 0 && interrupted()) return interruption();
  printer.print(answer.finish(text.flush()));
  printer.finish();
  thinking_ = answer.answered().thinking;
  answer.add_to(chat_);
  const size_t read = prompt.ids.size() - reused;
  read_ += read, reused_ += reused, answered_ += count;
  context_used_ = prompt.ids.size() + count;
  figures_ = fmt::format("{}{}, {} reused; answered {}{}{}; context {} of {} tokens", counted(read, "token"),
                         rate_text(read, first), reused, counted(count, "token"),
                         rate_text(count > 1 ? count - 1 : 0, decoding ? decoding->seconds() : 0),
                         interrupted() ? ", stopped" : "", context_used_, context);
  if (cut) print_note(fmt::format("the answer is cut off: {}", cut));
  return {};
}

} // namespace pumice::command
