// How the marks of a model's answers follow from its own template, and answers that do not keep to it.
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/chat_answers.h"
#include "support/chat_families.h"
#include "support/sanitized.h"
#include "text/chat/call_ids.h"

using namespace pumice;
using namespace pumice::test;

namespace {

using nlohmann::ordered_json;

const ordered_json tools = ordered_json::parse(R"([
  {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {
    "place": {"type": "string"}, "far": {"type": "boolean"}}}}},
  {"type": "function", "function": {"name": "edit", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}, "line": {"type": "integer"}, "all": {"type": "boolean"}, "list": {"type": "array"},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "either": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    "some": {"type": ["string", "null"]}, "one": {"enum": ["1", "2", "auto"]}, "level": {"enum": [1, 2, null]},
    "ratio": {"type": "number"}, "map": {"type": "object"}, "named": {"$ref": "#/$defs/Name"},
    "both": {"allOf": [{"type": "integer"}]}, "py": {"type": "str"}, "maybe_py": {"type": "Optional[str]"},
    "count_py": {"type": "int | None"}, "items_py": {"type": "List[int]"}, "mixed_py": {"type": "List[int | str]"},
    "union_py": {"type": "Union[int, List[str], None]"}, "one_py": {"type": "Optional[Union[float, str]]"},
    "yes_py": {"type": "bool"}},
    "$defs": {"Name": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {
    "code": {"type": "string"}, "count": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {
    "n": {"type": "integer"}}}}}])");

void check(const AnswerCase& each) {
  check_answer(each, tools);
}

std::string edit(const std::string& argument, const std::string& value) {
  return "<tool_call>\n<function=edit>\n<parameter=" + argument + ">\n" + value +
         "\n</parameter>\n</function>\n</tool_call>";
}

std::string python(const std::string& arguments) {
  return "<|tool_call_start|>[run(" + arguments + ")]<|tool_call_end|>";
}

} // namespace

TEST_CASE("the marks of families that write answers, thoughts and calls in their own ways") {
  const std::string cave = R"(look {"place":"cave"})";
  check({cohere, "<|START_RESPONSE|>A cow says moo.<|END_RESPONSE|>", "A cow says moo.", "", ""});
  check({cohere, "A cow says moo.<|END_RESPONSE|>", "A cow says moo.", "", ""});
  check({cohere, "<|START_THINKING|>A cow?<|END_THINKING|><|START_RESPONSE|>Moo.<|END_RESPONSE|>", "Moo.",
         "A cow?", ""});
  check({cohere,
         "<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
         "\"tool_name\": \"look\", \"parameters\": {\"place\": \"cave\"}}\n]<|END_ACTION|>",
         "", "I will look.", cave});
  check({minimax,
         "I run it.\n</think>\n\n<minimax:tool_call>\n<invoke name=\"run\">\n<parameter "
         "name=\"code\">ls</parameter>\n"
         "<parameter name=\"count\">3</parameter>\n</invoke>\n</minimax:tool_call>",
         "", "I run it.", R"(run {"code":"ls","count":3})"});
  check({minimax,
         "Hm.</think><minimax:tool_call>\n<invoke name=\"wait\">\n<parameter "
         "name=\"n\">1</parameter>\n</invoke>\n"
         "<invoke name=\"look\">\n</invoke>\n</minimax:tool_call>",
         "", "Hm.", R"(wait {"n":1}; look {})"});
  check(
      {deepseek32,
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"place\" "
       "string=\"true\">"
       "cave</｜DSML｜parameter>\n<｜DSML｜parameter name=\"far\" string=\"false\">true</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       "", "", R"(look {"place":"cave","far":true})"});
  check({deepseek32,
         "<think>Hm.</think>\n\nI look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke "
         "name=\"edit\">\n<｜DSML｜parameter "
         "name=\"line\" string=\"true\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
         "I look.", "Hm.", R"(edit {"line":"7"})"});
  check({llama4, "<|python_start|>{\"name\": \"look\", \"parameters\": {\"place\": \"cave\"}}<|python_end|>",
         "", "", cave});
  check({llama4, "<|python_start|>[look(place=\"cave\"), wait(n=2)]<|python_end|>", "", "",
         cave + R"(; wait {"n":2})"});
  check({llama4, "[look(place=\"cave\"), wait(n=2)]", "", "", cave + R"(; wait {"n":2})"});
  check({llama4, "[look at the cave]", "[look at the cave]", "", ""});
  check({olmo3, "<function_calls>look(place=\"cave\")\nwait(n=2, hard=null)</function_calls>", "", "",
         cave + R"(; wait {"n":2,"hard":null})"});
  check({olmo3, "I look.\n<function_calls>\nlook(place='cave')\n</function_calls>\nSo.", "I look.So.", "",
         cave});
  check({hunyuan,
         "<think>\nHm.\n</think>\n<answer>\nI look.\n</answer>\n<tool_calls><tool_call>look\n```json\n"
         "{\"place\": \"cave\"}\n```</tool_call></tool_calls>",
         "I look.", "Hm.", cave});
  check({hunyuan, "<tool_calls>[{\"name\": \"look\", \"arguments\": {\"place\": \"cave\"}}]</tool_calls>", "",
         "", cave});
  check({phi4, "<|tool_call|>{\"name\": \"look\", \"arguments\": {\"place\": \"cave\"}}<|/tool_call|>", "",
         "", cave});
  check({phi4, "<|tool_call|>[{\"name\": \"look\", \"arguments\": {\"place\": \"cave\"}}]<|/tool_call|>", "",
         "", cave});
  check(
      {kimi,
       "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>"
       "{\"place\": \"cave\"}<|tool_call_end|><|tool_call_begin|>functions.wait:1<|tool_call_argument_begin|>"
       "{\"n\": 1}<|tool_call_end|><|tool_calls_section_end|>",
       "I look.", "", cave + R"(; wait {"n":1})"});
  check({kimi,
         "<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"place\": "
         "\"cave\"}<|tool_call_end|>",
         "", "", cave});
}

TEST_CASE("calls of MiroThinker, Functionary and Gemma 3") {
  const std::string cave = R"(look {"place":"cave"})";
  const std::string mcp =
      "<use_mcp_tool>\n<server_name>eyes</server_name>\n<tool_name>look</tool_name>\n<arguments>\n"
      "{\"place\": \"cave\"}\n</arguments>\n</use_mcp_tool>";
  check({mirothinker, "<think>\nHm.\n</think>\n\nI look.\n" + mcp, "I look.", "Hm.", cave});
  check({mirothinker, mcp + "\n" + mcp, "", "", cave + "; " + cave});
  check({mirothinker, "<use_mcp_tool> is a mark.", "<use_mcp_tool> is a mark.", "", ""});
  check({functionary, "all\nI look.>>>look\n{\"place\": \"cave\"}", "I look.", "", cave});
  check({functionary, "look\n{\"place\": \"cave\"}>>>wait\n{\"n\": 2}", "", "", cave + R"(; wait {"n":2})"});
  check({functionary, "all\nAs in\n>>> 1 + 1\n2", "As in\n>>> 1 + 1\n2", "", ""});
  check({gemma3, "```tool_code\nprint(look(place=\"cave\"))\n```", "", "", cave});
  check({gemma3, "```tool_code\nprint(look(place=\"cave\"))\nprint(wait(n=2))\n```", "", "",
         cave + R"(; wait {"n":2})"});
}

TEST_CASE("families whose templates say nothing of calls, or only mention them") {
  const std::string cave = R"(look {"place":"cave"})",
                    object = R"({"name": "look", "arguments": {"place": "cave"}})";
  const std::string phi = "{%- if t %}{{ '<|tool|>' + t + '<|/tool|>' }}{%- endif %}" + no_marks;
  check({phi, "<|tool_call|>[" + object + "]<|/tool_call|>", "", "", cave});
  const std::string middle =
      "{%- for m in messages %}{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' + m.content "
      "+ '<|im_end|>' }}{%- endfor %}";
  check({middle,
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>"
         "{\"place\": \"cave\"}<|tool_call_end|><|tool_calls_section_end|>",
         "", "", cave});
  const std::string told = "{{ 'Write calls as <function_calls>f(a=1)</function_calls>.' }}" + no_marks;
  check({told, "<function_calls>look(place=\"cave\")</function_calls>", "", "", cave});
  const std::string python =
      "{%- if code %}{{ '<|python_start|>' + code + '<|python_end|>' }}{%- endif %}" + llama;
  check({python, "<|python_start|>[look(place=\"cave\")]<|python_end|>", "", "", cave});
  check({python, "{\"name\": \"look\", \"parameters\": {\"place\": \"cave\"}}", "", "", cave});
  check({granite, "<response>It is 2.</response>", "It is 2.", "", ""});
}

TEST_CASE("the marks of a template that repeats them without end are found soon") {
  std::string repeated = "{#", different = "{#";
  while (repeated.size() < (1 << 20)) repeated += "</think></answer>";
  for (int i = 0; different.size() < (1 << 20); ++i)
    different += "</think" + std::to_string(i) + "><tool_call" + std::to_string(i) + ">";
  for (const std::string& each : {repeated, different}) {
    const std::clock_t begin = std::clock();
    const AnswerMarks marks = marks_of(each + "#}" + chat_template("", ""));
    const double most = sanitized ? 20 : 1; // seconds; minutes if each mark is sought in the whole
    CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < most);
    CHECK(marks.thinking[0].end.starts_with("</think"));
    CHECK(marks.thinking.size() < 100);
    CHECK(marks.content.size() < 2);
  }
}

TEST_CASE("a family that nobody has seen") {
  const std::string unseen = chat_template(shown("<|ponder|>", "<|/ponder|>"),
                                           named_call("<|act|><|do|>", "<|with|>", "<|done|><|/act|>"));
  check({unseen,
         "<|ponder|>Hm.<|/ponder|>I look.<|act|><|do|>look<|with|>{\"place\": \"cave\"}<|done|><|/act|>",
         "I look.", "Hm.", R"(look {"place":"cave"})"});
  const std::string tags =
      chat_template("", "{{ '[USE]<step tool=\"' + c.function.name + '\"></step>[/USE]' }}");
  check({tags, "[USE]<step tool=\"look\"><with key=\"place\">cave</with></step>[/USE]", "", "",
         R"(look {"place":"cave"})"});
}

TEST_CASE("marks of odd forms, other names for names and arguments, and words in the place of marks") {
  const std::string cave = R"(look {"place":"cave"})", arguments = R"({"place": "cave"})";
  for (const auto& [open, close] : {std::pair<const char*, const char*>{"◁ponder▷", "◁/ponder▷"},
                                    {"<思考>", "</思考>"},
                                    {"[mind]", "[/mind]"},
                                    {"<<muse>>", "<</muse>>"},
                                    {"<|inner_prefix|>", "<|inner_suffix|>"}}) {
    const std::string unseen = chat_template(
        shown(open, close), named_call("«call»{\"name\": \"", "\", \"arguments\": ", "}«/call»"));
    check({unseen, std::string(open) + "Hm." + close + "Yes.", "Yes.", "Hm.", ""});
    check({unseen,
           std::string(open) + "Hm." + "«call»{\"name\": \"look\", \"arguments\": " + arguments + "}«/call»",
           "", "Hm.", cave});
  }
  const std::string tool = chat_template("", named_call("<use>{\"tool\": \"", "\", \"input\": ", "}</use>"));
  check({tool, "<use>{\"tool\": \"look\", \"input\": " + arguments + "}</use>", "", "", cave});
  check({tool, "I look.\n{\"tool\": \"look\", \"input\": " + arguments + "}</use>", "I look.", "", cave});
  const std::string list =
      chat_template("", named_call("functools[{\"name\": \"", "\", \"arguments\": ", "}]"));
  check({list, "functools[{\"name\": \"look\", \"arguments\": " + arguments + "}]", "", "", cave});
  check({list, "With functools[0] and so on.", "With functools[0] and so on.", "", ""});
  const std::string action = chat_template("", named_call("Action: ", "\nAction Input: ", "\n"));
  check({action, "I look.\nAction: look\nAction Input: " + arguments + "\n", "I look.", "", cave});
  const std::string id_first = chat_template(
      "", "{{ '<|call|>' + c.id + '<|name|>' + c.function.name + '<|args|>' + (c.function.arguments "
          "| tojson) + '<|end|>' }}");
  check({id_first, "<|call|>c0<|name|>look<|args|>" + arguments + "<|end|>", "", "", cave});
  const std::string nested = chat_template(
      "", "{{ '<｜tool_call_begin｜>function<｜tool_sep｜><step:invoke name=\"' + c.function.name + '\">' "
          "}}{%- for k, v in "
          "c.function.arguments | items %}{{ '<step:parameter name=\"' + k + '\">' + v + '</step:parameter>' "
          "}}{%- endfor %}{{ '</step:invoke><｜tool_call_end｜>' }}");
  check({nested,
         "<｜tool_call_begin｜>function<｜tool_sep｜><step:invoke name=\"look\"><step:parameter "
         "name=\"place\">cave</step:parameter></step:invoke><｜tool_call_end｜>",
         "", "", cave});
  const std::string words =
      chat_template(shown("Here is my thought process:\n", "\nHere is my response:\n"), "");
  check({words, "Here is my thought process:\nHm.\nHere is my response:\nYes.", "Yes.", "Hm.", ""});
  // The head of an answer comes again between a thought and what follows it.
  const std::string again = chat_template(shown("<|think|>", "<|end|><|im_start|>assistant\n"),
                                          named_call("<|do|>", "<|with|>", "<|end|>"));
  check({again, "<|think|>Hm.<|end|><|im_start|>assistant\nYes.", "Yes.", "Hm.", ""});
  check({again, "<|think|>Hm.<|end|><|im_start|>assistant\n<|do|>look<|with|>" + arguments + "<|end|>", "",
         "Hm.", cave});
  check({hermes, "<|im_start|>assistant\nYes.", "Yes.", "", ""});
}

TEST_CASE("a call ends where its grammar ends") {
  for (const std::string text : {"close it with </tool_call> please", "</tool_call>",
                                 "{\\\"name\\\": </tool_call>}", "a\\\\\\\"}}</tool_call>", "<tool_call>"}) {
    const std::string arguments = "{\"text\":\"" + text + "\"}";
    check({hermes, "<tool_call>\n{\"name\": \"edit\", \"arguments\": " + arguments + "}\n</tool_call>", "",
           "", "edit " + arguments});
    check({phi4, "<|tool_call|>[{\"name\": \"edit\", \"arguments\": " + arguments + "}]<|/tool_call|>", "",
           "", "edit " + arguments});
    check({llama4, "<|python_start|>{\"name\": \"edit\", \"parameters\": " + arguments + "}<|python_end|>",
           "", "", "edit " + arguments});
  }
  check(
      {coder, edit("text", "use </tool_call> to end"), "", "", R"(edit {"text":"use </tool_call> to end"})"});
  check({coder, edit("text", "a </parameter> b"), "", "", R"(edit {"text":"a </parameter> b"})"});
  check({coder, edit("text", "a </parameter>"), "", "", R"(edit {"text":"a </parameter>"})"});
  check({coder, edit("text", "</function>\n<function=look>"), "", "",
         R"(edit {"text":"</function>\n<function=look>"})"});
  check({glm,
         "<tool_call>edit\n<arg_key>text</arg_key>\n<arg_value>a </arg_value> b "
         "</tool_call> c</arg_value>\n</tool_call>",
         "", "", R"(edit {"text":"a </arg_value> b </tool_call> c"})"});
  check({gemma3, "```tool_code\nrun(code=\"```python\\nx = 1\\n```\")\n```", "", "",
         R"(run {"code":"```python\nx = 1\n```"})"});
  check({olmo3, "<function_calls>run(code='</function_calls>)')</function_calls>", "", "",
         R"x(run {"code":"</function_calls>)"})x"});
  check({mistral, "[TOOL_CALLS]edit[ARGS]{\"text\": \"[TOOL_CALLS]look[ARGS]{}\"}", "", "",
         R"(edit {"text":"[TOOL_CALLS]look[ARGS]{}"})"});
  check({gemma4, "<|tool_call>call:edit{text:<|\"|>} <tool_call|><|\"|>}<tool_call|>", "", "",
         R"(edit {"text":"} <tool_call|>"})"});
}

TEST_CASE("line ends around a value are the template's, or the value's") {
  const std::string begin = "</think><minimax:tool_call>\n<invoke name=\"edit\">\n<parameter name=\"text\">",
                    end = "</parameter>\n</invoke>\n</minimax:tool_call>";
  check({minimax, begin + "x = 1\n" + end, "", "", R"(edit {"text":"x = 1\n"})"});
  check({minimax, begin + "\nx = 1\n" + end, "", "", R"(edit {"text":"x = 1"})"});
  check({coder, edit("text", "x = 1\n"), "", "", R"(edit {"text":"x = 1\n"})"});
  check({coder, edit("text", ""), "", "", R"(edit {"text":""})"});
}

TEST_CASE("line ends within strings of JSON") {
  for (const auto& [written, read] : {std::pair<const char*, const char*>{"one\ntwo", "one\\ntwo"},
                                      {"one\r\ntwo", "one\\r\\ntwo"},
                                      {"a\tb", "a\\tb"},
                                      {"\\d+\n", "\\\\d+\\n"},
                                      {"\\u00e9\\ud83d\\ude00", "é😀"}}) {
    check({hermes,
           std::string("<tool_call>\n{\"name\": \"look\", \"arguments\": {\"place\": \"") + written +
               "\"}}\n</tool_call>",
           "", "", std::string("look {\"place\":\"") + read + "\"}"});
  }
}

TEST_CASE("calls that are not quite as the template writes them") {
  const std::string object = R"({"name": "look", "arguments": {"place": "cave"}})",
                    cave = R"(look {"place":"cave"})";
  check({hermes, "<tool_call>\n```json\n" + object + "\n```\n</tool_call>", "", "", cave});
  check({hermes, "<tool_call>" + object + "\n" + object + "</tool_call>Done.", "Done.", "",
         cave + "; " + cave});
  check({hermes, "<tool_call>[" + object + ", " + object + "]</tool_call>", "", "", cave + "; " + cave});
  check({hermes, "<tool_call>{'name': 'look', 'arguments': {'place': 'cave',},}</tool_call>", "", "", cave});
  check({hermes, R"(<tool_call>{"name": "look", "arguments": "{\"place\": \"cave\"}"}</tool_call>)", "", "",
         cave});
  check({hermes, "<tool_call>" + object + " so</tool_call> then", "so then", "", cave});
  check({hermes,
         "<tool_call>\n<function=look>\n<parameter=place>\ncave\n</parameter>\n</function>\n</tool_call>", "",
         "", cave});
  check({coder, "<tool_call>\n" + object + "\n</tool_call>", "", "", cave});
  check({coder, "<function=look>{\"place\": \"cave\"}</function>", "", "", cave});
  check({coder, "<tool_call>\n<function=look>\n<parameter=place>\ncave\n</parameter>\n</tool_call>", "", "",
         cave});
  check({mistral, "[TOOL_CALLS]look{\"place\": \"cave\"}", "", "", cave});
  const std::string no_end = chat_template("", "{{ '<tool_call>' + (c.function | tojson) }}");
  check({no_end, "<tool_call>" + object + "</tool_call>", "", "", cave});
  check({mistral, "[TOOL_CALLS] [" + object + "]", "", "", cave});
  check({lfm2, "<|tool_call_start|>[" + object + "]<|tool_call_end|>", "", "", cave});
  check({deepseek, "<｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"place\": \"cave\"}<｜tool▁call▁end｜>", "", "",
         cave});
}

TEST_CASE("a call inside thinking is a call") {
  const std::string object = R"({"name": "look", "arguments": {"place": "cave"}})",
                    cave = R"(look {"place":"cave"})";
  const std::string qwen_thinks = chat_template(think, hermes_call, "<think>\n");
  check(
      {qwen_thinks, "I should look.\n<tool_call>\n" + object + "\n</tool_call>", "", "I should look.", cave});
  check({qwen_thinks, "I should look.\n<tool_call>\n" + object + "\n</tool_call>\n</think>\n\nDone.", "Done.",
         "I should look.", cave});
  check({qwen_thinks, "A call is <tool_call>{...}</tool_call>, so.</think>Yes.", "Yes.",
         "A call is <tool_call>{...}</tool_call>, so.", ""});
  check({qwen_thinks, "Not <tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call></think>Yes.", "Yes.",
         "Not <tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>", ""});
  check({qwen_thinks, "<think>\nTwice.</think>Yes.", "Yes.", "Twice.", ""});
  check({minimax,
         "I look.<minimax:tool_call>\n<invoke name=\"look\">\n<parameter "
         "name=\"place\">cave</parameter>\n</invoke>\n"
         "</minimax:tool_call>",
         "", "I look.", cave});
  check({glm,
         "<think>I look.<tool_call>look\n<arg_key>place</arg_key>\n<arg_value>cave</arg_value>\n</tool_call>",
         "", "I look.", cave});
  check({cohere,
         "<|START_THINKING|>I look.<|START_ACTION|>[{\"tool_name\": \"look\", \"parameters\": {\"place\": "
         "\"cave\"}}]<|END_ACTION|>",
         "", "I look.", cave});
  check({gemma4, "<|channel>thought\nI look.<|tool_call>call:look{place:<|\"|>cave<|\"|>}<tool_call|>", "",
         "I look.", cave});
  check({mistral, "[THINK]I look.[TOOL_CALLS]look[ARGS]{\"place\": \"cave\"}", "", "I look.", cave});
  check({gpt_oss,
         "<|channel|>analysis<|message|>I look.<|start|>assistant<|channel|>commentary to=functions.look "
         "<|constrain|>json<|message|>{\"place\": \"cave\"}<|call|>",
         "", "I look.", cave});
}

TEST_CASE("thinking without its first mark, and templates that say nothing of it") {
  check({qwen, "Two and two.\n</think>\n\nFour.", "Four.", "Two and two.", ""});
  check({glm, "Two and two.</think>Four.", "Four.", "Two and two.", ""});
  check({gemma4, "Two and two.\n<channel|>Four.", "Four.", "Two and two.", ""});
  check({qwen, "Four.", "Four.", "", ""});
  check({qwen, "I look.\n<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>", "I look.", "",
         "look {}"});
  check({deepseek, "Two.\n</think>\n\nFour.", "Two.Four.", "", ""}); // was shown before
  check({no_marks, "<think>\nTwo and two.\n</think>\n\nFour.", "Four.", "Two and two.", ""});
  check({no_marks, "\n<think>Two.</think>Four. <think>", "Four. <think>", "Two.", ""});
  check({no_marks, "Write <think>Two.</think>", "Write <think>Two.</think>", "", ""});
  check({no_marks, "The mark </think> ends it.", "The mark </think> ends it.", "", ""});
}

TEST_CASE("a missing opening mark") {
  check({coder, "I edit.\n<function=edit>\n<parameter=text>\nhi\n</parameter>\n</function>\n</tool_call>",
         "I edit.", "", R"(edit {"text":"hi"})"});
  check({hermes, "{\"name\": \"look\", \"arguments\": {\"place\": \"cave\"}}\n</tool_call>", "", "",
         R"(look {"place":"cave"})"});
  check({minimax,
         "Hm.</think><invoke name=\"look\">\n<parameter name=\"place\">cave</parameter>\n</invoke>\n"
         "</minimax:tool_call>",
         "", "Hm.", R"(look {"place":"cave"})"});
  const std::string object = "{\"name\": \"look\", \"arguments\": {\"place\": \"cave\"}}";
  check({hermes, "I look.\n" + object + "\n</tool_call>\nSo.", "I look.So.", "", R"(look {"place":"cave"})"});
  check({hermes, "I look.\n\n" + object + "</tool_call>", "I look.", "", R"(look {"place":"cave"})"});
  for (const std::string& other :
       {"I look.\n" + object, "It is " + object + "</tool_call>", "As in\n```json\n" + object + "\n```",
        "So:\n" + object + "\nand </tool_call>"})
    check({hermes, other, other, "", ""});
  check({glm, "look\n<arg_key>place</arg_key>\n<arg_value>cave</arg_value>\n</tool_call>", "", "",
         R"(look {"place":"cave"})"});
  check({lfm2_shown, "[look(place='cave')]<|tool_call_end|>", "", "", R"(look {"place":"cave"})"});
  check({olmo3, "I look.\nlook(place='cave')</function_calls>", "I look.", "", R"(look {"place":"cave"})"});
  check({olmo3, "As in\nlook(place='cave')\n", "As in\nlook(place='cave')\n", "", ""});
  check({hermes, "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}", "", ""});
  check({hermes, "{\"name\": \"Bob\"}", "{\"name\": \"Bob\"}", "", ""});
  check({hermes, "{\"a\": 1}", "{\"a\": 1}", "", ""});
}

TEST_CASE("arguments have the types of the schema") {
  const std::pair<const char*, const char*> all[] = {{"text|42", R"("42")"},
                                                     {"line|5", "5"},
                                                     {"all|True", "true"},
                                                     {"all|false", "false"},
                                                     {"list|[\"a\", 1]", R"(["a",1])"},
                                                     {"list|['a', None]", R"(["a",null])"},
                                                     {"list|('a', 1)", R"(["a",1])"},
                                                     {"maybe|42", R"("42")"},
                                                     {"maybe|None", "null"},
                                                     {"maybe|null", "null"},
                                                     {"maybe|[1]", R"("[1]")"},
                                                     {"either|7", "7"},
                                                     {"either|False", "false"},
                                                     {"some|3.5", R"("3.5")"},
                                                     {"some|null", "null"},
                                                     {"one|2", R"("2")"},
                                                     {"one|auto", R"("auto")"},
                                                     {"level|2", "2"},
                                                     {"level|None", "null"},
                                                     {"ratio|3", "3"},
                                                     {"ratio|.5", "0.5"},
                                                     {"map|{'a': 1}", R"({"a":1})"},
                                                     {"map|{\"a\": {\"b\": null}}", R"({"a":{"b":null}})"},
                                                     {"named|7", R"("7")"},
                                                     {"both|7", "7"},
                                                     {"text|True", R"("True")"},
                                                     {"text|{'a': 1}", R"("{'a': 1}")"},
                                                     {"line|5.0", "5"},
                                                     {"line|many", R"("many")"},
                                                     {"py|42", R"("42")"},
                                                     {"py|True", R"("True")"},
                                                     {"maybe_py|42", R"("42")"},
                                                     {"maybe_py|None", "null"},
                                                     {"count_py|42", "42"},
                                                     {"count_py|None", "null"},
                                                     {"items_py|[1, 2]", "[1,2]"},
                                                     {"mixed_py|[1, \"a\"]", R"([1,"a"])"},
                                                     {"union_py|7", "7"},
                                                     {"union_py|7.0", "7"},
                                                     {"union_py|[\"a\"]", R"(["a"])"},
                                                     {"union_py|None", "null"},
                                                     {"one_py|0.5", "0.5"},
                                                     {"one_py|None", "null"},
                                                     {"one_py|True", R"("True")"},
                                                     {"yes_py|True", "true"},
                                                     {"other|7", "7"},
                                                     {"other|seven", R"("seven")"}};
  for (const auto& [given, expected] : all) {
    const std::string_view pair = given;
    const std::string name(pair.substr(0, pair.find('|'))), value(pair.substr(pair.find('|') + 1));
    const std::string call = "edit {\"" + name + "\":" + expected + "}";
    check({coder, edit(name, value), "", "", call});
    check({glm,
           "<tool_call>edit\n<arg_key>" + name + "</arg_key>\n<arg_value>" + value +
               "</arg_value>\n</tool_call>",
           "", "", call});
  }
}

TEST_CASE("arguments as Python spells them") {
  const std::pair<const char*, const char*> strings[] = {
      {R"('a\x41\0\a')", R"("aA\u0000\u0007")"},
      {R"x("re.match(r'\d+\s', s)")x", R"x("re.match(r'\\d+\\s', s)")x"},
      {R"('C:\dir\new')", R"("C:\\dir\new")"},
      {R"('\d+')", R"("\\d+")"},
      {R"(r'\d\n')", R"("\\d\\n")"},
      {R"(R"\"")", R"("\\\"")"},
      {"'''one\n'two' '''", R"("one\n'two' ")"},
      {R"("""a "b" c""")", R"("a \"b\" c")"},
      {R"('it\'s')", R"("it's")"},
      {R"('a' 'b')", R"("ab")"},
      {R"(u'\u00e9\U0001F600')", R"("é😀")"},
      {R"('\101\/')", R"("A\\/")"},
      {"('a'\n 'b')", R"("ab")"},
      {R"('')", R"("")"},
      {R"(b'\xe9')", R"("é")"},
      {R"(rb"\x")", R"("\\x")"},
      {R"(f'no braces')", R"("no braces")"},
      {R"x(("one, " 'two'))x", R"("one, two")"},
      {R"("]<|tool_call_end|>")", R"("]<|tool_call_end|>")"},
      {R"('\ud83d\ude00')", R"("😀")"},
      {R"("tab\there")", R"("tab\there")"}};
  for (const auto& [written, read] : strings)
    check({lfm2_shown, python(std::string("code=") + written), "", "",
           std::string("run {\"code\":") + read + "}"});
  const std::pair<const char*, const char*> values[] = {
      {"1_000", "1000"},
      {".5", "0.5"},
      {"5.", "5.0"},
      {"-.5e3", "-500.0"},
      {"+3", "3"},
      {"0x1F", "31"},
      {"-0b101", "-5"},
      {"0o17", "15"},
      {"1E3", "1000.0"},
      {"(1, 2)", "[1,2]"},
      {"(1,)", "[1]"},
      {"()", "[]"},
      {"(1)", "1"},
      {"{1, 2}", "[1,2]"},
      {"{'a': (1, None)}", R"({"a":[1,null]})"},
      {"{}", "{}"},
      {"[True, false,]", "[true,false]"},
      {"{1: 'a'}", R"({"1":"a"})"},
      {"0x_FF", "255"},
      {"0b1010101010101010", "43690"},
      {"0xFFFFFFFFFFFFFFFF", "18446744073709551615"},
      {"-0x7F", "-127"},
      {"1_0.5_0e1_0", "105000000000.0"},
      {"1.e3", "1000.0"},
      {"dict(a=1, b=[2])", R"({"a":1,"b":[2]})"},
      {"dict({'a': 1})", R"({"a":1})"},
      {"dict()", "{}"},
      {"list((1, 2))", "[1,2]"},
      {"tuple([1])", "[1]"},
      {"set()", "[]"},
      {"[(1, 'a'), {'b': {None}}]", R"([[1,"a"],{"b":[null]}])"},
      {"{-1: True, 2.5: ()}", R"({"-1":true,"2.5":[]})"},
      {"((1, 2), 3)", "[[1,2],3]"},
      {"1 # one\n", "1"},
      {"\\\n  7", "7"}};
  for (const auto& [written, read] : values)
    check({lfm2_shown, python(std::string("count = ") + written), "", "",
           std::string("run {\"count\":") + read + "}"});
  check({lfm2_shown, python("'ls', 3"), "", "", R"(run {"code":"ls","count":3})"});
  check({lfm2_shown, python("r'\\d', count=3,"), "", "", R"(run {"code":"\\d","count":3})"});
  check({lfm2_shown, python("straße='lang', code: 'ls'"), "", "", R"(run {"straße":"lang","code":"ls"})"});
  for (const char* none :
       {"code=name", "code=1 + 2", "code=f(1)", "code=list(1)", "1, 2, 3", "code='a", "count=007"})
    check({lfm2_shown, python(none), python(none), "", ""});
}

TEST_CASE("headers of gpt-oss") {
  check({gpt_oss,
         "<|channel|>commentary "
         "to=assistant<|channel|>commentary?<|end|><|start|>assistant<|channel|>final<|message|>"
         "Hello there.",
         "Hello there.", "", ""});
  check({gpt_oss, "<|channel|>Sure, here it is: the analysis of the poem is short.",
         "Sure, here it is: the analysis of the poem is short.", "", ""});
  check({gpt_oss, "<|channel|>analysis<|channel|>final<|message|>Yes.", "Yes.", "", ""});
  check({gpt_oss, "<|channel|>final<|channel|>analysis<|message|>Hm.<|end|>", "", "Hm.", ""});
  check({gpt_oss, "<|start|>assistant<|start|>assistant<|channel|>final<|message|>Yes.<|return|>", "Yes.", "",
         ""});
  check({gpt_oss, "<|channel|>analysis<|message|>Hm.<|end|><|channel|>final answer: 5", "final answer: 5",
         "Hm.", ""});
  check({gpt_oss, "<|channel|>final<|message|>One<|message|> two.<|end|>", "One two.", "", ""});
  const std::string call = "<|message|>{\"code\": \"ls\"}<|call|>", ls = R"(run {"code":"ls"})";
  check({gpt_oss, "<|channel|>commentary to=functions.runjson" + call, "", "", ls});
  check({gpt_oss, " to=functions.runcode<|channel|>commentary" + call, "", "", ls});
  check({gpt_oss, "<|channel|>commentary to=functions.run <|constrain|>json" + call, "", "", ls});
  check({gpt_oss, "<|channel|>analysis to=functions.run code" + call, "", "", ls});
  check({gpt_oss, "<|channel|>commentary to=run" + call, "", "", ls});
  check({gpt_oss, "<|channel|>final <|constrain|>json<|message|>{}<|return|>", "{}", "", ""});
  check({gpt_oss, "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.<|return|>", "Yes.", "Hm.",
         ""});
  check({gpt_oss, "<|channel|>commentary to=functions.run<|channel|>commentary json" + call, "", "", ls});
  check({gpt_oss, "<|channel|>commentary<|constrain|>json to=functions.run" + call, "", "", ls});
  check({gpt_oss,
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|start|>assistant to=functions.run"
         "<|channel|>commentary<|channel|>commentary <|constrain|>json<|constrain|>json" +
             call,
         "", "Hm.", ls});
  check({gpt_oss, "<|channel|>final<|message|><|channel|>final<|message|>Yes.", "Yes.", "", ""});
  check({gpt_oss,
         "<|channel|>commentary to=functions.run<|message|>{\"code\": \"<|end|> and <|call|>\"}<|call|>", "",
         "", R"(run {"code":"<|end|> and <|call|>"})"});
  check({gpt_oss, "<|start|>functions.run to=assistant<|channel|>commentary<|message|>ok<|end|>", "ok", "",
         ""});
  check({gpt_oss, "<|channel|>commentary to=functions.jsonify" + call, "", "", R"(jsonify {"code":"ls"})"});
}

TEST_CASE("what a template wants as ids of calls") {
  const auto made = [](const std::string& text) {
    return text::CallIds(marks_of(text).id, ordered_json::array()).make("look");
  };
  CHECK(made(mistral) == "call00001");
  CHECK(made(hermes) == "");
  CHECK(made(no_marks) == "");
  CHECK(made(chat_template("", "{{ c.id + (c.function.arguments | tojson) }}")) == "functions.look:0");
  // Other rules than those of families that are known.
  const std::string call = "{{ '<|call|>' + c.function.name + (c.function.arguments | tojson) }}";
  const auto ruled = [&](const std::string& rule) {
    return made(chat_template("", "{%- if " + rule + " %}{{ raise_exception('no id') }}{%- endif %}" + call));
  };
  CHECK(ruled("not c.id is defined or c.id | length != 12") == "call00000001");
  CHECK(ruled("not c.id is defined or c.id | length != 6") == "000001");
  CHECK(ruled("not c.id is defined or not c.id.startswith('toolu_')") == "toolu_00000000000000000000001");
  CHECK(ruled("not c.id is defined or c.id | length < 24").size() == 29);
  CHECK(ruled("not c.id is defined or not c.id.startswith('fc-') or c.id | length != 16") ==
        "fc-0000000000001");
}
