#include "api/chat.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "api/input.h"
#include "api/vision.h"
#include "base/guarded.h"
#include "io/json_text.h"
#include "media/image.h"
#include "model/vocabulary.h"
#include "text/unicode/unicode.h"

using namespace pumice;
using namespace pumice::api;
using nlohmann::ordered_json;

namespace pumice::api {

Status SharedChat::check_idle() const {
  if (!answering) return {};
  return Error{Code::not_ready, "the chat is being answered: wait for the end of the answer, or cancel it"};
}

OpenAnswer::OpenAnswer(std::shared_ptr<SharedChat> chat, const ChatPrompt& prompt,
                       std::vector<std::string> stops)
    : chat_(std::move(chat)), answer_(chat_->talk.chat(), prompt, std::move(stops)) {
  chat_->answering = true;
}

OpenAnswer::~OpenAnswer() {
  chat_->answering = false;
  if (!complete_ && answer_.answer().tokens() == 0) return;
  (void)guarded([&] {
    (void)answer_.finish();
    answer_.answer().add_to(chat_->talk.chat());
  });
}

Result<std::tm> read_time(int64_t local_time) {
  constexpr int64_t most = 253'402'300'799; // the end of the year 9999
  if (local_time < 0 || local_time > most) {
    return Error{Code::invalid_argument,
                 fmt::format("options.local_time is {}: expected 0 to {}, in seconds", local_time, most)};
  }
  return fmt::gmtime(local_time ? static_cast<std::time_t>(local_time) : std::time(nullptr));
}

} // namespace pumice::api

namespace {

Error wrong(const std::string& name, const char* what) {
  return {Code::invalid_argument, fmt::format("{} {}", name, what)};
}

// What the caller hands in as JSON.
Result<ordered_json> read_json(const char* text, const std::string& name) {
  Result<ordered_json> value = parse_ordered_json(text, name);
  if (!value.ok()) return Error{Code::invalid_argument, value.error().message};
  return value;
}

Status read_text(const char* text, const std::string& name, ordered_json& to) {
  if (!text::is_valid_utf8(text)) return wrong(name, "is not UTF-8");
  to = text;
  return {};
}

Status check_tools(const ordered_json& tools, const std::string& name) {
  return tools.is_array() ? Status() : Status(wrong(name, "is not a list of tools"));
}

// The members of the application's object, which are not there twice.
Status add_members(ordered_json members, const std::string& name, ordered_json& to) {
  if (!members.is_object()) return wrong(name, "is not an object");
  for (const auto& [key, value] : members.items()) {
    if (to.contains(key))
      return wrong(name, fmt::format("has '{}', which has a field of its own", key).c_str());
    to[key] = value;
  }
  return {};
}

Result<ordered_json> show(const pumice_picture& picture, const std::string& name, ChatMedia& media) {
  PUMICE_CHECK(check_picture(picture, name));
  if (const Status vision = media.check_vision(); !vision.ok())
    return Error{vision.error().code, fmt::format("{}: {}", name, vision.error().message)};
  if (picture.file)
    return media.show({static_cast<const std::byte*>(picture.file), picture.file_bytes}, name);
  PUMICE_TRY(Image image, image_of_pixels(Pixels(picture), name));
  return media.show(std::move(image), name);
}

Result<ordered_json> play(const pumice_sound& sound, const std::string& name, ChatMedia& media) {
  if (const Status hearing = media.check_hearing(); !hearing.ok())
    return Error{hearing.error().code, fmt::format("{}: {}", name, hearing.error().message)};
  PUMICE_TRY(std::vector<float> samples, read_samples({sound.samples, sound.count}, sound.rate,
                                                      media.sound()->spectrum.sample_rate, name + "."));
  return media.play(std::move(samples), name);
}

// The pictures and sounds of a message, and its text behind them, as the models were trained.
Status read_parts(const pumice_message& message, ChatMedia& media, ordered_json& parts) {
  parts = ordered_json::array();
  const auto add_all = [&](const auto* given, size_t count, const std::string& array, auto take) -> Status {
    PUMICE_CHECK(check_array(given, count, sizeof *given, array));
    for (size_t i = 0; i < count; ++i) {
      PUMICE_TRY(const auto each, read_element(given, i, array.c_str()));
      PUMICE_TRY(ordered_json part, take(each, fmt::format("{}[{}]", array, i), media));
      parts.push_back(std::move(part));
    }
    return {};
  };
  PUMICE_CHECK(add_all(message.pictures, message.picture_count, "message.pictures", show));
  PUMICE_CHECK(add_all(message.sounds, message.sound_count, "message.sounds", play));
  if (message.content) {
    ordered_json text = {{"type", "text"}};
    PUMICE_CHECK(read_text(message.content, "message.content", text["text"]));
    parts.push_back(std::move(text));
  }
  return {};
}

Status read_message(const pumice_message& message, const Chat& chat, ChatMedia& media, ordered_json& json) {
  if (!message.role) return null_argument("message.role");
  PUMICE_CHECK(read_text(message.role, "message.role", json["role"]));
  if (message.picture_count > 0 || message.sound_count > 0) {
    PUMICE_CHECK(read_parts(message, media, json["content"]));
  } else if (message.content) {
    PUMICE_CHECK(read_text(message.content, "message.content", json["content"]));
  }
  if (message.thinking)
    PUMICE_CHECK(read_text(message.thinking, "message.thinking", json[chat.thinking_member()]));
  if (message.tool_calls) {
    PUMICE_TRY(json["tool_calls"], read_json(message.tool_calls, "message.tool_calls"));
    if (!json["tool_calls"].is_array()) return wrong("message.tool_calls", "is not a list of calls");
  }
  if (message.members) {
    PUMICE_TRY(ordered_json members, read_json(message.members, "message.members"));
    PUMICE_CHECK(add_members(std::move(members), "message.members", json));
  }
  if (!json.contains("content")) json["content"] = ""; // most templates read it
  return {};
}

Result<ordered_json> read_variables(const pumice_chat_options& options) {
  ordered_json variables = ordered_json::object();
  if (options.tools) {
    PUMICE_TRY(variables["tools"], read_json(options.tools, "options.tools"));
    PUMICE_CHECK(check_tools(variables["tools"], "options.tools"));
  }
  if (!options.variables) return variables;
  PUMICE_TRY(ordered_json more, read_json(options.variables, "options.variables"));
  for (const char* reserved : {"messages", "tools", "add_generation_prompt"}) {
    if (more.is_object() && more.contains(reserved)) {
      return wrong("options.variables", fmt::format("has '{}', which is not for it", reserved).c_str());
    }
  }
  PUMICE_CHECK(add_members(std::move(more), "options.variables", variables));
  return variables;
}

Result<ChatTemplate> read_template(const pumice_chat_options& options, const ModelFile& file,
                                   bool with_tools) {
  PUMICE_TRY(const ChatTemplates templates, ChatTemplates::of(file));
  if (options.template_text && options.template_name) {
    return wrong("options", "has a template_text and a template_name: set one of them");
  }
  if (options.template_text) {
    Result<ChatTemplate> parsed = templates.parse(options.template_text, "options.template_text");
    if (!parsed.ok()) return Error{Code::invalid_argument, parsed.error().message};
    return parsed;
  }
  if (templates.empty() && !options.template_name) {
    return Error{
        Code::not_found,
        fmt::format("{}: there is no chat template in it, so it is probably not made for chats: go on "
                    "with a text without a chat, or set options.template_text",
                    file.path())};
  }
  return templates.choose(options.template_name ? options.template_name : "", with_tools);
}

Result<std::optional<bool>> read_thinking(const pumice_thinking& thinking) {
  switch (number_in(thinking)) {
  case PUMICE_THINKING_DEFAULT:
    return std::optional<bool>();
  case PUMICE_THINKING_OFF:
    return std::optional(false);
  case PUMICE_THINKING_ON:
    return std::optional(true);
  }
  return Error{Code::invalid_argument,
               fmt::format("options.thinking is {}: expected one of pumice_thinking", number_in(thinking))};
}

Result<std::unique_ptr<pumice_chat>> make_chat(const pumice_model& model,
                                               const pumice_chat_options& options) {
  PUMICE_CHECK(check_decoder(model, "a chat"));
  PUMICE_CHECK(require_tokenizer(model.tokenizer.get(), *model.model));
  PUMICE_TRY(ordered_json variables, read_variables(options));
  PUMICE_TRY(const std::tm now, read_time(options.local_time));
  PUMICE_TRY(const std::optional<bool> thinking, read_thinking(options.thinking));
  const bool with_tools = variables.contains("tools") && !variables["tools"].empty();
  const ModelFile& file = model.model->file();
  PUMICE_TRY(ChatTemplate chosen, read_template(options, file, with_tools));
  ModelChatOptions chat_options{now, most_patches_in_session,
                                "set options.template_text or template_name of the chat"};
  PUMICE_TRY(ModelChat talk,
             ModelChat::open(file, model.model->shape(), std::move(chosen), model.tokenizer, chat_options));
  talk.chat().set_variables(std::move(variables));
  talk.chat().ask_for_thinking(thinking);
  if (options.thinking_marks) {
    if (const Status set = talk.chat().set_thinking_marks(options.thinking_marks); !set.ok())
      return Error{set.error().code, "options.thinking_marks: " + set.error().message};
  }
  if (options.keep_pictures > 1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.keep_pictures is {}: expected 0 or 1", options.keep_pictures)};
  }
  if (options.keep_pictures) {
    if (const Result<std::vector<std::byte>> files = png_bytes({1, 1, {0, 0, 0}}); !files.ok())
      return Error{files.error().code, "options.keep_pictures is 1, and " + files.error().message};
    talk.media().keep_files();
  }
  auto handle = std::make_unique<pumice_chat>();
  handle->shared = std::make_shared<SharedChat>(SharedChat{std::move(talk), model.model->identity()});
  return handle;
}

Status add_message(const pumice_message& message, ModelChat& talk) {
  ordered_json json;
  Status added = read_message(message, talk.chat(), talk.media(), json);
  if (added.ok()) added = talk.chat().add(json);
  if (!added.ok()) talk.forget_media(ordered_json::array({json}));
  return added;
}

// As written by write_chat(), or by hand.
Status read_chat(ordered_json file, ModelChat& talk) {
  if (const Status status = check_messages(file); !status.ok())
    return Error{status.error().code, "json: " + status.error().message};
  if (file.contains("tools")) PUMICE_CHECK(check_tools(file["tools"], "json: 'tools'"));
  PUMICE_CHECK(talk.media().show_urls(file["messages"], "json: messages"));
  ordered_json variables = talk.chat().variables();
  for (const auto& [name, value] : file.items()) {
    if (name != "messages" && name != "add_generation_prompt") variables[name] = value;
  }
  PUMICE_CHECK(talk.chat().set_messages(file["messages"]));
  talk.chat().set_variables(std::move(variables));
  return {};
}

Result<std::string> written(ModelChat& talk) {
  ordered_json file;
  PUMICE_TRY(file["messages"], talk.media().with_urls(talk.messages()));
  file.update(talk.chat().variables());
  return file.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

extern "C" {

pumice_status pumice_chat_create(pumice_model* model, const pumice_chat_options* caller_options,
                                 pumice_chat** chat, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(chat);
    *chat = nullptr;
    PUMICE_TRY(const pumice_chat_options options, read(caller_options, "options"));
    PUMICE_TRY(std::unique_ptr<pumice_chat> made, make_chat(*model, options));
    *chat = made.release();
    return {};
  });
}

void pumice_chat_destroy(pumice_chat* chat) {
  destroy_live(chat);
}

pumice_status pumice_chat_add(pumice_chat* chat, const pumice_message* message, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_REQUIRE(message);
    PUMICE_TRY(const pumice_message added, read(message, "message"));
    PUMICE_CHECK(chat->shared->check_idle());
    return add_message(added, chat->shared->talk);
  });
}

size_t pumice_chat_count(const pumice_chat* chat) {
  return is_live(chat) ? chat->shared->talk.messages().size() : 0;
}

pumice_status pumice_chat_remove(pumice_chat* chat, size_t first, size_t count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_CHECK(chat->shared->check_idle());
    const size_t all = pumice_chat_count(chat);
    if (first > all || count > all - first) {
      return Error{Code::invalid_argument,
                   fmt::format("first is {} and count is {}: the chat has {} messages", first, count, all)};
    }
    const ordered_json before = chat->shared->talk.messages();
    chat->shared->talk.chat().remove(first, count);
    chat->shared->talk.forget_media(before);
    return {};
  });
}

pumice_status pumice_chat_forget(pumice_chat* chat, size_t* removed, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_CHECK(chat->shared->check_idle());
    const ordered_json before = chat->shared->talk.messages();
    const size_t count = chat->shared->talk.chat().forget_oldest_turn();
    chat->shared->talk.forget_media(before);
    if (removed) *removed = count;
    if (count) return {};
    return Error{Code::not_found, "the chat has one turn alone: there is nothing older to forget"};
  });
}

pumice_status pumice_chat_read(pumice_chat* chat, const char* json, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_REQUIRE(json);
    PUMICE_CHECK(chat->shared->check_idle());
    PUMICE_TRY(ordered_json file, read_json(json, "json"));
    return read_chat(std::move(file), chat->shared->talk);
  });
}

pumice_status pumice_chat_write(const pumice_chat* chat, char* json, size_t capacity, size_t* count,
                                pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_CHECK(check_array(json, capacity, 1, "json"));
    PUMICE_TRY(const std::string file, written(chat->shared->talk));
    hand_out(file, json, capacity, count);
    return {};
  });
}

pumice_status pumice_chat_check_calls(const pumice_chat* chat, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    return chat->shared->talk.check_calls();
  });
}

pumice_status pumice_chat_add_picture(pumice_chat* chat, const pumice_picture* picture, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_REQUIRE(picture);
    PUMICE_CHECK(chat->shared->check_idle());
    PUMICE_TRY(const pumice_picture added, read(picture, "picture"));
    const Result<ordered_json> part = show(added, "picture", chat->shared->talk.media());
    return part.ok() ? Status() : Status(part.error());
  });
}

pumice_status pumice_chat_add_sound(pumice_chat* chat, const pumice_sound* sound, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_REQUIRE(sound);
    PUMICE_CHECK(chat->shared->check_idle());
    PUMICE_TRY(const pumice_sound added, read(sound, "sound"));
    const Result<ordered_json> part = play(added, "sound", chat->shared->talk.media());
    return part.ok() ? Status() : Status(part.error());
  });
}

pumice_status pumice_chat_prompt(const pumice_chat* chat, char* text, size_t capacity, size_t* count,
                                 pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(chat);
    PUMICE_CHECK(check_array(text, capacity, 1, "text"));
    ModelChat& talk = chat->shared->talk;
    PUMICE_TRY(const ChatPrompt prompt, talk.chat().prompt(talk.media().places(talk.messages())));
    hand_out(prompt.text, text, capacity, count);
    return {};
  });
}

} // extern "C"
