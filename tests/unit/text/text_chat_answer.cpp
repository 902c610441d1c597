// What models answer, divided into content, thinking and tool calls.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/chat_families.h"
#include "text/chat/chat_answer.h"

using namespace pumice;
using namespace pumice::test;

namespace {

using nlohmann::ordered_json;

const ordered_json tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "weather",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])");

// A family of models: what its template has, how its prompt ends, and an answer.
struct Case {
  const char* name;
  const std::string& chat_template;
  const char* prompt;
  const char* answer;
  const char* content;
  const char* thinking;
  const char* calls; // "NAME {ARGUMENTS}", each with "#ID" if it has one, joined by "; "
};

const Case cases[] = {
    {"no marks at all", no_marks, "", " A <think>\n</think> {\"name\": 1} \n",
     " A <think>\n</think> {\"name\": 1} \n", "", ""},
    {"Qwen 3: thinking and a call", qwen, "<|im_start|>assistant\n",
     "<think>\nIt asks.\n\nSo call.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", "
     "\"arguments\": "
     "{\"city\": \"Rome\", \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
     "</tool_call>",
     "I look.", "It asks.\n\nSo call.", "weather {\"city\":\"Rome\",\"days\":2}; now {}"},
    {"Qwen 3: the prompt has ended thinking", qwen, "assistant\n<think>\n\n</think>\n\n", "Yes.", "Yes.", "",
     ""},
    {"Qwen 3: no thought", qwen, "", "<think>\n\n</think>\n\nYes.\n", "Yes.\n", "", ""},
    {"Hermes: a call that is none is content", hermes, "",
     "Like this: <tool_call> {\"name\": f} </tool_call>\n. See?",
     "Like this: <tool_call> {\"name\": f} </tool_call>\n. See?", "", ""},
    {"Hermes: a call that does not end", hermes, "", "<tool_call>{\"name\": \"now\"}", "", "", "now {}"},
    {"Hermes: a call that is cut off", hermes, "", "Well <tool_call>{\"name\": \"no",
     "Well <tool_call>{\"name\": \"no", "", ""},
    {"Qwen 3 Coder", coder, "",
     "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n"
     "<parameter=more>\n[1, {\"a\": null}]\n</parameter>\n</function>\n</tool_call>",
     "", "", "weather {\"city\":\"12\",\"days\":3,\"more\":[1,{\"a\":null}]}"},
    {"Qwen 3 Coder: without the outer mark", coder, "",
     "Now:\n<function=weather>\n<parameter=city>\na < b\nc\n</parameter>\n</function>", "Now:", "",
     "weather {\"city\":\"a < b\\nc\"}"},
    {"Seed-OSS", seed, "",
     "<seed:think>Hm</seed:think><seed:tool_call>\n<function=weather>\n<parameter=city>Rome</parameter>\n"
     "</function>\n</seed:tool_call>",
     "", "Hm", "weather {\"city\":\"Rome\"}"},
    {"Llama 3: an object alone", llama, "", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}",
     "", "", "weather {\"city\":\"Rome\"}"},
    {"Llama 3: several", llama, "",
     "\n{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": \"weather\", "
     "\"parameters\": "
     "{\"city\": \"a\\\"}b\"}}",
     "", "", "now {}; weather {\"city\":\"a\\\"}b\"}"},
    {"Llama 3: an object within content", llama, "", "So {\"name\": \"now\", \"parameters\": {}}",
     "So {\"name\": \"now\", \"parameters\": {}}", "", ""},
    {"Llama 3: tools of its own", llama, "", "<|python_tag|>brave_search.call(query=\"snow in 'Rome'\")", "",
     "", "brave_search {\"query\":\"snow in 'Rome'\"}"},
    {"Llama 3: a program", llama, "", "<|python_tag|>import math\nprint(math.pi)",
     "<|python_tag|>import math\nprint(math.pi)", "", ""},
    {"Mistral: a list", mistral, "[/INST]",
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}, \"id\": \"abcdefghi\"}, "
     "{\"name\": \"now\", \"arguments\": {}}]",
     "", "", "weather {\"city\":\"Rome\"}#abcdefghi; now {}"},
    {"Mistral: a list with what is no call", mistral, "[/INST]",
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {}}, {\"nom\": 1}, 5, {\"name\": \"now\"}]",
     "{\"nom\": 1}, 5", "", "weather {}; now {}"},
    {"Mistral: names and arguments", mistral, "[/INST]",
     "[THINK]Which city?[/THINK]Wait.[TOOL_CALLS]weather[CALL_ID]abc[ARGS]{\"city\": "
     "\"[Rome]\"}[TOOL_CALLS]now[ARGS]{}",
     "Wait.", "Which city?", "weather {\"city\":\"[Rome]\"}#abc; now {}"},
    {"gpt-oss: thinking and an answer", gpt_oss, "<|start|>assistant",
     "<|channel|>analysis<|message|>Easy: 2.<|end|><|start|>assistant<|channel|>final<|message|>It is **2**.",
     "It is **2**.", "Easy: 2.", ""},
    {"gpt-oss: a call in the channel", gpt_oss, "<|start|>assistant",
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.weather "
     "<|constrain|>json<|message|>{\"city\": \"Rome\"}<|call|>",
     "I look.", "", "weather {\"city\":\"Rome\"}"},
    {"gpt-oss: a call in the role", gpt_oss, "<|start|>assistant",
     " to=functions.now<|channel|>commentary json<|message|>{}", "", "", "now {}"},
    {"gpt-oss: arguments that are none", gpt_oss, "<|start|>assistant",
     "<|channel|>commentary to=functions.now<|message|>soon<|call|>",
     "<|channel|>commentary to=functions.now<|message|>soon<|call|>", "", ""},
    {"gpt-oss: no channel", gpt_oss, "<|start|>assistant", "It is 2.", "It is 2.", "", ""},
    {"gpt-oss: the prompt has begun the answer", gpt_oss, "<|start|>assistant<|channel|>final<|message|>",
     "It is 2.<|end|>", "It is 2.", "", ""},
    {"DeepSeek R1: the prompt has begun thinking", deepseek, "<｜Assistant｜><think>\n",
     "Hm.\n</think>\n\nI "
     "look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
     "{\"city\": "
     "\"Rome\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n"
     "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "I look.", "Hm.", "weather {\"city\":\"Rome\"}; now {}"},
    {"DeepSeek V3.1", deepseek, "<｜Assistant｜></think>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "", "", "weather {\"city\":\"Rome\"}"},
    {"GLM", glm, "<|assistant|>\n",
     "<think>Hm.</think>\nI look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>7</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>7</arg_value>\n</tool_call>",
     "I look.", "Hm.", "weather {\"city\":\"7\",\"days\":7}"},
    {"GLM: no arguments", glm, "", "<tool_call>weather\n</tool_call>", "", "", "weather {}"},
    {"GLM: a word that is no tool", glm, "", "<tool_call>hello</tool_call>", "<tool_call>hello</tool_call>",
     "", ""},
    {"Gemma 3", gemma3, "", "I look.\n```tool_code\nweather(city=\"Rome\", days=-2)\n```", "I look.", "",
     "weather {\"city\":\"Rome\",\"days\":-2}"},
    {"Gemma 3: several calls in a block", gemma3, "",
     "```tool_code\nweather(city=\"Rome\")\nprint(now());\n\nresult = weather(days=2)\n```", "", "",
     "weather {\"city\":\"Rome\"}; now {}; weather {\"days\":2}"},
    {"Gemma 3: a room, comments, all arguments at once", gemma3, "",
     "```tool_code\ndefault_api.weather(  # where\n  city=f\"Rome\", # the \"capital\"\n  **{'days': "
     "2},\n)\n```",
     "", "", "weather {\"city\":\"Rome\",\"days\":2}"},
    {"Gemma 3: what is computed is no call", gemma3, "", "```tool_code\nweather(city=f\"{name}\")\n```",
     "```tool_code\nweather(city=f\"{name}\")\n```", "", ""},
    {"Gemma 3: a comparison is none", gemma3, "", "```tool_code\na == weather(days=1)\n```",
     "```tool_code\na == weather(days=1)\n```", "", ""},
    {"LFM2: end marks in strings, and a room", lfm2, "",
     "<|tool_call_start|>[tools.weather(city='a <|tool_call_end|> b', days=1_0)]<|tool_call_end|>", "", "",
     "weather {\"city\":\"a <|tool_call_end|> b\",\"days\":10}"},
    {"GLM: an end mark in a value", glm, "",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>a </tool_call> b</arg_value>\n</tool_call>", "",
     "", "weather {\"city\":\"a </tool_call> b\"}"},
    {"Nemotron: an end mark in a string", nemotron, "",
     "<TOOLCALL>[{\"name\": \"weather\", \"arguments\": {\"city\": \"</TOOLCALL>\"}}]</TOOLCALL>", "", "",
     "weather {\"city\":\"</TOOLCALL>\"}"},
    {"Gemma 4", gemma4, "<|turn>model\n",
     "<|channel>thought\nHm.\n<channel|>I look.<|tool_call>call:weather{city:<|\"|>Rome, "
     "\"I\"<|\"|>,days:2,more:"
     "{a:[true,1.5e+3],b:null}}<tool_call|>",
     "I look.", "Hm.",
     "weather {\"city\":\"Rome, \\\"I\\\"\",\"days\":2,\"more\":{\"a\":[true,1500.0],\"b\":null}}"},
    {"Granite 3: thinking and a response", granite, "<|end_of_role|>",
     "<think>Hm.</think>\n<response>It is 2.</response>", "It is 2.", "Hm.", ""},
    {"Granite 3: a call", granite, "<|end_of_role|>",
     "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}]", "", "",
     "weather {\"city\":\"Rome\"}"},
    {"LFM2", lfm2, "",
     "<|tool_call_start|>[weather(city='Rome', days=2), now(a=[None, {'b': True}])]"
     "<|tool_call_end|>I look.",
     "I look.", "", "weather {\"city\":\"Rome\",\"days\":2}; now {\"a\":[null,{\"b\":true}]}"},
    {"LFM2: arguments without names", lfm2, "", "<|tool_call_start|>[weather('Rome')]<|tool_call_end|>", "",
     "", "weather {\"city\":\"Rome\"}"},
    {"LFM2: arguments without names of a tool that was not offered", lfm2, "",
     "<|tool_call_start|>[now('Rome')]<|tool_call_end|>", "<|tool_call_start|>[now('Rome')]<|tool_call_end|>",
     "", ""},
    {"Nemotron", nemotron, "<think>\n",
     "Hm.</think>\n<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "", "Hm.", "now {}"},
    {"thinking that does not end", qwen, "<think>\n", "Hm. A < b, and </thin", "", "Hm. A < b, and </thin",
     ""},
};

std::string text_of(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const ToolCall& call : calls) {
    text += (text.empty() ? "" : "; ") + call.name + " " + call.arguments.dump();
    if (!call.id.empty()) text += "#" + call.id;
  }
  return text;
}

Answered parse(const Case& each, const std::vector<std::string_view>& pieces) {
  AnswerParser parser(marks_of(each.chat_template), each.prompt, tools);
  Answered answered;
  for (const std::string_view piece : pieces) {
    for (const AnswerPart& part : parser.push(piece)) answered.add(part);
  }
  for (const AnswerPart& part : parser.finish()) answered.add(part);
  return answered;
}

void check_same(const Answered& answered, const Case& each) {
  CHECK(answered.content == each.content);
  CHECK(answered.thinking == each.thinking);
  CHECK(text_of(answered.tool_calls) == each.calls);
}

} // namespace

TEST_CASE("answers are divided as each family of models marks them") {
  for (const Case& each : cases) {
    INFO(each.name);
    check_same(parse(each, {each.answer}), each);
  }
}

TEST_CASE("answers are divided alike in whatever pieces they arrive") {
  for (const Case& each : cases) {
    INFO(each.name);
    const std::string_view answer = each.answer;
    for (size_t at = 0; at <= answer.size(); ++at) {
      INFO(at);
      check_same(parse(each, {answer.substr(0, at), answer.substr(at)}), each);
    }
    std::vector<std::string_view> bytes;
    for (size_t at = 0; at < answer.size(); ++at) bytes.push_back(answer.substr(at, 1));
    check_same(parse(each, bytes), each);
  }
}

namespace {

// What each piece of an answer shows at once: CONTENT|THINKING.
class Arriving {
public:
  explicit Arriving(const std::string& chat_template) : parser_(marks_of(chat_template), "", tools) {}
  std::string operator()(std::string_view piece) {
    Answered answered;
    for (const AnswerPart& part : parser_.push(piece)) answered.add(part);
    return answered.content + "|" + answered.thinking;
  }

private:
  AnswerParser parser_;
};

} // namespace

TEST_CASE("content arrives as soon as it cannot be the beginning of a mark") {
  Arriving said(chat_template(mentioned("</think>"), hermes_call));
  CHECK(said("Hello") == "Hello|");
  CHECK(said(" wor") == " wor|");
  CHECK(said("ld <tool") == "ld|");
  CHECK(said("s> ") == " <tools>|");
  CHECK(said("<think>one") == "|one");
  CHECK(said(" two") == "| two");
}

TEST_CASE("what looks like a call arrives as soon as it cannot be one") {
  Arriving hermes_said(hermes), python_said(olmo3), bare_said(llama);
  Arriving named(hermes), typed(hermes);
  CHECK(named("{\"name\": \"we") == "|");
  CHECK(named("a Bob\", ") == "{\"name\": \"wea Bob\",|");
  CHECK(typed("{\"type\"") == "{\"type\"|");
  CHECK(hermes_said("So <tool_call>{\"name\"") == "So|");
  CHECK(hermes_said(": now") == "|");
  CHECK(hermes_said(", then") == " <tool_call>{\"name\": now, then|");
  CHECK(python_said("<function_calls>weather(") == "|");
  CHECK(python_said("Rome)") == "<function_calls>weather(Rome)|");
  CHECK(bare_said("{\"name") == "|");
  CHECK(bare_said("s\": 1}") == "{\"names\": 1}|");
  CHECK(bare_said("{\"name\": \"now\"}") == "{\"name\": \"now\"}|");
}

TEST_CASE("an answer that may be a thought without its first mark waits for what it is") {
  Arriving thought(qwen), called(qwen), marked(cohere), shown(qwen), asked(qwen);
  CHECK(thought("Two and") == "|");
  CHECK(thought(" two.</think>") == "|Two and two.");
  CHECK(thought("Four") == "Four|");
  CHECK(called("I look.<tool_call>") == "I look.|");
  CHECK(marked("<|START_RESPONSE|>A cow") == "A cow|");
  CHECK(shown("<think>Hm") == "|Hm");
  CHECK(asked(std::string(20'000, 'a')) == std::string(20'000, 'a') + "|"); // too long for that
  CHECK(asked(" b") == " b|");
  AnswerParser plain(marks_of(qwen), "", tools, false); // asked to answer without thinking
  CHECK(plain.push("Four").size() == 1);
}

TEST_CASE("calls that nest without end, and long texts, are content") {
  for (const std::string& open : {std::string("["), std::string("{\"a\":")}) {
    std::string deep = "<tool_call>";
    for (int i = 0; i < 60'000; ++i) deep += open;
    const Case each = {"", hermes, "", deep.c_str(), deep.c_str(), "", ""};
    check_same(parse(each, {deep}), each);
    const std::string closed = deep + "</tool_call>";
    const Case other = {"", hermes, "", closed.c_str(), closed.c_str(), "", ""};
    check_same(parse(other, {closed}), other);
  }
  const std::string header = "<|channel|>" + std::string(1000, 'x') + "<|message|>a";
  const std::string said = std::string(1000, 'x') + "a";
  const Case each = {"", gpt_oss, "", header.c_str(), said.c_str(), "", ""};
  for (size_t at = 0; at <= header.size(); ++at) {
    check_same(parse(each, {std::string_view(header).substr(0, at), std::string_view(header).substr(at)}),
               each);
  }
}

TEST_CASE("an answer becomes a message for the next prompt") {
  Answered answered = parse(cases[1], {cases[1].answer});
  CHECK(answered.message().dump() ==
        R"({"role":"assistant","content":"I look.","reasoning_content":"It asks.\n\nSo call.","tool_calls":[)"
        R"({"type":"function","function":{"name":"weather","arguments":{"city":"Rome","days":2}}},)"
        R"({"type":"function","function":{"name":"now","arguments":{}}}]})");
}
