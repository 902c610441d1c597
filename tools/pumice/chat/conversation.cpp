#include "chat/conversation.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "chat/answer_printer.h"
#include "chat/chosen_template.h"
#include "input/input_stream.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/output_file.h"
#include "loading/draft_model.h"
#include "loading/fitting_size.h"
#include "loading/picture_tower.h"
#include "media/audio.h"
#include "options/adapter_options.h"
#include "options/prompt.h"
#include "output/json_output.h"
#include "terminal/counted.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"
#include "text/chat/message_pictures.h"

namespace pumice::command {

namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds between_looks(50); // whether the work was interrupted

Result<ordered_json> read_conversation(const std::filesystem::path& path) {
  const std::string name = path_text(path);
  if (name == "-")
    return Error{Code::invalid_argument, "questions are read from standard input: name a file"};
  InputStream stream(name);
  PUMICE_TRY(const std::string text, read_all(stream));
  PUMICE_TRY(ordered_json file, parse_ordered_json(text, name));
  if (file.is_array() && !file.empty()) file = {{"messages", std::move(file)}};
  if (const Status status = check_messages(file); !status.ok())
    return Error{Code::invalid_file, fmt::format("{}: {}", name, status.error().message)};
  return file;
}

// A conversation that is loaded elsewhere finds the file.
std::string absolute_path(const std::string& file) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::absolute(path_of(file), failed);
  return failed ? file : path_text(path);
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
    if (is_medium(part)) {
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

Conversation::Conversation(ChatSettings settings, ModelChat chat, std::string tower)
    : settings_(std::move(settings)), talk_(std::move(chat)), tower_path_(std::move(tower)),
      forms_(talk_.chat().tokenizer()) {
  if (!settings_.sampling.seed) settings_.sampling.seed = settings_.sampling.resolved().seed;
  talk_.media().keep_files();
}

Result<ordered_json> Conversation::read_sound(const std::string& file) {
  PUMICE_CHECK(talk_.media().check_hearing());
  PUMICE_TRY(Audio audio, read_audio_at(talk_.media().sound()->spectrum.sample_rate, path_of(file)));
  PUMICE_TRY(ordered_json part, talk_.media().play(std::move(audio.samples), file));
  part["path"] = absolute_path(file);
  return part;
}

Result<ordered_json> Conversation::read_picture(const std::string& file) {
  if (const Status vision = talk_.media().check_vision(); !vision.ok()) {
    return Error{vision.error().code, vision.error().message +
                                          "; of a GGUF model that does, --mmproj names the file "
                                          "that reads pictures"};
  }
  PUMICE_TRY(const MappedFile mapped, MappedFile::open(path_of(file)));
  PUMICE_TRY(ordered_json part, talk_.media().show(mapped.bytes(), mapped.path()));
  part["path"] = absolute_path(file);
  return part;
}

// Reads those of a saved conversation again, and those that its messages have in themselves.
Status Conversation::read_media(ordered_json& messages) {
  PUMICE_CHECK(for_each_medium(messages, [&](size_t message, ordered_json& part) -> Status {
    const auto named = [&](const Error& error) {
      return Error{error.code, fmt::format("\"messages\"[{}]: {}", message, error.message)};
    };
    const ordered_json path = part.value("path", ordered_json());
    const ordered_json before = part.value("checksum", ordered_json());
    if (!path.is_string()) {
      return named({Code::invalid_file, "a picture or a sound needs a \"path\", the name of its file"});
    }
    const bool sound = part["type"] == "audio";
    Result<ordered_json> shown =
        sound ? read_sound(path.get<std::string>()) : read_picture(path.get<std::string>());
    if (!shown.ok()) return named(shown.error());
    if (before.is_string() && before != (*shown)["checksum"])
      print_note(fmt::format("{} is another {} than when the conversation was saved", path.get<std::string>(),
                             sound ? "sound" : "picture"));
    part.update(*shown);
    return {};
  }));
  return talk_.media().show_urls(messages, "\"messages\"");
}

Status Conversation::show(const std::string& picture) {
  PUMICE_TRY(ordered_json part, read_picture(picture));
  shown_.push_back(std::move(part));
  return {};
}

Status Conversation::play(const std::string& sound) {
  PUMICE_TRY(ordered_json part, read_sound(sound));
  shown_.push_back(std::move(part));
  return {};
}

// Pictures and sounds come before the text, as the models were trained.
ordered_json Conversation::question_message(const std::string& text) const {
  if (shown_.empty()) return {{"role", "user"}, {"content", text}};
  ordered_json parts = shown_;
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(parts)}};
}

Status Conversation::check(const std::string& question, uint32_t context) {
  PUMICE_CHECK(chat().add(question_message(question)));
  set_thinking();
  const Result<ModelChat::Prompt> asked = talk_.prompt(settings_.prefill);
  chat().remove(talk_.messages().size() - 1, 1);
  if (!asked.ok()) return asked.error();
  PUMICE_CHECK(prepare());
  PUMICE_TRY(const TextForm form, talk_.form_of_answer(wanted(), *asked, forms_));
  return check_fits(asked->tokens, context, "the question with its template");
}

Status Conversation::open(OpenedModel opened, const DeviceOptions& device, const SizeOptions& wanted,
                          const std::vector<std::string>& uses) {
  PUMICE_CHECK(prepare());
  PUMICE_TRY(const NamedAdapters adapters, NamedAdapters::load(uses, opened));
  PUMICE_TRY(device_, open_device(device));
  load_ = wanted.load;
  if (wanted.fit && (talk_.has_vision() || talk_.media().hears()))
    PUMICE_CHECK(load_tower()); // before the session takes its memory
  SizeOptions size = wanted;
  PUMICE_TRY(const std::shared_ptr<const Model> model, load_fitting_model(std::move(opened), *device_, size));
  SessionOptions session;
  session.size = session_size(size, model->shape());
  PUMICE_TRY(session.draft_model, load_draft_model(size, *device_, *model));
  session.adapters = adapters.room(1);
  session.shift_positions = settings_.shift;
  Result<std::unique_ptr<Session>> created = Session::create(model, session);
  if (!created.ok() && created.error().code == Code::unsupported &&
      std::exchange(session.shift_positions, false)) {
    print_detail(created.error().message);
    created = Session::create(model, session);
  }
  if (!created.ok()) return with_fit_advice(created.error(), size);
  session_ = std::move(*created);
  return session_->set_adapter(adapters.usual());
}

// Reads the form of answers, once, and says what of the tools' schemas is not held.
Status Conversation::prepare() {
  if (std::exchange(prepared_, true)) return {};
  PUMICE_TRY(form_, read_form(settings_.form));
  if (has_form(form_)) {
    const Result<form::Grammar> parsed = parse_form(form_);
    return parsed.ok() ? Status() : Status(parsed.error());
  }
  const Status held = talk_.check_calls();
  if (!held.ok() && held.error().code == Code::unsupported) print_note(held.error().message);
  return {};
}

Status Conversation::ask(const std::string& question, const AskToForget& forget) {
  ordered_json before = talk_.messages();
  PUMICE_CHECK(chat().add(question_message(question)));
  const Status status = answer(forget);
  if (!status.ok()) PUMICE_CHECK(chat().set_messages(std::move(before)));
  if (status.ok()) shown_.clear();
  return status;
}

Status Conversation::regenerate(const AskToForget& forget) {
  ordered_json before = talk_.messages();
  const size_t last = chat().last_question();
  if (last == before.size()) return Error{Code::invalid_argument, "there is no question to answer again"};
  chat().remove(last + 1, SIZE_MAX);
  ++*settings_.sampling.seed;
  const Status status = answer(forget);
  if (!status.ok()) PUMICE_CHECK(chat().set_messages(std::move(before)));
  return status;
}

Result<std::string> Conversation::take_last_question() {
  const size_t last = chat().last_question();
  if (last == talk_.messages().size()) return Error{Code::invalid_argument, "there is no question to change"};
  std::optional<Question> question = question_of(talk_.messages()[last].value("content", ordered_json()));
  if (!question) {
    return Error{Code::invalid_argument,
                 "the last question is not a text with pictures or sounds, so that no line can hold it"};
  }
  chat().remove(last, SIZE_MAX);
  shown_ = std::move(question->pictures);
  return std::move(question->text);
}

Status Conversation::reset() {
  shown_.clear();
  talk_.media().forget(talk_.messages(), {});
  ordered_json messages = ordered_json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  return chat().set_messages(std::move(messages));
}

Status Conversation::set_system(const std::string& text) {
  system_ = text;
  return reset();
}

Status Conversation::set_variables(const std::string& json) {
  PUMICE_TRY(ordered_json variables, parse_variables(json));
  chat().set_variables(std::move(variables));
  return {};
}

Status Conversation::save(const std::filesystem::path& path) {
  ordered_json saved;
  PUMICE_TRY(saved["messages"], talk_.media().with_urls(talk_.messages()));
  // A text that was cut within a character has a mark there.
  const std::string text = saved.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
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
  if (const Status media = read_media(file["messages"]); !media.ok()) return named(media.error());
  ordered_json before = talk_.messages();
  PUMICE_CHECK(chat().set_messages(file["messages"]));
  set_thinking();
  if (const Result<ModelChat::Prompt> rendered = talk_.prompt(); !rendered.ok()) {
    PUMICE_CHECK(chat().set_messages(std::move(before)));
    return named(rendered.error());
  }
  shown_.clear();
  system_.clear();
  const ordered_json& messages = talk_.messages();
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
                  counted(talk_.messages().size(), "message"), counted(read_, "token"), reused_, answered_);
  text += fmt::format("context: {} of {} tokens\n", context_used_, session_->size().context);
  const SamplingParams& params = settings_.sampling.params;
  text +=
      fmt::format("settings: temp {}, top-k {}, top-p {}, min-p {}, seed {}, count {}, thinking {}\n",
                  params.temperature, params.top_k, params.top_p, params.min_p, *settings_.sampling.seed,
                  settings_.count ? std::to_string(settings_.count) : "-1 (no limit)", settings_.thinking);
  return text;
}

void Conversation::set_thinking() {
  chat().ask_for_thinking(settings_.thinking == "off" ? std::optional(false) : std::nullopt);
}

// Forgets the oldest turns, if they may be, until there is room for an answer.
Result<ModelChat::Prompt> Conversation::prompt_with_room(const AskToForget& forget) {
  const uint32_t context = session_->size().context;
  set_thinking();
  PUMICE_TRY(ModelChat::Room room, talk_.make_room(context, settings_.count, settings_.prefill));
  PUMICE_CHECK(check_fits(room.prompt.tokens, context, "the question with its template"));
  if (room.forgotten == 0) return std::move(room.prompt);
  if (!forget) return room.before.error();
  if (!forget(fmt::format("{}. Forget the oldest {}?", room.before.error().message,
                          counted(room.forgotten, "message")))) {
    return Error{Code::invalid_argument,
                 "the question was not asked; /reset begins again, /save FILE keeps what was said"};
  }
  return std::move(room.prompt);
}

Status Conversation::load_tower() {
  if (tower_) return {};
  PUMICE_TRY(tower_, load_picture_tower(tower_path_, *talk_.picture_tokens(), *device_, load_));
  return {};
}

// Runs the model's tower for pictures and sounds that are new.
Status Conversation::encode(const MediumParts& parts) {
  for (const std::shared_ptr<MediumPart>& each : parts) {
    if (each->encoded()) continue;
    PUMICE_CHECK(load_tower());
    while (!each->prepare(std::chrono::steady_clock::now() + between_looks)) {
      if (interrupted()) return interruption();
    }
    PUMICE_TRY(std::vector<std::vector<float>> rows, tower_->rows(std::span(&each->input, 1)));
    each->rows = std::move(rows.front());
    each->input = {};
  }
  return {};
}

void Conversation::print_answer(const ChatAnswer& answer, size_t prompt_tokens,
                                const char* finish_reason) const {
  const Answered& answered = answer.answered();
  Json json = {{"content", answered.content}, {"thinking", answered.thinking}};
  json["tool_calls"] = Json::array();
  for (const ToolCall& call : answered.tool_calls) {
    Json& each = json["tool_calls"].emplace_back(Json{{"name", call.name}, {"arguments", call.arguments}});
    if (!call.id.empty()) each["id"] = call.id;
  }
  json["finish_reason"] = finish_reason;
  json["prompt_tokens"] = prompt_tokens;
  json["reused_tokens"] = session_->reused();
  json["tokens"] = answer.tokens();
  json["seed"] = sampling_.seed;
  print_json(json);
}

Status Conversation::answer(const AskToForget& forget) {
  PUMICE_TRY(const ModelChat::Prompt asked, prompt_with_room(forget));
  return answer_prompt(asked);
}

Status Conversation::answer_prompt(const ModelChat::Prompt& prompt) {
  const ComputeWatch prefill;
  ProgressBar bar("reading");
  bar.update(0, prompt.tokens);
  const Progress progress = prompt.tokens > session_->size().chunk ? bar.callback() : Progress();
  PUMICE_TRY(sampling_, settings_.sampling.resolved(*chat().tokenizer()));
  PUMICE_TRY(TextForm form, talk_.form_of_answer(wanted(), prompt, forms_));
  if (form.form) sampling_.stop_tokens.assign(chat().ends().begin(), chat().ends().end());
  PUMICE_CHECK(encode(prompt.media));
  PUMICE_TRY(PicturePrompt read, talk_.with_rows(prompt));
  PUMICE_CHECK(
      session_->set_prompt(read.tokens, sampling_, progress, std::move(read.embeddings), std::move(form)));
  const uint32_t reused = session_->reused(), context = session_->size().context;
  AnswerPrinter printer(settings_.thinking == "show");
  ArrivingAnswer answer(chat(), prompt.text, settings_.stops);
  const auto print = [&](const std::vector<AnswerPart>& parts) {
    if (!settings_.json) printer.print(parts);
  };
  const char* reason = "interrupted";
  size_t count = 0;
  double first = 0;
  std::optional<ComputeWatch> decoding;
  const char* cut = nullptr;
  while (!interrupted()) {
    if (prompt.tokens + count >= context) cut = "the context is full";
    if (settings_.count != 0 && count >= settings_.count) cut = "it has as many tokens as 'count' allows";
    if (cut) reason = prompt.tokens + count >= context ? "context" : "count";
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
    if (std::ranges::count(chat().ends(), *token)) {
      reason = "stop token";
      break;
    }
    print(answer.push(*token));
    if (answer.stopped()) {
      reason = "stop string";
      break;
    }
  }
  bar.erase();
  session_->end_at(prompt.tokens + count); // what was computed ahead is no part of the answer
  if (count == 0 && interrupted()) return interruption();
  print(answer.finish());
  if (settings_.json) {
    print_answer(answer.answer(), prompt.tokens, reason);
  } else {
    printer.finish();
  }
  thinking_ = answer.answer().answered().thinking;
  answer.answer().add_to(chat());
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
