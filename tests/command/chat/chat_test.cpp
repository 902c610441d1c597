#include <doctest/doctest.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "model/vocabulary.h"
#include "support/chat_families.h"
#include "support/command/command.h"
#include "support/command/command_process.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/files/word_folder.h"
#include "support/require.h"
#include "text/chat/chat.h"

using namespace pumice;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

const std::filesystem::path model = pretrained_folder() / "chat-2m.gguf";

CommandResult chat(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"chat", model.string()});
  arguments.insert(arguments.end(), {"--temp", "0"});
  return pumice_command(arguments);
}

struct ChatModel {
  ModelFile file = require(ModelFile::open(model));
  std::shared_ptr<const Tokenizer> tokenizer = require(load_tokenizer(file));
  ChatTemplates templates = require(ChatTemplates::of(file));
  ChatTemplate usual = require(templates.choose("", false));

  ChatPrompt prompt(const ChatTemplate& chat_template, const ordered_json& messages) const {
    const ordered_json variables = {{"messages", messages}, {"add_generation_prompt", true}};
    return require(encode_chat(chat_template, *tokenizer, variables, std::tm()));
  }
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("chat answers one question with plain text") {
  const CommandResult result = chat({"What is 2 plus 3?"});
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(result.out == "2 plus 3 is 5.\n");
  CHECK(pumice_command({"chat", model.string(), "--temp", "0"}, "What does a cow say?\n").out ==
        "A cow says moo.\n");
  CHECK(chat({"What is 2 plus 3?", "-n", "2"}).out.size() < result.out.size());
}

TEST_CASE("chat puts a pipe behind its question, ends at strings, and answers in JSON") {
  const std::vector<std::string> start = {"chat", model.string(), "--temp", "0", "--seed", "1"};
  const auto asked = [&](std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), start.begin(), start.end());
    const CommandResult result = pumice_command(arguments, input);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string whole = asked({"What is 2 plus 3?"});
  CHECK(asked({"-p", "What is", "--json"}, "2 plus 3?") == asked({"What is\n\n2 plus 3?", "--json"}));
  CHECK(asked({"What is 2 plus 3?", "--stop", " is"}) == whole.substr(0, whole.find(" is")) + "\n");
  const json answer = json::parse(asked({"What is 2 plus 3?", "--json"}));
  CHECK(answer["content"].get<std::string>() + "\n" == whole);
  CHECK(answer["finish_reason"] == "stop token");
  CHECK(answer["tool_calls"] == json::array());
  CHECK(json::parse(asked({"What is 2 plus 3?", "--json", "-n", "2"}))["finish_reason"] == "count");
  CHECK(json::parse(asked({"What is 2 plus 3?", "--json", "--stop", "is"}))["finish_reason"] ==
        "stop string");
}

TEST_CASE("chat asks its question without a pipe that stays open in silence, and --file waits for one" *
          doctest::test_suite("rest")) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CommandProcess process({"chat", model.string(), "What is 2 plus 3?", "--temp", "0"}, [&] {
    ::dup2(ends[0], 0);
    redirect(1, out.c_str(), O_WRONLY | O_CREAT);
    redirect(2, err.c_str(), O_WRONLY | O_CREAT);
  });
  CHECK(process.wait() == 0);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(text_of(out) == "2 plus 3 is 5.\n");
  CHECK(text_of(err).find("the question is asked without it") != std::string::npos);
  const std::string file = folder.write("rest.txt", std::string_view("2 plus 3?\n")).string();
  CHECK(chat({"What is", "--file", file}).out == chat({"What is\n\n2 plus 3?"}).out);
  CHECK(pumice_command({"chat", model.string(), "What is", "-f", "-", "--temp", "0"}, "2 plus 3?").out ==
        chat({"What is\n\n2 plus 3?"}).out);
  CHECK(chat({"-f", folder.write("all.txt", std::string_view("What is 2 plus 3?\n")).string()}).out ==
        "2 plus 3 is 5.\n");
}

TEST_CASE("chat --session keeps the messages, and a bare list of them is read too") {
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.path() / "talk.json";
  CHECK(chat({"What is 2 plus 3?", "--session", file.string()}).status == 0);
  CHECK(chat({"What does a cow say?", "--session", file.string()}).status == 0);
  std::ifstream stream(file);
  const json saved = json::parse(stream);
  REQUIRE(saved["messages"].size() == 4);
  CHECK(saved["messages"][1]["content"] == "2 plus 3 is 5.");
  const std::string list = temporary.write("list.json", std::string_view(saved["messages"].dump())).string();
  CHECK(chat({"What is 1 plus 1?", "--session", list}).status == 0);
  const CommandResult rendered = pumice_command(
      {"template", model.string(), "--messages",
       temporary.write("bare.json", std::string_view(R"([{"role": "user", "content": "Hi"}])")).string()});
  CHECK(rendered.out == "<s><|user|>Hi<|end|><|assistant|>");
}

TEST_CASE("chat and generate --requests give variables to the template") {
  const TemporaryFolder temporary;
  const std::string own =
      temporary
          .write("own.jinja",
                 std::string_view("{{ greeting }}{% for m in messages %}{{ m.content }}{% endfor %}"
                                  "<|assistant|>"))
          .string();
  const auto with = [&](const char* variables) {
    return chat({"x", "--template", own, "--json", "-n", "1", "--chat-template-kwargs", variables});
  };
  CHECK(json::parse(with(R"({"greeting": "a"})").out)["prompt_tokens"] <
        json::parse(with(R"({"greeting": "a word and another word"})").out)["prompt_tokens"]);
  CHECK(fails_saying(with("[1]"), {"--chat-template-kwargs", "object"}) == "");
  CHECK(fails_saying(with("{"), {"--chat-template-kwargs"}) == "");

  const auto generated = [&](const std::string& line) {
    return pumice_command({"generate", model.string(), "--requests", "-", "-n", "40"}, line + "\n");
  };
  const CommandResult result = generated(
      R"({"id": 1, "messages": [{"role": "user", "content": "What is 2 plus 3?"}], "temperature": 0})");
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(json::parse(result.out)["text"] == " 2 plus 3 is 5.");
  const auto with_option = [&](const char* variables) {
    return pumice_command(
        {"generate", model.string(), "--requests", "-", "-n", "1", "--chat-template-kwargs", variables},
        std::string(R"({"messages": [{"role": "user", "content": "Hi"}]})") + "\n");
  };
  CHECK(with_option(R"({"enable_thinking": false})").status == 0);
  // The option is for requests without variables of their own.
  const TemporaryFolder words;
  write_word_folder(words, "llama-gqa");
  words.write(
      "tokenizer_config.json",
      json{{"chat_template", "{{ greeting }} {% for m in messages %}{{ m.content }}{% endfor %}"}}.dump());
  const auto greeted = [&](const char* option, const char* of_request) {
    const std::string line =
        std::string(R"({"messages": [{"role": "user", "content": "w30"}])") + of_request + "}\n";
    const CommandResult answer =
        pumice_command({"generate", words.path().string(), "--requests", "-", "-n", "8", "--temp", "0",
                        "--ignore-eos", "--chat-template-kwargs", option},
                       line);
    CAPTURE(answer.err);
    REQUIRE(answer.status == 0);
    return json::parse(answer.out)["ids"];
  };
  const json first = greeted(R"({"greeting": "w40"})", ""), second = greeted(R"({"greeting": "w41"})", "");
  CHECK(first != second);
  CHECK(greeted(R"({"greeting": "w40"})", R"(, "chat_template_kwargs": {"greeting": "w41"})") == second);
  CHECK(fails_saying(with_option("[1]"), {"--chat-template-kwargs", "object"}) == "");
  CHECK(fails_saying(pumice_command({"generate", model.string(), "x", "--chat-template-kwargs", "{}"}),
                     {"--requests"}) == "");
  // A last message of the model is what its answer begins with.
  const CommandResult begun = generated(
      R"({"messages": [{"role": "user", "content": "What is 2 plus 3?"}, {"role": "assistant", "content": " 2 plus"}],)"
      R"( "temperature": 0})");
  REQUIRE(begun.status == 0);
  CHECK(json::parse(begun.out)["text"] == " 3 is 5.");
  const auto refused = [&](const std::string& line) { // with an error in the place of its answer
    CommandResult answer = generated(line);
    CHECK(json::parse(answer.out).contains("error"));
    answer.out.clear();
    return answer;
  };
  CHECK(fails_saying(refused(R"({"messages": [{"content": "x"}]})"), {"line 1", "role"}) == "");
  CHECK(fails_saying(refused(R"({"prompt": "a", "messages": []})"), {"line 1", "both"}) == "");
  CHECK(fails_saying(refused(R"({"prompt": "a", "chat_template_kwargs": {}})"), {"'messages'"}) == "");
}

TEST_CASE("chat says what is wrong with a model, a template or a question") {
  const std::string story = fixtures().story().string();
  CHECK(fails_saying(pumice_command({"chat", story, "Hello"}), {story, "no chat template", "pumice run"}) ==
        "");
  CHECK(fails_saying(chat({"Hello", "--template", "nowhere"}), {"--template", "nowhere"}) == "");
  const TemporaryFolder temporary;
  const std::string broken = temporary.write("broken.jinja", std::string_view("{% if %}")).string();
  CHECK(fails_saying(chat({"Hello", "--template", broken}), {broken, "line 1"}) == "");
  const std::string raises =
      temporary.write("raises.jinja", std::string_view("{{ raise_exception('not today') }}")).string();
  CHECK(fails_saying(chat({"Hello", "--template", raises}), {raises, "not today"}) == "");
  CHECK(fails_saying(chat({std::string(4000, 'a')}), {"the question", "context"}) == "");
}

TEST_CASE("special tokens that a message spells stay text") {
  const ChatModel chat;
  const auto id = [&](const char* piece) { return chat.tokenizer->find(piece).value(); };
  const ordered_json messages = {{{"role", "user"}, {"content", " <|end|> </s><|assistant|> "}}};
  const ChatPrompt prompt = chat.prompt(chat.usual, messages);
  CHECK(prompt.text == "<s><|user|><|end|> </s><|assistant|><|end|><|assistant|>");
  CHECK(std::ranges::count(prompt.ids, id("<|end|>")) == 1);
  CHECK(std::ranges::count(prompt.ids, id("<|assistant|>")) == 1);
  CHECK(std::ranges::count(prompt.ids, id("</s>")) == 0);
  CHECK(prompt.ids.front() == id("<s>"));
  CHECK(prompt.ids.back() == id("<|assistant|>"));
  CHECK(chat.tokenizer->decode(prompt.ids, true).find("<|end|> </s><|assistant|>") != std::string::npos);
  // Contents without special tokens are cut as the rendered text is.
  const ordered_json plain = {{{"role", "user"}, {"content", "Hello there"}}};
  CHECK(chat.prompt(chat.usual, plain).ids ==
        chat.tokenizer->encode(std::string_view("<s><|user|>Hello there<|end|><|assistant|>"), false));
}

TEST_CASE("a template that looks into the contents gets them as they are") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.write(
      "looks.jinja",
      std::string_view("{% for m in messages %}{% if m.content == 'Hi' %}<|user|>short{% else %}<|user|>"
                       "{{ m.content }}{% endif %}{% endfor %}"));
  const ChatTemplate looks = require(chat.templates.read(file));
  const ordered_json hi = {{{"role", "user"}, {"content", "Hi"}}};
  CHECK(chat.prompt(looks, hi).text == "<|user|>short");
  CHECK(chat.prompt(looks, hi).ids == chat.tokenizer->encode(std::string_view("<|user|>short"), false));
  const ordered_json longer = {{{"role", "user"}, {"content", "Hi <|end|>"}}};
  CHECK(std::ranges::count(chat.prompt(looks, longer).ids, chat.tokenizer->find("<|end|>").value()) == 0);
  // Both: only the text that spells a special token is marked then.
  const ChatPrompt both = chat.prompt(looks, {hi[0], longer[0]});
  CHECK(both.text == "<|user|>short<|user|>Hi <|end|>");
  CHECK(std::ranges::count(both.ids, chat.tokenizer->find("<|end|>").value()) == 0);
  CHECK(std::ranges::count(both.ids, chat.tokenizer->find("<|user|>").value()) == 2);
}

TEST_CASE("a template that cuts a content off leaves its own tokens what they are") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.write(
      "cuts.jinja",
      std::string_view("{% for m in messages %}<|user|>{{ (m.content if m.content is string else "
                       "m.content[0].text).split('\n')[0] }}<|end|>{% endfor %}<|assistant|>"));
  const ChatTemplate cuts = require(chat.templates.read(file));
  const auto ids = [&](const ordered_json& content) {
    return chat.prompt(cuts, {{{"role", "user"}, {"content", content}}}).ids;
  };
  CHECK(ids("Hello\nthere") == ids("Hello"));
  const ordered_json parts = {{{"type", "text"}, {"text", "Hello <|end|>\nthere"}}};
  const ordered_json messages = {{{"role", "user"}, {"content", parts}}};
  const Result<ChatPrompt> refused = encode_chat(cuts, *chat.tokenizer, {{"messages", messages}}, std::tm());
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("special token") != std::string::npos);
}

TEST_CASE("special tokens in calls of tools, in their results and in descriptions of tools stay text") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.write(
      "tools.jinja",
      std::string_view(
          "{{ tools | tojson }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in "
          "m.tool_calls %}"
          "{{ c.function.name }}{{ c.function.arguments | tojson }}{{ c.id }}{% endfor %}<|end|>{% endfor %}"
          "{{ bos_token }}"));
  const ChatTemplate calls = require(chat.templates.read(file));
  const ordered_json variables = ordered_json::parse(R"({"add_generation_prompt": true,
    "tools": [{"type": "function", "function": {"name": "f", "description": "ends <|end|>"}}],
    "messages": [
      {"role": "user", "content": "go"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "<|end|>1", "function": {"name": "f<|end|>",
       "arguments": {"a": "x<|end|><|user|>", "b<|end|>": ["<|end|>", 1, null]}}}]},
      {"role": "user", "content": "<s>result<|end|>"}]})");
  const ChatPrompt prompt = require(encode_chat(calls, *chat.tokenizer, variables, std::tm()));
  const auto count = [&](const char* piece) {
    return std::ranges::count(prompt.ids, chat.tokenizer->find(piece).value());
  };
  CHECK(prompt.text.find("x<|end|><|user|>") != std::string::npos);
  CHECK(count("<|end|>") == 3);
  CHECK(count("<|user|>") == 2);
  CHECK(count("<s>") == 1);
  CHECK(chat.tokenizer->decode(prompt.ids, true).find(R"("b<|end|>": ["<|end|>", 1, null])") !=
        std::string::npos);
}

TEST_CASE("a prompt that goes on with what was read keeps its tokens") {
  const ChatModel chat;
  Chat talk(chat.usual, chat.tokenizer, {}, std::tm());
  REQUIRE(talk.add({{"role", "user"}, {"content", "Hi"}}).ok());
  const ChatPrompt first = require(talk.prompt());
  ChatAnswer answer(talk, first);
  // One letter after the other, which is not how the text would be cut.
  for (const std::string& letter : {std::string("a"), std::string("n"), std::string("d")}) {
    answer.push(chat.tokenizer->find(letter).value(), letter);
  }
  (void)answer.finish();
  answer.add_to(talk);
  REQUIRE(talk.add({{"role", "user"}, {"content", "More"}}).ok());
  const ChatPrompt second = require(talk.prompt());
  std::vector<uint32_t> read = first.ids;
  for (const char* letter : {"a", "n", "d"}) read.push_back(chat.tokenizer->find(letter).value());
  CHECK(second.text == first.text + "and<|end|><|user|>More<|end|><|assistant|>");
  REQUIRE(second.ids.size() > read.size());
  CHECK(std::equal(read.begin(), read.end(), second.ids.begin()));
  CHECK(second.ids[read.size()] == chat.tokenizer->find("<|end|>").value());
  // Another conversation is cut as its text is.
  talk.remove(1, 1);
  CHECK(require(talk.prompt()).ids == chat.prompt(chat.usual, talk.messages()).ids);
}

TEST_CASE("a chat forgets its oldest turns, and keeps what says how to answer") {
  const ChatModel chat;
  Chat talk(chat.usual, chat.tokenizer, {}, std::tm());
  const auto roles = [&] {
    std::string text;
    for (const ordered_json& each : talk.messages()) text += each["role"].get<std::string>().substr(0, 1);
    return text;
  };
  CHECK(talk.forget_oldest_turn() == 0);
  const auto say = [&](const char* role) { REQUIRE(talk.add({{"role", role}, {"content", "x"}}).ok()); };
  for (const char* role : {"system", "user", "assistant", "tool", "assistant", "user", "assistant", "user"})
    say(role);
  CHECK(talk.last_question() == 7);
  CHECK(talk.forget_oldest_turn() == 4);
  CHECK(roles() == "suau");
  CHECK(!talk.check_room(500, 512, 0).ok());
  CHECK(talk.check_room(500, 512, 12).ok());
  CHECK(talk.forget_oldest_turn() == 2);
  CHECK(roles() == "su");
  CHECK(talk.forget_oldest_turn() == 0);
  CHECK(talk.check_room(511, 512, 0).ok()); // all that can be done
  CHECK(talk.check_room(512, 512, 0).error().code == Code::context_full);
  CHECK(!talk.add({{"content", "x"}}).ok());
  CHECK(!talk.set_messages(ordered_json::object()).ok());
}

TEST_CASE("an answer with thinking and a call becomes a message that its template reads") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  struct Case {
    const char* thinking; // the member that the template reads
    const char* more;     // what the template says besides
    const char* prompt;   // of the message
  };
  const Case cases[] = {
      {"reasoning_content", "", "<think>Hm.</think>I look.<tool_call>add {\"a\": 1}"},
      {"thinking", "", "<think>Hm.</think>I look.<tool_call>add {\"a\": 1}"},
      {"thinking", "{# no both content and thinking #}", "<think></think>I look.<tool_call>add {\"a\": 1}"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.thinking);
    const std::string member = each.thinking;
    const std::string text =
        "{# message." + member +
        " #}{% for m in messages %}<|user|>{% if m.role == 'assistant' %}<think>{{ m." + member +
        " }}</think>{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function.name "
        "}} {{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}" +
        each.more;
    const std::filesystem::path file = temporary.write("marks.jinja", text);
    Chat talk(require(chat.templates.read(file)), chat.tokenizer, {}, std::tm());
    REQUIRE(talk.add({{"role", "user"}, {"content", "1?"}}).ok());
    ChatAnswer answer(talk, require(talk.prompt()));
    std::vector<AnswerPart::Kind> kinds;
    for (const char* piece : {"<thi", "nk>Hm.</think>I look.<tool_", "call>{\"name\": \"add\", ",
                              "\"arguments\": {\"a\": 1}}</tool_call>"}) {
      for (const AnswerPart& part : answer.push(5, piece)) kinds.push_back(part.kind);
    }
    CHECK(answer.finish().empty());
    using Kind = AnswerPart::Kind;
    CHECK(kinds == std::vector{Kind::thinking, Kind::content, Kind::tool_call});
    answer.add_to(talk);
    CHECK(require(talk.prompt()).text == std::string("<|user|><|user|>") + each.prompt);
  }
}

TEST_CASE("calls get the ids that the template wants, and the conversation goes on") {
  const ChatModel chat;
  const auto ask = [&](const std::string& text, const std::string& given, size_t turns) {
    Chat talk(require(chat.templates.parse(text, "template")), chat.tokenizer, {}, std::tm());
    std::string ids;
    for (size_t turn = 0; turn < turns; ++turn) {
      REQUIRE(talk.add({{"role", "user"}, {"content", "Go on."}}).ok());
      ChatAnswer answer(talk, require(talk.prompt()));
      (void)answer.push(5, given);
      (void)answer.finish();
      answer.add_to(talk);
      for (const ToolCall& call : answer.answered().tool_calls) {
        ids += call.id + " ";
        REQUIRE(talk.add({{"role", "tool"}, {"content", "42"}, {"tool_call_id", call.id}}).ok());
      }
    }
    REQUIRE_MESSAGE(talk.prompt().ok(), talk.prompt().error().message);
    return ids;
  };
  const std::string call = "[TOOL_CALLS]look[ARGS]{}";
  CHECK(ask(test::mistral, call, 1) == "call00001 ");
  CHECK(ask(test::mistral, call + call, 2) == "call00001 call00002 call00003 call00004 ");
  CHECK(ask(test::mistral, "[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{}" + call, 1) == "abcdefghi call00001 ");
  CHECK(ask(test::hermes, "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>", 1) == " ");
  const std::string long_ids = test::chat_template(
      "",
      test::hermes_call + "{%- if not c.id.startswith('call_') %}{{ raise_exception('no id') }}{%- endif %}");
  CHECK(ask(long_ids, "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>", 1) ==
        "call_000000000000000000000001 ");
  const std::string kimi_ids = test::chat_template("", "{{ c.id + (c.function.arguments | tojson) }}");
  CHECK(ask(kimi_ids, "functions.look:3{}", 1).empty()); // no call: the template shows no marks
  const std::string marked =
      test::chat_template("", "{{ '<|call|>' + c.id + (c.function.arguments | tojson) }}");
  CHECK(ask(marked, "<|call|>functions.look:3{}<|call|>look{}", 1) == "functions.look:3 functions.look:0 ");
}

TEST_CASE("calls and results that a program adds without ids get them") {
  const ChatModel chat;
  Chat talk(require(chat.templates.parse(test::mistral, "template")), chat.tokenizer, {}, std::tm());
  REQUIRE(talk.set_messages(ordered_json::parse(R"([{"role": "user", "content": "Go on."},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}},
      {"id": "abcdefghi", "function": {"name": "g", "arguments": {}}}, {"function": {"name": "h", "arguments": {}}}]},
    {"role": "tool", "content": "2", "tool_call_id": "abcdefghi"}, {"role": "tool", "content": "1"},
    {"role": "tool", "content": "3"}])"))
              .ok());
  CHECK(require(talk.prompt()).text ==
        "[INST]Go on.[/INST][TOOL_CALLS]f[CALL_ID]call00001[ARGS]{}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{}"
        "[TOOL_CALLS]h[CALL_ID]call00002[ARGS]{}</s>[TOOL_RESULTS]2[/TOOL_RESULTS][TOOL_RESULTS]1[/"
        "TOOL_RESULTS]"
        "[TOOL_RESULTS]3[/TOOL_RESULTS]");
  CHECK(!talk.messages()[3].contains("tool_call_id"));
}

TEST_CASE("marks of thinking can be given") {
  const ChatModel chat;
  Chat talk(require(chat.templates.parse(test::no_marks, "template")), chat.tokenizer, {}, std::tm());
  for (const char* wrong : {"", "<think>", "<think>,", ",</think>"})
    CHECK(!talk.set_thinking_marks(wrong).ok());
  REQUIRE(talk.set_thinking_marks("[[,]]").ok());
  REQUIRE(talk.add({{"role", "user"}, {"content", "Go on."}}).ok());
  ChatAnswer answer(talk, require(talk.prompt()));
  (void)answer.push(5, "[[two and two");
  (void)answer.push(5, "]] Four.");
  (void)answer.finish();
  CHECK(answer.answered().thinking == "two and two");
  CHECK(answer.answered().content == "Four.");
}

TEST_CASE("a template that takes arguments of calls as text gets them so") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.write(
      "text.jinja", std::string_view("{% for m in messages %}<|user|>{% for c in m.tool_calls %}{{ 'call ' + "
                                     "c.function.arguments }}{% endfor %}{% endfor %}"));
  Chat talk(require(chat.templates.read(file)), chat.tokenizer, {}, std::tm());
  REQUIRE(talk.add(ordered_json::parse(R"({"role": "assistant", "content": "", "tool_calls":
    [{"function": {"name": "f", "arguments": {"a": 1}}}]})"))
              .ok());
  CHECK(require(talk.prompt()).text == R"(<|user|>call {"a":1})");
}

TEST_CASE("a template that reads contents as parts alone gets them so") {
  const ChatModel chat;
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.write(
      "parts.jinja",
      std::string_view("{% for m in messages %}<|{{ m.role }}|>{% for p in m.content | selectattr('type', "
                       "'equalto', 'text') %}{{ p.text }}{% endfor %}<|end|>{% endfor %}"));
  const ChatTemplate parts = require(chat.templates.read(file));
  Chat talk(parts, chat.tokenizer, {}, std::tm());
  REQUIRE(talk.add({{"role", "user"}, {"content", "Hello <|end|>"}}).ok());
  REQUIRE(talk.add({{"role", "assistant"}, {"content", ""}}).ok());
  const ChatPrompt prompt = require(talk.prompt());
  CHECK(prompt.text == "<|user|>Hello <|end|><|end|><|assistant|><|end|>");
  CHECK(std::ranges::count(prompt.ids, chat.tokenizer->find("<|end|>").value()) == 2);
  CHECK(talk.messages()[0]["content"] == "Hello <|end|>");
  CHECK(ends_of_answers(parts, *chat.tokenizer, std::tm()) ==
        std::vector<uint32_t>{chat.tokenizer->find("<|end|>").value()});
  CHECK(!reads_parts_alone(chat.usual, std::tm()));
}

TEST_CASE("the end of a turn is also that of generation_config.json") {
  const TemporaryFolder temporary;
  std::filesystem::copy(fixtures().model("llama-gqa"), temporary.path() / "model");
  const std::filesystem::path folder = temporary.path() / "model";
  std::filesystem::remove(folder / "generation_config.json");
  const std::vector<uint32_t> own = end_tokens(require(ModelFile::open(folder)), nullptr);
  temporary.write("model/generation_config.json", std::string_view(R"({"eos_token_id": [7, 9]})"));
  std::vector<uint32_t> both = {7, 9};
  both.insert(both.end(), own.begin(), own.end());
  CHECK(end_tokens(require(ModelFile::open(folder)), nullptr) == both);
  temporary.write("model/generation_config.json", std::string_view(R"({"eos_token_id": 7, )"));
  CHECK(end_tokens(require(ModelFile::open(folder)), nullptr) == own);
}

TEST_CASE("thinking is switched by the variables that a template reads") {
  const auto off = [](const char* text) { return thinking_variables(text, false).dump(); };
  CHECK(off("{% if enable_thinking is defined %}") == R"({"enable_thinking":false})");
  CHECK(off("{%- if thinking %}Respond in two parts{% endif %}") == R"({"thinking":false})");
  CHECK(off("{% if not thinking is defined %}{% set thinking = enable_thinking %}") ==
        R"({"enable_thinking":false,"thinking":false})");
  CHECK(off("Reasoning: {{ reasoning_effort }} {{ message.thinking }}") == R"({"reasoning_effort":"low"})");
  CHECK(off("{% if reasoning_effort == 'none' %}") == R"({"reasoning_effort":"none"})");
  CHECK(off("{% if thinking_budget == 0 %}") == R"({"thinking_budget":0})");
  CHECK(off("{{ messages }}") == "{}");
  CHECK(thinking_variables("{% if thinking %}{{ reasoning_effort }}", true).dump() == R"({"thinking":true})");
}

TEST_CASE("the template says which token ends an answer") {
  const ChatModel chat;
  CHECK(ends_of_answers(chat.usual, *chat.tokenizer, std::tm()) ==
        std::vector<uint32_t>{chat.tokenizer->find("<|end|>").value()});
}

TEST_CASE("chat goes on from the beginning of an answer, and says what is wrong with a tool choice") {
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary.path() / "talk.json";
  const CommandResult result =
      chat({"What is 2 plus 3?", "--prefill", " 2 plus", "--session", file.string()});
  CAPTURE(result.err);
  CHECK(result.out == "2 plus 3 is 5.\n");
  std::ifstream stream(file);
  CHECK(json::parse(stream)["messages"][1]["content"] == " 2 plus 3 is 5.");
  CHECK(json::parse(chat({"What is 2 plus 3?", "--prefill", " 2", "--json"}).out)["content"] ==
        " 2 plus 3 is 5.");
  CHECK(chat({"What is 2 plus 3?", "--prefill", "ye", "--choices", "yes,no"}).out == "yes\n");
  CHECK(fails_saying(chat({"What?", "--prefill", "maybe", "--choices", "yes,no"}), {"'maybe'", "form"}) ==
        "");
  const std::string tools =
      R"({"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]})";
  CHECK(fails_saying(chat({"What?", "--tool-choice", "required"}), {"'required'", "no tools"}) == "");
  CHECK(fails_saying(chat({"What?", "--tool-choice", "fly", "--chat-template-kwargs", tools}),
                     {"'fly'", "look"}) == "");
  CHECK(fails_saying(chat({"What?", "--tool-choice", "look", "--chat-template-kwargs", tools}),
                     {"template"}) == "");
  const CommandResult loose = chat({"What is 2 plus 3?", "--chat-template-kwargs", tools});
  CHECK(loose.out == "2 plus 3 is 5.\n");
  CHECK(loose.err.find("not held") != std::string::npos);
}
