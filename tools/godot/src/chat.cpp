#include "chat.h"

#include <algorithm>
#include <chrono>

#include "wait.h"

namespace godot {

namespace {

constexpr uint32_t hint_range = 1, hint_enum = 2, hint_resource = 17, hint_multiline = 18; // of PropertyHint

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

} // namespace

Chat::Settings Chat::settings() {
  const auto number = [&](const char* name) { return static_cast<float>(value(name).number()); };
  const auto count = [&](const char* name) { return static_cast<uint32_t>(value(name).integer()); };
  Settings settings;
  settings.model = Model::load(value("model"));
  settings.system_prompt = value("system_prompt").text();
  settings.chat_template = value("chat_template").text();
  settings.choices = value("choices").texts();
  settings.schema = value("schema").text();
  settings.regex = value("regex").text();
  settings.grammar = value("grammar").text();
  settings.stops = value("stops").texts();
  settings.prefill = value("prefill").text();
  settings.tool_choice = value("tool_choice").text();
  if (value("tools").size() > 0) settings.tools = to_json(value("tools"));
  settings.thinking = static_cast<pumice_thinking>(value("thinking").integer());
  settings.context = count("context");
  settings.max_tokens = count("max_tokens");
  settings.budget_us = frame_budget(number("frame_budget_us"));
  pumice_sampling& sampling = settings.sampling;
  sampling.struct_size = sizeof sampling;
  sampling.temperature = number("temperature");
  sampling.top_k = count("top_k");
  sampling.top_p = number("top_p");
  sampling.min_p = number("min_p");
  sampling.repeat_penalty = number("repeat_penalty");
  sampling.seed = static_cast<uint64_t>(value("seed").integer());
  if (value("seed").integer() < 0)
    sampling.seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  settings.session = version_;
  return settings;
}

std::string Chat::system_message(const Settings& settings, const std::string&) {
  return settings.system_prompt;
}

void Chat::changed(const std::string& property) {
  if (property == "model" || property == "context" || property == "thinking" || property == "chat_template")
    ++version_;
}

void Chat::notified(int32_t what) {
  if (what == notification_enter_tree) {
    self().call("set_process_internal", true);
  } else if (what == notification_ready) {
    if (value("load_when_ready").flag() && !in_editor())
      worker_.post([this, now = settings()] { report(prepare(now)); });
  } else if (what == notification_internal_process) {
    slices_.advance();
    worker_.take();
  }
}

void Chat::leave() {
  leaving_ = true;
  slices_.leave();
  worker_.stop();
}

void Chat::release() {
  leave();
  chat_.reset();
  session_.reset();
}

// ---- What scripts ask for, on the main thread ----

void Chat::add(const Message& message) {
  worker_.post([this, now = settings(), message] {
    std::string failure = prepare(now);
    if (failure.empty()) failure = append(message);
    report(failure);
  });
}

void Chat::answer(const std::vector<Message>& message, const std::vector<std::string>& choices) {
  Settings now = settings();
  if (!choices.empty()) {
    now.choices = choices;
    now.schema.clear();
    now.regex.clear();
    now.grammar.clear();
  }
  ++answers_;
  worker_.post([this, now = std::move(now), message] {
    cancelled_ = false;
    answer_.clear();
    std::string failure = prepare(now);
    if (failure.empty() && !message.empty()) failure = append(message[0]);
    if (failure.empty()) failure = generate(now);
    worker_.deliver([this, failure, text = answer_] {
      --answers_;
      failure.empty() ? emit("answered", text) : emit("failed", failure);
    });
  });
}

void Chat::cancel() {
  cancelled_ = true;
  slices_.cancel();
}

void Chat::set_messages(const Variant& messages) {
  Variant conversation = Variant::empty(GDEXTENSION_VARIANT_TYPE_DICTIONARY);
  conversation.set("messages", messages);
  worker_.post([this, now = settings(), json = to_json(conversation)] {
    if (const std::string failure = prepare(now); !failure.empty()) return report(failure);
    pumice_error error;
    if (pumice_chat_read(chat_.get(), json.c_str(), &error) != PUMICE_OK) return report(error.message);
    first_message_.clear();
    take_snapshot();
  });
}

void Chat::clear() {
  worker_.post([this] {
    if (!chat_) return;
    pumice_error error;
    pumice_chat_remove(chat_.get(), 0, pumice_chat_count(chat_.get()), &error);
    first_message_.clear();
    take_snapshot();
  });
}

// ---- On the worker ----

void Chat::report(const std::string& failure) {
  if (!failure.empty()) worker_.deliver([this, failure] { emit("failed", failure); });
}

// A session and a chat, as the settings want them.
std::string Chat::prepare(const Settings& settings) {
  if (leaving_) return "the node was freed";
  const bool same = made_for_ == settings.session;
  if (session_ && chat_ && same && made_tools_ == settings.tools) return {};
  Loaded loaded;
  if (const std::string failure = wait_for(settings.model, leaving_, loaded); !failure.empty())
    return failure;
  pumice_error error;
  if (!session_ || !same) {
    session_.reset();
    pumice_session_options options{};
    options.struct_size = sizeof options;
    options.context = settings.context;
    options.chunk = settings.budget_us > 0 ? 32 : 0; // short launches fit small budgets
    options.warm_up = settings.budget_us > 0;        // so that the first frames are as smooth as the others
    options.on_event = [](void* user, const pumice_event* event) {
      static_cast<Chat*>(user)->on_event(*event);
    };
    options.user = this;
    options.progress = [](void* user, uint64_t, uint64_t) { return !static_cast<Chat*>(user)->leaving_; };
    options.progress_user = this;
    pumice_session* session = nullptr;
    if (pumice_session_create(loaded.model.get(), &options, &session, &error) != PUMICE_OK)
      return error.message;
    session_.reset(session);
  }
  const std::string before = chat_ ? messages() : std::string();
  chat_.reset();
  pumice_chat_options options{};
  options.struct_size = sizeof options;
  options.template_text = optional(settings.chat_template);
  options.tools = settings.tools.empty() ? nullptr : settings.tools.c_str();
  options.thinking = settings.thinking;
  pumice_chat* chat = nullptr;
  if (pumice_chat_create(loaded.model.get(), &options, &chat, &error) != PUMICE_OK) return error.message;
  chat_.reset(chat);
  if (!before.empty() && pumice_chat_read(chat, before.c_str(), &error) != PUMICE_OK) return error.message;
  made_for_ = settings.session;
  made_tools_ = settings.tools;
  worker_.deliver([this] { emit("prepared"); });
  return {};
}

std::string Chat::append(const Message& message) {
  pumice_message added{};
  added.struct_size = sizeof added;
  added.role = message.role.c_str();
  added.content = message.content.c_str();
  added.members = message.members.empty() ? nullptr : message.members.c_str();
  pumice_error error;
  if (pumice_chat_add(chat_.get(), &added, &error) != PUMICE_OK) return error.message;
  if (message.role == "user") question_ = message.content;
  take_snapshot();
  return {};
}

// Puts what the character is told before the conversation.
std::string Chat::say_first(const Settings& settings) {
  const std::string wanted = system_message(settings, question_);
  if (wanted == first_message_) return {};
  Variant conversation = from_json(messages());
  const Variant list = conversation.get("messages");
  if (list.size() > 0 && list.at(0).get("role").text() == "system") list.call("remove_at", 0);
  if (!wanted.empty()) {
    Variant message = Variant::empty(GDEXTENSION_VARIANT_TYPE_DICTIONARY);
    message.set("role", "system");
    message.set("content", wanted);
    list.call("insert", 0, message);
  }
  pumice_error error;
  if (pumice_chat_read(chat_.get(), to_json(conversation).c_str(), &error) != PUMICE_OK) return error.message;
  first_message_ = wanted;
  return {};
}

std::string Chat::generate(const Settings& settings) {
  if (const std::string failure = say_first(settings); !failure.empty()) return failure;
  if (cancelled_) return {}; // while it remembered
  const std::vector<const char*> choices = pointers(settings.choices), stops = pointers(settings.stops);
  pumice_form form{};
  form.struct_size = sizeof form;
  form.choices = choices.empty() ? nullptr : choices.data();
  form.choice_count = choices.size();
  form.regex = optional(settings.regex);
  form.json_schema = optional(settings.schema);
  form.grammar = optional(settings.grammar);
  pumice_request request{};
  request.struct_size = sizeof request;
  request.chat = chat_.get();
  request.forget = true;
  request.max_tokens = settings.max_tokens;
  request.sampling = &settings.sampling;
  request.stops = stops.empty() ? nullptr : stops.data();
  request.stop_count = stops.size();
  request.tool_choice = optional(settings.tool_choice);
  request.prefill = optional(settings.prefill);
  if (form.choices || form.regex || form.json_schema || form.grammar) request.form = &form;
  pumice_error error;
  if (pumice_session_generate(session_.get(), &request, &error) != PUMICE_OK) return error.message;
  const Slices::End end =
      slices_.run(pumice_session_work(session_.get()), settings.budget_us, [&](pumice_error* failure) {
        return settings.budget_us > 0 ? PUMICE_OK : pumice_session_run(session_.get(), failure);
      });
  take_snapshot();
  return end.failed() && end.status != PUMICE_CANCELLED ? end.message : "";
}

// By the thread that computes.
void Chat::on_event(const pumice_event& event) {
  if (event.type != PUMICE_EVENT_PART) return;
  const std::string text = event.text;
  if (event.part == PUMICE_PART_CONTENT) {
    answer_ += text;
    worker_.deliver([this, text] { emit("token", text); });
  } else if (event.part == PUMICE_PART_THINKING) {
    worker_.deliver([this, text] { emit("thought", text); });
  } else if (event.part == PUMICE_PART_TOOL_CALL) {
    worker_.deliver(
        [this, text, name = std::string(event.name)] { emit("tool_called", name, from_json(text)); });
  }
}

std::string Chat::messages() const {
  std::string json;
  size_t count = 0;
  pumice_error error;
  do {
    json.resize(count);
    if (pumice_chat_write(chat_.get(), json.data(), json.size() + (json.empty() ? 0 : 1), &count, &error) !=
        PUMICE_OK)
      return {};
  } while (count > json.size());
  json.resize(count);
  return json;
}

void Chat::take_snapshot() {
  worker_.deliver([this, json = messages()] { snapshot_ = json; });
}

// ---- The class ----

std::unique_ptr<Class> Chat::make_class() {
  const auto chat = [](Instance& instance) -> Chat& { return static_cast<Chat&>(instance); };
  using Arguments = std::vector<Variant>;
  constexpr auto none = GDEXTENSION_VARIANT_TYPE_NIL, string = GDEXTENSION_VARIANT_TYPE_STRING,
                 integer = GDEXTENSION_VARIANT_TYPE_INT, real = GDEXTENSION_VARIANT_TYPE_FLOAT,
                 strings = GDEXTENSION_VARIANT_TYPE_PACKED_STRING_ARRAY,
                 array = GDEXTENSION_VARIANT_TYPE_ARRAY;
  auto made = std::make_unique<Class>();
  made->name = "PumiceChat";
  made->parent = made->engine_parent = "Node";
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Chat>(of_class, object);
  };
  made->properties = {
      {"model", GDEXTENSION_VARIANT_TYPE_OBJECT, Variant(), hint_resource, "PumiceModel"},
      {"system_prompt", string, "", hint_multiline},
      {"chat_template", string, "", hint_multiline},
      {"load_when_ready", GDEXTENSION_VARIANT_TYPE_BOOL, true},
      {"frame_budget_us", real, 2000.0, hint_range, "0,16000,100,or_greater"},
      {"context", integer, 0, hint_range, "0,32768,1,or_greater"},
      {"max_tokens", integer, 200, hint_range, "0,4096,1,or_greater"},
      {"thinking", integer, 0, hint_enum, "Default,Off,On"},
      {"temperature", real, 0.8, hint_range, "0,2,0.01,or_greater", "Sampling"},
      {"top_k", integer, 40, hint_range, "0,200,1,or_greater"},
      {"top_p", real, 0.95, hint_range, "0,1,0.01"},
      {"min_p", real, 0.05, hint_range, "0,1,0.01"},
      {"repeat_penalty", real, 1.0, hint_range, "0.5,2,0.01,or_greater"},
      {"seed", integer, -1},
      {"stops", strings, Variant::empty(strings)},
      {"choices", strings, Variant::empty(strings), 0, "", "Form"},
      {"schema", string, "", hint_multiline},
      {"regex", string, ""},
      {"grammar", string, "", hint_multiline},
      {"prefill", string, ""},
      {"tools", array, Variant::empty(array), 0, "", "Tools"},
      {"tool_choice", string, ""},
  };
  made->methods = {
      {"ask",
       {{"text", string}},
       none,
       [=](Instance& self, const Arguments& given) {
         return chat(self).answer({{"user", given[0].text(), ""}}), Variant();
       }},
      {"choose",
       {{"text", string}, {"choices", strings}},
       none,
       [=](Instance& self, const Arguments& given) {
         return chat(self).answer({{"user", given[0].text(), ""}}, given[1].texts()), Variant();
       }},
      {"add_message",
       {{"role", string}, {"content", string}},
       none,
       [=](Instance& self, const Arguments& given) {
         return chat(self).add({given[0].text(), given[1].text(), ""}), Variant();
       }},
      {"reply_to_tool",
       {{"name", string}, {"result", string}},
       none,
       [=](Instance& self, const Arguments& given) {
         Variant members = Variant::empty(GDEXTENSION_VARIANT_TYPE_DICTIONARY);
         members.set("name", given[0]);
         return chat(self).answer({{"tool", given[1].text(), to_json(members)}}), Variant();
       }},
      {"answer",
       {},
       none,
       [=](Instance& self, const Arguments&) { return chat(self).answer({}), Variant(); }},
      {"cancel", {}, none, [=](Instance& self, const Arguments&) { return chat(self).cancel(), Variant(); }},
      {"clear", {}, none, [=](Instance& self, const Arguments&) { return chat(self).clear(), Variant(); }},
      {"is_answering",
       {},
       GDEXTENSION_VARIANT_TYPE_BOOL,
       [=](Instance& self, const Arguments&) { return Variant(chat(self).is_answering()); },
       {},
       true},
      {"get_messages",
       {},
       array,
       [=](Instance& self, const Arguments&) {
         const std::string& json = chat(self).snapshot_;
         return json.empty() ? Variant::empty(array) : from_json(json).get("messages");
       },
       {},
       true},
      {"set_messages",
       {{"messages", array}},
       none,
       [=](Instance& self, const Arguments& given) { return chat(self).set_messages(given[0]), Variant(); }},
  };
  made->signals = {{"prepared", {}},
                   {"token", {{"text", string}}},
                   {"thought", {{"text", string}}},
                   {"answered", {{"text", string}}},
                   {"tool_called", {{"name", string}, {"arguments", GDEXTENSION_VARIANT_TYPE_DICTIONARY}}},
                   {"failed", {{"message", string}}}};
  made->constants = {
      {"Thinking", "THINKING_DEFAULT", 0}, {"Thinking", "THINKING_OFF", 1}, {"Thinking", "THINKING_ON", 2}};
  return made;
}

} // namespace godot
