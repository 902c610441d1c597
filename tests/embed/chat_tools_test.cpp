// Calls of tools that are held to the tools' schemas, and answers that are begun: a parrot gives them.
#include <nlohmann/json.hpp>

#include "support/chat_families.h"
#include "support/command/chats.h"
#include "support/files/parrot.h"

namespace {

using nlohmann::json;

constexpr const char* gate = R"([{"type": "function", "function": {"name": "open_gate", "parameters": {
  "type": "object", "properties": {"way": {"enum": ["north", "south"]}}, "required": ["way"],
  "additionalProperties": false}}}])";

struct Heard {
  std::string content, thinking, calls, error;
};

class Gate {
public:
  explicit Gate(const Parrot& parrot, const char* tools = gate)
      : model_(load(shared_device().get(), parrot.path())) {
    pumice_chat_options options = {sizeof options};
    options.tools = tools;
    chat_ = make_chat(model_.get(), options);
    pumice_message message = {sizeof message};
    message.role = "user";
    message.content = "Go on.";
    pumice_error error;
    require_ok(pumice_chat_add(chat_.get(), &message, &error), error);
    request.chat = chat_.get();
    request.max_tokens = 150;
  }

  Heard answer(const char* tool_choice = nullptr, const char* prefill = nullptr) {
    request.tool_choice = tool_choice;
    request.prefill = prefill;
    pumice_error error;
    Heard heard;
    if (pumice_session_generate(session_.get(), &request, &error) != PUMICE_OK) {
      heard.error = error.message;
      return heard;
    }
    require_ok(pumice_session_run(session_.get(), &error), error);
    while (const pumice_event* event = pumice_session_poll(session_.get())) {
      if (event->type != PUMICE_EVENT_PART) continue;
      if (event->part == PUMICE_PART_CONTENT) heard.content += event->text;
      if (event->part == PUMICE_PART_THINKING) heard.thinking += event->text;
      if (event->part == PUMICE_PART_TOOL_CALL)
        heard.calls += event->name + (" " + json::parse(event->text).dump());
    }
    return heard;
  }
  std::string last_message() const {
    return json::parse(text_of(pumice_chat_write, chat_.get()))["messages"].back()["content"];
  }
  std::string not_held() const {
    pumice_error error;
    return pumice_chat_check_calls(chat_.get(), &error) == PUMICE_OK ? "" : error.message;
  }

  pumice_request request = {sizeof request};

private:
  ModelHandle model_;
  SessionHandle session_ = make_session(model_.get());
  ChatHandle chat_;
};

std::string call_of(const std::string& name, const std::string& way) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {\"way\": \"" + way + "\"}}\n</tool_call>";
}

// A parrot that lost its place begins again, and may call again.
bool is_valid(std::string calls) {
  const bool called = !calls.empty();
  for (const std::string each : {R"(open_gate {"way":"north"})", R"(open_gate {"way":"south"})"}) {
    for (size_t at = calls.find(each); at != std::string::npos; at = calls.find(each))
      calls.erase(at, each.size());
  }
  return called && calls.empty();
}

} // namespace

TEST_CASE("calls that are not offered or not valid are not drawn") {
  const Heard good =
      Gate(Parrot("I open it.\n" + call_of("open_gate", "south"), pumice::test::hermes)).answer();
  CHECK(good.content == "I open it.");
  CHECK(good.calls == R"(open_gate {"way":"south"})");
  CHECK(is_valid(Gate(Parrot(call_of("fly", "south"), pumice::test::hermes)).answer().calls));
  CHECK(is_valid(Gate(Parrot(call_of("open_gate", "up"), pumice::test::hermes)).answer().calls));
  // Marks that are special tokens.
  const std::vector<std::string> marks = {"<tool_call>", "</tool_call>"};
  CHECK(is_valid(Gate(Parrot(call_of("fly", "up"), pumice::test::hermes, marks)).answer().calls));
}

TEST_CASE("the tool choice forbids calls, demands one, or names the tool") {
  Gate calling(Parrot(call_of("open_gate", "south"), pumice::test::hermes));
  CHECK(calling.not_held() == "");
  CHECK(calling.answer("none").calls == "");
  CHECK(is_valid(calling.answer("required").calls));
  CHECK(calling.answer("fly").error.find("open_gate") != std::string::npos);
  Gate silent(Parrot("Hello.", pumice::test::hermes));
  CHECK(silent.answer().content == "Hello.");
  CHECK(is_valid(silent.answer("required").calls));
  CHECK(is_valid(silent.answer("open_gate").calls));
  silent.request.ignore_end = true;
  CHECK(silent.answer("required").error.find("stop token") != std::string::npos);
  Gate without(Parrot("Hello.", pumice::test::hermes), nullptr);
  CHECK(without.answer("none").content == "Hello.");
  CHECK(without.answer("required").error.find("has no tools") != std::string::npos);
  CHECK(without.not_held().find("no tools") != std::string::npos);
  Gate unknown(Parrot("Hello.", pumice::test::gemma4));
  CHECK(unknown.answer().content == "Hello.");
  CHECK(unknown.not_held().find("not held") != std::string::npos);
  CHECK(unknown.answer("required").error.find("way that is not known") != std::string::npos);
}

TEST_CASE("an answer goes on from its beginning, which is a part of it and fits its form") {
  Gate talk(Parrot("Hello there, all.", pumice::test::hermes));
  const Heard begun = talk.answer("none", "Well: ");
  CHECK(begun.content == "Well: Hello there, all.");
  CHECK(talk.last_message() == begun.content);
  pumice_form form = {sizeof form};
  const char* choices[] = {"yes", "no"};
  form.choices = choices;
  form.choice_count = 2;
  talk.request.form = &form;
  CHECK(talk.answer(nullptr, "ye").content == "yes");
  CHECK(talk.answer(nullptr, "maybe").error.find("'maybe'") != std::string::npos);
}

TEST_CASE("thoughts before a form are free") {
  const std::string opens =
      pumice::test::chat_template(pumice::test::think, pumice::test::hermes_call, "<think>\n");
  for (const bool opened : {false, true}) {
    Gate talk(Parrot(opened ? "So be it.</think>\n\nyes" : "<think>So be it.</think>\n\nyes",
                     opened ? opens : pumice::test::qwen),
              nullptr);
    pumice_form form = {sizeof form};
    form.regex = "yes|no";
    talk.request.form = &form;
    const Heard heard = talk.answer();
    CHECK(heard.thinking == "So be it.");
    CHECK(heard.content == "yes");
  }
}
