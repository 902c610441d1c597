// What families of models write, asked through the C interface: a parrot gives their answers.
#include <nlohmann/json.hpp>

#include "support/chat_families.h"
#include "support/command/chats.h"
#include "support/files/parrot.h"

namespace {

using nlohmann::json;

constexpr const char* tools = R"([{"type": "function", "function": {"name": "weather", "description": "tells",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])";

struct Heard {
  std::string content, thinking, calls, id;
};

class Talk {
public:
  explicit Talk(const Parrot& parrot) : model_(load(shared_device().get(), parrot.path())) {
    pumice_chat_options options = {sizeof options};
    options.tools = tools;
    chat_ = make_chat(model_.get(), options);
    add("user", "How will it be?");
  }

  void add(const char* role, const char* content, const std::string& members = "") {
    pumice_message message = {sizeof message};
    message.role = role;
    message.content = content;
    if (!members.empty()) message.members = members.c_str();
    pumice_error error;
    require_ok(pumice_chat_add(chat_.get(), &message, &error), error);
  }

  Heard answer() {
    pumice_error error;
    pumice_request request = {sizeof request};
    request.chat = chat_.get();
    require_ok(pumice_session_generate(session_.get(), &request, &error), error);
    require_ok(pumice_session_run(session_.get(), &error), error);
    Heard heard;
    while (const pumice_event* event = pumice_session_poll(session_.get())) {
      if (event->type != PUMICE_EVENT_PART) continue;
      if (event->part == PUMICE_PART_CONTENT) heard.content += event->text;
      if (event->part == PUMICE_PART_THINKING) heard.thinking += event->text;
      if (event->part != PUMICE_PART_TOOL_CALL) continue;
      heard.calls += event->name + (" " + json::parse(event->text).dump()) + ";";
      heard.id = event->id;
    }
    return heard;
  }

private:
  ModelHandle model_;
  SessionHandle session_ = make_session(model_.get());
  ChatHandle chat_;
};

Heard heard_of(const std::string& script, const std::string& chat_template,
               const std::vector<std::string>& marks = {}) {
  return Talk(Parrot(script, chat_template, marks)).answer();
}

} // namespace

TEST_CASE("families: an answer without its marks, and what is thought and called apart from it") {
  const std::vector<std::string> cohere_marks = {
      "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_THINKING|>", "<|END_THINKING|>",
      "<|START_ACTION|>",   "<|END_ACTION|>",   "<|CHATBOT_TOKEN|>",  "<|USER_TOKEN|>"};
  const Heard plain =
      heard_of("<|START_RESPONSE|>It rains.<|END_RESPONSE|>", pumice::test::cohere, cohere_marks);
  CHECK(plain.content == "It rains.");
  const Heard called =
      heard_of("<|START_THINKING|>I ask.<|END_THINKING|><|START_ACTION|>[\n{\"tool_call_id\": "
               "\"0\", \"tool_name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}\n]"
               "<|END_ACTION|>",
               pumice::test::cohere, cohere_marks);
  CHECK(called.content == "");
  CHECK(called.thinking == "I ask.");
  CHECK(called.calls == R"(weather {"city":"Rome"};)");

  // The end mark within a string ends nothing, and a call within a thought is a call.
  const Heard quoted =
      heard_of("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"close it with "
               "</tool_call> please\"}}\n</tool_call>",
               pumice::test::hermes);
  CHECK(quoted.calls == R"(weather {"city":"close it with </tool_call> please"};)");
  const Heard thought = heard_of("<think>\nI need it.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
                                 "{\"city\": \"Rome\"}}\n</tool_call>",
                                 pumice::test::qwen);
  CHECK(thought.thinking == "I need it.");
  CHECK(thought.calls == R"(weather {"city":"Rome"};)");
  const Heard typed = heard_of("<tool_call>\n<function=weather>\n<parameter=city>\n42\n</parameter>\n"
                               "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
                               pumice::test::coder);
  CHECK(typed.calls == R"(weather {"city":"42","days":3};)");
}

TEST_CASE("families: a call without an id gets one that the template takes in the next turn") {
  Talk talk(Parrot("[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}", pumice::test::mistral,
                   {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[INST]", "[/INST]"}, "</s>"));
  const Heard first = talk.answer();
  CHECK(first.calls == R"(weather {"city":"Rome"};)");
  CHECK(first.id.size() == 9);
  talk.add("tool", "sun", json{{"name", "weather"}, {"tool_call_id", first.id}}.dump());
  CHECK(talk.answer().calls == first.calls);
}

TEST_CASE("families: a template that refuses results of tools gets them as questions") {
  const std::string turns = "{%- for m in messages %}{%- if m.role not in ['user', 'assistant'] or (m.role "
                            "== 'user') != (loop.index0 % 2 "
                            "== 0) %}{{ raise_exception('user and assistant in turn') }}{%- endif %}{{ "
                            "'<|im_start|>' + m.role + '\n' + "
                            "m.content + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ "
                            "'<|im_start|>assistant\n' }}"
                            "{%- endif %}{# <tool_call> </tool_call> #}";
  Talk talk(
      Parrot("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}</tool_call>", turns));
  const Heard first = talk.answer();
  CHECK(first.calls == R"(weather {"city":"Rome"};)");
  talk.add("tool", "sun", json{{"name", "weather"}}.dump());
  talk.add("tool", "and rain", json{{"name", "weather"}}.dump());
  CHECK(talk.answer().calls == first.calls);
}

TEST_CASE("families: what ends a part of an answer does not end the answer") {
  const std::string channels =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|turn|>assistant' }}{%- if "
      "m.reasoning_content "
      "%}{{ '<|part|>thoughts<|body|>' + m.reasoning_content + '<|/part|>' }}{%- endif %}{%- if m.content "
      "%}{{ "
      "'<|part|>reply<|body|>' + m.content + '<|/part|>' }}{%- endif %}{{ '<|/turn|>' }}{%- else %}{{ "
      "'<|turn|>' + "
      "m.role + '<|part|>text<|body|>' + m.content + '<|/part|><|/turn|>' }}{%- endif %}{%- endfor %}{%- if "
      "add_generation_prompt %}{{ '<|turn|>assistant' }}{%- endif %}";
  // The marks that occur twice are cut into pieces.
  const Heard heard = heard_of("<|part|>thoughts<|body|>Hm.<|/part|><|part|>reply<|body|>It rains.", channels,
                               {"<|/part|>", "<|/turn|>"});
  CHECK(heard.thinking == "Hm.");
  CHECK(heard.content == "It rains.");
}
