#include "conversation.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "answer_printer.h"
#include "base/path.h"
#include "chosen_template.h"
#include "counted.h"
#include "fitting_size.h"
#include "input_stream.h"
#include "io/output_file.h"
#include "model/vocabulary.h"
#include "prompt.h"
#include "terminal.h"

namespace pumice::command {

namespace {

using nlohmann::ordered_json;

bool has_role(const ordered_json& message, const char* role) {
  return message.value("role", "") == role;
}

// Where a person's last question is; the number of messages if there is none.
size_t last_question(const ordered_json& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (has_role(messages[i], "user")) return i;
  }
  return messages.size();
}

// Where the second turn begins, the first being forgotten before it; 0 if there is only one.
size_t second_turn(const ordered_json& messages) {
  size_t turns = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (has_role(messages[i], "user") && ++turns == 2) return i;
  }
  return 0;
}

// Forgets the oldest turn; a message that says how to answer stays.
bool forget_oldest_turn(ordered_json& messages) {
  const size_t end = second_turn(messages);
  const size_t begin = !messages.empty() && has_role(messages[0], "system") ? 1 : 0;
  if (end <= begin) return false;
  messages.erase(messages.begin() + static_cast<ptrdiff_t>(begin),
                 messages.begin() + static_cast<ptrdiff_t>(end));
  return true;
}

// Tokens that an answer has at least, unless a question alone leaves fewer.
size_t room_for_answer(uint32_t count, uint32_t context) {
  const uint32_t usual = std::min<uint32_t>(512, context / 4);
  return std::max<uint32_t>(1, count ? std::min(count, context / 2) : usual);
}

Result<ordered_json> read_conversation(const std::filesystem::path& path) {
  const std::string name = path_text(path);
  if (name == "-")
    return Error{Code::invalid_argument, "questions are read from standard input: name a file"};
  InputStream stream(name);
  PUMICE_TRY(const std::string text, read_all(stream));
  ordered_json file = ordered_json::parse(text, nullptr, false);
  if (file.is_discarded()) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected JSON such as {{\"messages\": [{{\"role\": \"user\", \"content\": "
                             "\"Hi\"}}]}}, found something else",
                             name)};
  }
  if (const Status status = check_messages(file); !status.ok())
    return Error{Code::invalid_file, fmt::format("{}: {}", name, status.error().message)};
  return file;
}

} // namespace

Conversation::Conversation(ChatSettings settings, ChatTemplate chosen,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : settings_(std::move(settings)), template_(std::move(chosen)), tokenizer_(std::move(tokenizer)),
      now_(local_time()) {
  if (!settings_.sampling.seed) settings_.sampling.seed = settings_.sampling.resolved().seed;
  reset();
}

Status Conversation::check(const std::string& question, uint32_t context) {
  messages_.push_back({{"role", "user"}, {"content", question}});
  const Result<ChatPrompt> asked = prompt();
  messages_.erase(messages_.size() - 1);
  if (!asked.ok()) return asked.error();
  return check_fits(asked->ids.size(), context, "the question with its template");
}

Status Conversation::open(ModelFile file, const DeviceOptions& device, const SizeOptions& wanted) {
  ends_ = ends_of_answers(template_, *tokenizer_, now_, end_tokens(file, tokenizer_.get()));
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
  const ordered_json before = messages_;
  messages_.push_back({{"role", "user"}, {"content", question}});
  const Status status = answer(forget);
  if (!status.ok()) messages_ = before;
  return status;
}

Status Conversation::regenerate(const AskToForget& forget) {
  const size_t last = last_question(messages_);
  if (last == messages_.size()) return Error{Code::invalid_argument, "there is no question to answer again"};
  const ordered_json before = messages_;
  messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(last) + 1, messages_.end());
  ++*settings_.sampling.seed;
  const Status status = answer(forget);
  if (!status.ok()) messages_ = before;
  return status;
}

Result<std::string> Conversation::take_last_question() {
  const size_t last = last_question(messages_);
  if (last == messages_.size()) return Error{Code::invalid_argument, "there is no question to change"};
  const ordered_json content = messages_[last].value("content", ordered_json());
  if (!content.is_string()) {
    return Error{Code::invalid_argument,
                 "the last question is not a text alone, so that no line can hold it"};
  }
  messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(last), messages_.end());
  return content.get<std::string>();
}

void Conversation::reset() {
  messages_ = ordered_json::array();
  if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
}

void Conversation::set_system(const std::string& text) {
  system_ = text;
  reset();
}

Status Conversation::save(const std::filesystem::path& path) const {
  // A text that was cut within a character has a mark there.
  const std::string text =
      ordered_json{{"messages", messages_}}.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
      "\n";
  OutputFile file;
  PUMICE_CHECK(file.open(path));
  PUMICE_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

Result<size_t> Conversation::load(const std::filesystem::path& path) {
  PUMICE_TRY(const ordered_json file, read_conversation(path));
  ordered_json before = std::exchange(messages_, file["messages"]);
  if (const Result<ChatPrompt> rendered = prompt(); !rendered.ok()) {
    messages_ = std::move(before);
    return Error{rendered.error().code, fmt::format("{}: {}", path_text(path), rendered.error().message)};
  }
  system_.clear();
  if (!messages_.empty() && has_role(messages_[0], "system") && messages_[0]["content"].is_string())
    system_ = messages_[0]["content"];
  for (const auto& [name, value] : file.items()) {
    if (name != "messages")
      print_note(
          fmt::format("{}: '{}' has no effect here: only the messages are used", path_text(path), name));
  }
  return messages_.size();
}

std::string Conversation::statistics() const {
  std::string text = figures_.empty() ? "" : "last answer: " + figures_ + "\n";
  text += fmt::format("so far: {}; {} read, {} reused, {} answered\n", counted(messages_.size(), "message"),
                      counted(read_, "token"), reused_, answered_);
  text += fmt::format("context: {} of {} tokens\n", context_used_, session_->size().context);
  const SamplingParams& params = settings_.sampling.params;
  text +=
      fmt::format("settings: temp {}, top-k {}, top-p {}, min-p {}, seed {}, count {}, thinking {}\n",
                  params.temperature, params.top_k, params.top_p, params.min_p, *settings_.sampling.seed,
                  settings_.count ? std::to_string(settings_.count) : "-1 (no limit)", settings_.thinking);
  return text;
}

Result<ChatPrompt> Conversation::prompt() const {
  ordered_json variables = {{"messages", messages_}, {"add_generation_prompt", true}};
  if (settings_.thinking == "off") variables["enable_thinking"] = false;
  return encode_chat(template_, *tokenizer_, variables, now_);
}

// Forgets the oldest turns, if they may be, until there is room for an answer.
Result<ChatPrompt> Conversation::prompt_with_room(const AskToForget& forget) {
  const uint32_t context = session_->size().context;
  const size_t room = room_for_answer(settings_.count, context), before = messages_.size();
  PUMICE_TRY(ChatPrompt shortest, prompt());
  const size_t whole = shortest.ids.size();
  while (shortest.ids.size() + room > context && forget_oldest_turn(messages_)) {
    PUMICE_TRY(shortest, prompt());
  }
  PUMICE_CHECK(check_fits(shortest.ids.size(), context, "the question with its template"));
  if (messages_.size() == before) return shortest;
  const std::string sentence =
      fmt::format("the context is full: {} of its {} tokens are taken, which leaves too few for an answer",
                  whole, context);
  const std::string oldest = counted(before - messages_.size(), "message");
  if (!forget) return Error{Code::context_full, sentence};
  if (!forget(fmt::format("{}. Forget the oldest {}?", sentence, oldest))) {
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
  AnswerParser parser(AnswerFormat::of(template_.text()), prompt.text);
  StreamDecoder text(tokenizer_, true);
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
    if (std::ranges::count(ends_, *token)) break;
    printer.print(parser.push(text.push(*token)));
  }
  bar.erase();
  session_->end_at(prompt.ids.size() + count); // what was computed ahead is no part of the answer
  if (count == 0 && interrupted()) return interruption();
  printer.print(parser.push(text.flush()));
  printer.print(parser.finish());
  Answered answered = printer.finish();
  thinking_ = answered.thinking;
  messages_.push_back(answered.message());
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
