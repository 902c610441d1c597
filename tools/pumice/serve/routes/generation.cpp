#include "serve/routes/generation.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/path.h"
#include "io/json_text.h"
#include "serve/routes/request_media.h"
#include "shaders/sampling/sampling.params.h"
#include "step/check_tokens.h"
#include "text/chat/argument_types.h"
#include "text/chat/message_pictures.h"

namespace pumice::serve {

namespace {

// Whether a last message is what an answer begins with.
bool begins_answer(const Json& message) {
  return message.value("role", "") == "assistant" && !message.contains("tool_calls") &&
         message.contains("content") && message["content"].is_string() &&
         !message["content"].get_ref<const std::string&>().empty();
}

Status check_room(size_t prompt, const TextModel&, uint32_t context) {
  if (prompt + 1 <= context) return {};
  return Error{Code::context_full,
               fmt::format("{}: the prompt has {} tokens, and the context of this server has room for {} "
                           "with the answer",
                           request_name, prompt, context)};
}

// The tokens that end a text; `usual` are the model's own.
Result<std::vector<uint32_t>> read_ends(const TextWish& wish, const TextForm& form,
                                        std::span<const uint32_t> usual) {
  if (wish.ignores_ends && form.form && !form.lenient)
    return bad_field("ignore_eos", "does not go with a form of the answer, which ends where its form does");
  std::vector<uint32_t> ends = wish.stop_tokens;
  if (!wish.ignores_ends) ends.insert(ends.end(), usual.begin(), usual.end());
  if (ends.size() > SAMPLING_STOPS)
    return bad_field("stop_token_ids",
                     fmt::format("expected at most {} tokens, with the model's own; found {}", SAMPLING_STOPS,
                                 ends.size()));
  return ends;
}

// {"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}}, as both interfaces of OpenAI
// have it, or with a data URL; and {"type": "audio_url", "audio_url": {"url": URL}}. The bytes say their
// format.
Result<Json> read_sound_part(const Json& part, const std::string& place) {
  const bool by_url = part.contains("audio_url");
  const char* const name = by_url ? "audio_url" : "input_audio";
  const Json given = part.value(name, Json());
  if (!given.is_object()) return bad_field(fmt::format("{}.{}", place, name), "expected an object");
  const char* const inner = by_url ? "url" : "data";
  const std::string field = fmt::format("{}.{}.{}", place, name, inner);
  const Json data = given.value(inner, Json());
  const bool url = by_url || (data.is_string() && data.get_ref<const std::string&>().starts_with("data:"));
  PUMICE_TRY(const std::string bytes, url ? read_data_url(data, field) : read_base64(data, field));
  return sound_part(bytes, field);
}

// A part that is a picture or a sound, as sound_part() and picture_part() make it; null: it is another one.
Result<Json> read_medium(Json part, const std::string& place) {
  if (is_medium_part(part)) return part;
  const Json type = part.value("type", Json());
  if (const std::optional<PictureUrl> picture = picture_url_in(part)) {
    const std::string field = place + picture->member;
    PUMICE_TRY(const std::string bytes, read_data_url(picture->url, field));
    return picture_part(bytes, field);
  }
  if (type == "input_audio" || type == "audio_url") return read_sound_part(part, place);
  return Json();
}

// A content that is a list of parts: its text, or where there are others a list of these and of texts.
Result<Json> read_parts(Json parts, const std::string& field) {
  Json list = Json::array();
  std::string text;
  bool media = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", field, i);
    if (!parts[i].is_object()) return bad_field(place, "expected an object with a 'type'");
    const Json type = parts[i].value("type", Json());
    PUMICE_TRY(Json medium, read_medium(parts[i], place));
    if (!medium.is_null()) {
      media = true;
      list.push_back(std::move(medium));
      continue;
    }
    if (type != "text" && type != "input_text" && type != "output_text") {
      return bad_field(place + ".type", fmt::format("is {}: this server reads text, pictures and sounds",
                                                    type.is_string() ? type.dump() : "none"));
    }
    const Json piece = parts[i].value("text", Json());
    if (!piece.is_string()) return bad_field(place + ".text", "expected a string");
    text += piece.get<std::string>();
    const bool follows = !list.empty() && list.back().contains("text");
    if (follows)
      list.back()["text"] = list.back()["text"].get<std::string>() + piece.get<std::string>();
    else
      list.push_back({{"type", "text"}, {"text", piece}});
  }
  return media ? list : Json(text);
}

// unsupported, with the model's name, for a picture or a sound that it does not read.
Status check_medium(const TextModel& model, const ChatMedia& media, bool sound, const std::string& field) {
  if (sound ? media.hears() : media.has_vision()) return {};
  const char* const reads = media.hears()        ? "text and sounds"
                            : media.has_vision() ? "text and pictures"
                                                 : "text";
  return Error{Code::unsupported,
               fmt::format("{}: {} reads {} alone: choose a model that {}, which /v1/models shows as '{}'",
                           request_field(field), path_text(path_of(model.file().path()).filename()), reads,
                           sound ? "hears" : "sees", sound ? "audio" : "vision")};
}

// The chat has the pictures and sounds of its messages.
Status take_media(const TextModel& model, ModelChat& chat, Json& messages) {
  ChatMedia& media = chat.media();
  const uint32_t rate = media.hears() ? media.sound()->spectrum.sample_rate : 0;
  size_t count = 0, left = size_t{most_sound_minutes} * 60 * rate; // samples
  return for_each_medium(messages, [&](size_t, Json& part) -> Status {
    const std::string field = part["field"];
    const bool sound = part["type"] == "audio";
    PUMICE_CHECK(check_medium(model, media, sound, field));
    if (++count > most_pictures)
      return bad_field(field,
                       fmt::format("expected at most {} {}", most_pictures, sound ? "sounds" : "pictures"));
    const std::vector<uint8_t>& bytes = part["bytes"].get_binary();
    if (sound) {
      PUMICE_TRY(std::vector<float> samples, read_sound({bytes.begin(), bytes.end()}, rate, left, field));
      left -= samples.size();
      PUMICE_TRY(part, media.play(std::move(samples), request_field(field)));
      return {};
    }
    PUMICE_TRY(Image image, read_picture(std::as_bytes(std::span(bytes)), field));
    PUMICE_TRY(part, media.show(std::move(image), request_field(field)));
    // Prepared at once, so that the pixels of one picture at a time are in memory.
    Json shown = {{"content", Json::array({part})}};
    PUMICE_TRY(const MediumParts parts, media.shown_by(Json::array({std::move(shown)})));
    for (const std::shared_ptr<MediumPart>& each : parts) (void)each->prepare();
    return {};
  });
}

// Arguments of calls are JSON in a string there, and objects for templates. The result of a call has the name
// of its tool, which some templates read.
Status read_calls(Json& message, const std::string& field,
                  std::vector<std::pair<std::string, std::string>>& calls) {
  Json& list = message["tool_calls"];
  if (list.is_null()) {
    message.erase("tool_calls");
    return {};
  }
  if (!list.is_array()) return bad_field(field + ".tool_calls", "expected a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}.tool_calls[{}]", field, i);
    const auto function = list[i].is_object() ? list[i].find("function") : list[i].end();
    if (!list[i].is_object() || function == list[i].end() || !function->is_object() ||
        !function->value("name", Json()).is_string())
      return bad_field(place, "expected an object with a 'function' that has a 'name'");
    if (const Json arguments = function->value("arguments", Json()); arguments.is_string()) {
      Result<Json> parsed = parse_ordered_json(arguments.get_ref<const std::string&>(), place);
      if (parsed.ok() && parsed->is_object())
        (*function)["arguments"] = *std::move(parsed);
      else if (arguments.get_ref<const std::string&>().empty())
        (*function)["arguments"] = Json::object();
    }
    if (const Json id = list[i].value("id", Json()); id.is_string())
      calls.emplace_back(id.get<std::string>(), (*function)["name"].get<std::string>());
  }
  return {};
}

} // namespace

Result<Json> read_messages(Json messages) {
  if (!messages.is_array() || messages.empty())
    return bad_field("messages", "expected a list with a message");
  std::vector<std::pair<std::string, std::string>> calls; // their ids and names
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) return bad_field(field, "expected an object with a 'role'");
    Json& message = messages[i];
    const Json role = message.value("role", Json());
    if (!role.is_string()) return bad_field(field + ".role", "expected a string");
    if (role == "developer") message["role"] = "system";
    Json& content = message["content"];
    if (content.is_null()) content = "";
    if (content.is_array()) {
      PUMICE_TRY(content, read_parts(std::move(content), field + ".content"));
    } else if (!content.is_string()) {
      return bad_field(field + ".content", "expected a string or a list of parts");
    }
    if (message.contains("tool_calls")) PUMICE_CHECK(read_calls(message, field, calls));
    if (const Json id = message.value("tool_call_id", Json()); id.is_string() && !message.contains("name")) {
      const auto call =
          std::ranges::find(calls, id.get<std::string>(), &std::pair<std::string, std::string>::first);
      if (call != calls.end()) message["name"] = call->second;
    }
  }
  return messages;
}

Status read_tools(const RequestBody& body, ChatWish& wish) {
  const Json& tools = body["tools"];
  if (tools.is_null() || (tools.is_array() && tools.empty())) return {};
  if (!tools.is_array()) return bad_field("tools", "expected a list");
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json function = tools[i].is_object() ? tools[i].value("function", Json()) : Json();
    const Json name = function.is_object() ? function.value("name", Json()) : Json();
    if (!name.is_string())
      return bad_field(fmt::format("tools[{}]", i), "expected an object with a 'function' that has a 'name'");
  }
  wish.variables["tools"] = tools;
  const Json& choice = body["tool_choice"];
  if (choice.is_null()) return {};
  if (choice == "auto" || choice == "none" || choice == "required") {
    wish.tool_choice = choice;
    return {};
  }
  const Json function = choice.is_object() ? choice.value("function", Json()) : Json();
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  if (!name.is_string() || !text::find_tool(tools, name.get<std::string>())) {
    return bad_field("tool_choice", "expected auto, none, required, or the name of one of the tools, as in "
                                    "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}");
  }
  wish.tool_choice = name;
  return {};
}

Result<std::unique_ptr<Generation>> Generation::of_chat(TextModel& model, ChatWish wish) {
  PUMICE_TRY(ModelChat chat, model.chat(wish.variables.contains("tools")));
  chat.chat().set_variables(std::move(wish.variables));
  chat.chat().ask_for_thinking(wish.thinking);
  std::string begun;
  if (begins_answer(wish.messages.back())) {
    begun = wish.messages.back()["content"];
    wish.messages.erase(wish.messages.size() - 1);
  }
  PUMICE_CHECK(take_media(model, chat, wish.messages));
  PUMICE_CHECK(chat.chat().set_messages(std::move(wish.messages)));
  Result<ModelChat::Prompt> prompt = chat.prompt(std::move(begun));
  if (!prompt.ok()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: {}", request_field("messages"), prompt.error().text())};
  }
  const std::vector<uint32_t>& ids = prompt->text.ids;
  PUMICE_CHECK(check_room(prompt->tokens, model, model.scheduler().context()));
  Result<TextForm> form =
      chat.form_of_answer({std::move(wish.text.form), std::move(wish.tool_choice)}, *prompt, model.forms());
  if (!form.ok())
    return Error{Code::invalid_argument, fmt::format("{}: {}", request_name, form.error().text())};
  PUMICE_TRY(const std::vector<uint32_t> ends, read_ends(wish.text, *form, chat.chat().ends()));
  std::unique_ptr<Generation> generation(new Generation(model));
  generation->prompt_tokens_ = prompt->tokens;
  for (uint32_t i = 0; i < wish.text.count; ++i) {
    Text& text = generation->texts_.emplace_back();
    text.answer.emplace(chat.chat(), prompt->text, wish.text.stops);
    text.skip = prompt->text.begun.size();
    text.request.prompt = ids;
    text.request.sampling = wish.text.sampling;
    text.request.sampling.seed += i;
    text.request.sampling.stop_tokens = ends;
    text.request.max_tokens = wish.text.max_tokens;
    text.request.form = *form;
    text.request.form_begin = ids.size();
    text.request.adapter = wish.text.adapter;
  }
  if (!prompt->media.empty()) generation->seen_.emplace(std::move(chat), *std::move(prompt));
  return generation;
}

Result<std::unique_ptr<Generation>>
Generation::of_prompts(TextModel& model, std::vector<std::vector<uint32_t>> prompts, const TextWish& wish) {
  TextForm form;
  if (has_form(wish.form)) {
    PUMICE_TRY(form.form, Form::create(wish.form, model.forms().get()));
  }
  PUMICE_TRY(const std::vector<uint32_t> ends, read_ends(wish, form, model.ends()));
  std::unique_ptr<Generation> generation(new Generation(model));
  for (const std::vector<uint32_t>& prompt : prompts) {
    if (prompt.empty()) return bad_field("prompt", "it has no tokens");
    PUMICE_CHECK(check_ids(prompt, model.shape().vocabulary, request_field("prompt")));
    PUMICE_CHECK(check_room(prompt.size(), model, model.scheduler().context()));
    generation->prompt_tokens_ += prompt.size();
    for (uint32_t i = 0; i < wish.count; ++i) {
      Text& text = generation->texts_.emplace_back();
      text.plain.emplace(model.tokenizer(), prompt, wish.stops);
      text.request.prompt = prompt;
      text.request.sampling = wish.sampling;
      text.request.sampling.seed += i;
      text.request.sampling.stop_tokens = ends;
      text.request.max_tokens = wish.max_tokens;
      text.request.form = form;
      text.request.form_begin = prompt.size();
      text.request.adapter = wish.adapter;
    }
  }
  return generation;
}

// The client has what it began an answer with.
void Generation::hand_out(Text& text, size_t index, const std::vector<AnswerPart>& parts, TextTaker& taker) {
  for (const AnswerPart& part : parts) {
    if (text.skip == 0 || part.kind == AnswerPart::Kind::tool_call) {
      taker.part(index, part);
      continue;
    }
    AnswerPart rest = part;
    const size_t cut = std::min(text.skip, rest.text.size());
    rest.text.erase(0, cut);
    text.skip -= cut;
    if (!rest.text.empty()) taker.part(index, rest);
  }
}

void Generation::take(Text& text, size_t index, const BatchToken& token, TextTaker& taker, Texts& texts) {
  if (text.ended) return;
  ++text.tokens;
  slot_->tokens = ++tokens_;
  if (key_) key_->add_tokens(1);
  if (text.tokens == 1) reused_tokens_ += token.reused;
  bool stopped = false;
  if (token.finish_reason != FinishReason::stop) {
    if (text.request.sampling.log_probabilities) taker.token(index, token.log_probabilities);
    if (text.plain) {
      taker.text(index, text.plain->push(token.token));
      stopped = text.plain->stopped();
    } else {
      hand_out(text, index, text.answer->push(token.token), taker);
      stopped = text.answer->stopped();
    }
  }
  if (!stopped && token.finish_reason == FinishReason::none) return;
  text.ended = true;
  ++ended_;
  if (text.plain)
    taker.text(index, text.plain->finish());
  else
    hand_out(text, index, text.answer->finish(), taker);
  texts.stop(index);
  taker.end(index, {stopped                                     ? TextEnd::Reason::stop_string
                    : token.finish_reason == FinishReason::stop ? TextEnd::Reason::stop
                                                                : TextEnd::Reason::length,
                    text.tokens});
}

Status Generation::see(Exchange& exchange) {
  auto& [chat, prompt] = *seen_;
  PUMICE_CHECK(model_.encode(prompt.media, exchange));
  PUMICE_TRY(const PicturePrompt read, chat.with_rows(prompt));
  for (Text& text : texts_) {
    text.request.prompt = read.tokens;
    text.request.embeddings = read.embeddings;
    text.request.form_begin = read.tokens.size();
  }
  seen_.reset();
  return {};
}

Status Generation::start(Slots& slots, const std::string& model, Exchange& exchange) {
  if (seen_) PUMICE_CHECK(see(exchange));
  std::vector<SequenceRequest> requests;
  for (Text& text : texts_) {
    requests.push_back(std::move(text.request));
    text.request.sampling.log_probabilities = requests.back().sampling.log_probabilities;
  }
  PUMICE_TRY(running_, model_.scheduler().add(std::move(requests)));
  slot_ = slots.open(model, exchange.request().path, running_, prompt_tokens_);
  key_ = exchange.request().key;
  if (key_) key_->add_tokens(prompt_tokens_);
  return {};
}

Status Generation::run(Exchange& exchange, TextTaker& taker) {
  constexpr double patience = 10; // seconds until the client is looked for again
  exchange.when_gone([texts = running_] { texts->stop_all(); });
  const auto work = [&]() -> Status {
    while (ended_ < texts_.size() && !running_->ended()) {
      PUMICE_TRY(const std::optional<Texts::Token> token, running_->next(patience));
      if (token) take(texts_[token->text], token->text, token->token, taker, *running_);
      const bool listens = !token || taker.flush();
      if (!listens || exchange.gone()) return Error{Code::cancelled, "the client is gone"};
    }
    return {};
  };
  const Status status = work();
  running_->stop_all();
  exchange.when_gone({});
  return status;
}

} // namespace pumice::serve
