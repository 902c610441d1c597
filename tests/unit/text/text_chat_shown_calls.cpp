// Calls in ways that no list of families knows: their templates show how they are written.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/chat_answers.h"

using namespace pumice;
using namespace pumice::test;

namespace {

using nlohmann::ordered_json;

const ordered_json tools = ordered_json::parse(R"([
  {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {
    "place": {"type": "string"}, "far": {"type": "boolean"}, "times": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {
    "word": {"type": "string"}}}}}])");

void check(const AnswerCase& each) {
  check_answer(each, tools);
}

// For each argument: before its key, before its value and behind that; `end` may use k, the key.
std::string arguments(const std::string& before, const std::string& middle, const std::string& end) {
  return "{%- for k, v in c.function.arguments | items %}{{ '" + before + "' + k + '" + middle +
         "' + (v if v is string else v | tojson) + " + end + " }}{%- endfor %}";
}

const std::string cave = R"(look {"place":"cave"})";

} // namespace

TEST_CASE("calls as attributes of a tag, and as elements named by their tools and arguments") {
  const std::string attributes =
      chat_template(shown("<ponder>", "</ponder>"), "{{ '<call tool=\"' + c.function.name + '\"' }}" +
                                                        arguments(" ", "=\"", "'\"'") + "{{ '/>' }}");
  check({attributes, "<ponder>Hm.</ponder>I look.<call tool=\"look\" place=\"the cave\" far=\"true\"/>",
         "I look.", "Hm.", R"(look {"place":"the cave","far":true})"});
  check({attributes, "<call tool=\"look\" place=\"a /> b\" times=\"3\"/>\n<call tool=\"look_up\"/>So.", "So.",
         "", R"(look {"place":"a /> b","times":3}; look_up {})"});
  check({attributes, "A <call tool=\"fly\" to=\"Rome\"/> and <call> are none.",
         "A <call tool=\"fly\" to=\"Rome\"/> and <call> are none.", "", ""});
  check({attributes, "<ponder>I look.<call tool=\"look\" place=\"cave\"/>", "", "I look.", cave});

  const std::string elements = chat_template(
      "",
      "{{ '<function_calls>\n<invoke>\n<tool_name>' + c.function.name + '</tool_name>\n<parameters>\n' }}" +
          arguments("<", ">", "'</' + k + '>\n'") + "{{ '</parameters>\n</invoke>\n</function_calls>' }}");
  const std::string begin = "<function_calls>\n<invoke>\n<tool_name>look</tool_name>\n<parameters>\n",
                    end = "</parameters>\n</invoke>\n</function_calls>";
  check({elements, "I look.\n" + begin + "<place>cave</place>\n<far>false</far>\n" + end, "I look.", "",
         R"(look {"place":"cave","far":false})"});
  check({elements, begin + "<place>a </place> b\n</place>\n" + end + "So.", "So.", "",
         R"(look {"place":"a </place> b\n"})"});
  check({elements, begin + "<place>cave</place>\n</parameters>\n</invoke>", "", "",
         cave}); // the end is missing
  check({elements,
         "<function_calls><invoke><tool_name>look</tool_name><parameters><place>cave</place></parameters>"
         "</invoke></function_calls>",
         "", "", cave});

  const std::string named =
      chat_template("", "{{ '<' + c.function.name + '>\n' }}" + arguments("<", ">", "'</' + k + '>\n'") +
                            "{{ '</' + c.function.name + '>' }}");
  check({named, "I look.\n<look>\n<place>cave</place>\n</look>", "I look.", "", cave});
  check(
      {named,
       "<look>\n<place>a <b>dark</b> cave </look></place>\n<times>2</times>\n</look>\n<look_up>\n</look_up>",
       "", "", R"(look {"place":"a <b>dark</b> cave </look>","times":2}; look_up {})"});
  check({named, "1 < 2, <b>bold</b> and <look at me>", "1 < 2, <b>bold</b> and <look at me>", "", ""});
}

TEST_CASE("calls as arrays, nested objects, lines and strings between marks of their own") {
  const std::string object = R"({"place": "cave"})";
  const std::string array = chat_template(
      "", "{{ '<|tool|>[\"' + c.function.name + '\", ' + (c.function.arguments | tojson) + ']<|/tool|>' }}");
  check({array, "I look.<|tool|>[\"look\", " + object + "]<|/tool|>", "I look.", "", cave});
  check({array,
         "<|tool|>[ \"look\",\n {\"place\": \"a ]<|/tool|> b\"} ]<|/tool|><|tool|>[\"look_up\", {}]<|/tool|>",
         "", "", R"(look {"place":"a ]<|/tool|> b"}; look_up {})"});
  const std::string nested =
      chat_template("", "{{ '<call>{\"tool\": {\"name\": \"' + c.function.name + '\"}, \"args\": ' + "
                        "(c.function.arguments | tojson) + '}</call>' }}");
  check({nested, "<call>{\"tool\": {\"name\": \"look\"}, \"args\": " + object + "}</call>", "", "", cave});
  check({nested, "<call>{\"tool\":{\"name\":\"look\"},\"args\":" + object + "}</call>", "", "", cave});
  const std::string lines = chat_template("", "{{ '<|use|>' + c.function.name + '\n' }}" +
                                                  arguments("", "=", "'\n'") + "{{ '<|/use|>' }}");
  check({lines, "<|use|>look\nplace=the cave\nfar=true\n<|/use|>", "", "",
         R"(look {"place":"the cave","far":true})"});
  check({lines, "<|use|>look\nplace=x = 1\n  y = 2\nfar=true\n<|/use|>", "", "",
         R"(look {"place":"x = 1\n  y = 2","far":true})"});
  const std::string words = chat_template("", "{{ '\nTool: ' + c.function.name + '\nArguments: ' + "
                                              "(c.function.arguments | tojson) + '\nEnd of call' }}");
  check({words, "I look.\nTool: look\nArguments: " + object + "\nEnd of call", "I look.", "", cave});
  check({words, "A Tool: of mine", "A Tool: of mine", "", ""});
  // FunctionGemma
  const std::string escaped = chat_template(
      "",
      "{{ '<start_function_call>call:' + c.function.name + '{' }}{%- for k, v in c.function.arguments | "
      "items "
      "%}{{ k + ':' }}{%- if v is string %}{{ '<escape>' + v + '<escape>' }}{%- else %}{{ v | tojson }}"
      "{%- endif %}{%- if not loop.last %}{{ ',' }}{%- endif %}{%- endfor %}{{ '}<end_function_call>' }}");
  check({escaped, "<start_function_call>call:look{place:<escape>a, {b}<escape>,far:true}<end_function_call>",
         "", "", R"(look {"place":"a, {b}","far":true})"});
  check({escaped,
         "<start_function_call>call:look{times:7,place:<escape>42<escape>}<end_function_call>"
         "<start_function_call>call:look_up{}<end_function_call>",
         "", "", R"(look {"times":7,"place":"42"}; look_up {})"});
  // GLM-4, whose role is the mark
  const std::string bare =
      "{%- for m in messages %}{%- if m.tool_calls %}{%- for c in m.tool_calls %}{{ '<|assistant|>' + "
      "c.function.name + '\n' + (c.function.arguments | tojson) }}{%- endfor %}{%- else %}{{ '<|' + m.role + "
      "'|>\n' + m.content }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}"
      "{%- endif %}";
  check({bare, "look\n" + object, "", "", cave});
  check({bare, "look_up\n{}", "", "", "look_up {}"});
  check({bare, "\nlook around you", "\nlook around you", "", ""});
  check({bare, "look", "look", "", ""});
}

TEST_CASE("of several calls in one frame, those that can be read are calls, and the rest is content") {
  const auto framed = [](const std::string& call, const std::string& between) {
    return "{%- for m in messages %}{%- if m.tool_calls %}{{ '<|calls|>' }}{%- for c in m.tool_calls %}" +
           call + "{%- if not loop.last %}{{ '" + between +
           "' }}{%- endif %}{%- endfor %}{{ '<|/calls|>' }}{%- else %}{{ '<|' + m.role + '|>' + m.content }}"
           "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}";
  };
  const std::string objects = framed("{{ '{\"tool\": \"' + c.function.name + '\", \"args\": ' + "
                                     "(c.function.arguments | tojson) + '}' }}",
                                     ", ");
  const std::string good = R"({"tool": "look", "args": {"place": "cave"}})",
                    bad = R"({"tool": "look_up", "args": cave})", none = R"({"tool": "look_up", "args": {}})";
  const auto check_list = [&](const std::string& list, const std::string& content, const std::string& calls) {
    check({objects, "I look.<|calls|>" + list, content, "", calls});
  };
  const std::string both = cave + "; look_up {}";
  check_list(good + ", " + none + "<|/calls|>", "I look.", both);
  check_list(good + ", " + bad + ", " + none + "<|/calls|>", "I look." + bad, both);
  check_list(bad + ", " + good + "<|/calls|>", "I look." + bad, cave);
  check_list(good + ", " + bad + "<|/calls|>So.", "I look." + bad + "So.", cave);
  check_list(good + ", " + bad.substr(0, 12), "I look." + bad.substr(0, 12), cave); // the answer is cut off
  check_list(bad + "<|/calls|>", "I look.<|calls|>" + bad + "<|/calls|>", "");

  const std::string elements = framed(
      "{{ '<name>' + c.function.name + '</name>' }}" + arguments("<", ">", "'</' + k + '>'"), "<|next|>");
  check({elements,
         "<|calls|><name>look</name><place>cave</place><|next|><name>fly</name><to>Rome</to><|/calls|>",
         "<name>fly</name><to>Rome</to>", "", cave});
}

TEST_CASE("channels that are no family's, and marks that the prompt has begun") {
  const std::string object = R"({"place": "cave"})";
  const std::string channels =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|turn|>assistant' }}{%- if "
      "m.reasoning_content "
      "%}{{ '<|part|>thoughts<|body|>' + m.reasoning_content + '<|/part|>' }}{%- endif %}{%- if m.content "
      "%}{{ "
      "'<|part|>reply<|body|>' + m.content + '<|/part|>' }}{%- endif %}{%- for c in m.tool_calls %}{{ "
      "'<|part|>tool:' + c.function.name + '<|body|>' + (c.function.arguments | tojson) + '<|/part|>' }}{%- "
      "endfor "
      "%}{{ '<|/turn|>' }}{%- else %}{{ '<|turn|>' + m.role + '<|part|>text<|body|>' + m.content + "
      "'<|/part|><|/turn|>' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|turn|>assistant' "
      "}}"
      "{%- endif %}";
  check(
      {channels,
       "<|part|>thoughts<|body|>Hm.<|/part|><|part|>reply<|body|>I look.<|/part|><|part|>tool:look<|body|>" +
           object + "<|/part|>",
       "I look.", "Hm.", cave});
  check({channels, "<|part|>reply<|body|>Yes.<|/part|>", "Yes.", "", ""});
  check({channels, "<|part|>tool:look<|body|>" + object + "<|/part|><|part|>tool:look_up<|body|>{}<|/part|>",
         "", "", cave + "; look_up {}"});
  // Functionary 2
  const std::string recipients =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}{%- if m.content %}{{ "
      "'<|from|>assistant\n<|recipient|>all\n<|content|>' + m.content + '\n' }}{%- endif %}{%- for c in "
      "m.tool_calls "
      "%}{{ '<|from|>assistant\n<|recipient|>' + c.function.name + '\n<|content|>' + (c.function.arguments | "
      "tojson) "
      "}}{%- endfor %}{{ '<|stop|>\n' }}{%- else %}{{ '<|from|>' + m.role + "
      "'\n<|recipient|>all\n<|content|>' + "
      "m.content + '\n' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ "
      "'<|from|>assistant\n<|recipient|>' }}{%- endif %}";
  check({recipients, "all\n<|content|>I look.\n<|from|>assistant\n<|recipient|>look\n<|content|>" + object,
         "I look.", "", cave});
  check({recipients,
         "look\n<|content|>" + object + "\n<|from|>assistant\n<|recipient|>look_up\n<|content|>{}", "", "",
         cave + "; look_up {}"});
  check({recipients, "I look.", "I look.", "", ""}); // no recipient
  // Apriel
  const std::string steps =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|assistant|>\n' }}{%- if "
      "m.reasoning_content %}{{ "
      "'Here are my reasoning steps:\n' + m.reasoning_content + '\n' }}{%- endif %}{{ '[BEGIN FINAL "
      "RESPONSE]\n' + "
      "m.content + '\n[END FINAL RESPONSE]\n<|end|>\n' }}{%- else %}{{ '<|' + m.role + '|>\n' + m.content + "
      "'\n<|end|>\n' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>\nHere are "
      "my "
      "reasoning steps:\n' }}{%- endif %}";
  check({steps, "Two and two.\n[BEGIN FINAL RESPONSE]\nFour.\n[END FINAL RESPONSE]", "Four.", "Two and two.",
         ""});
}

TEST_CASE("values that nothing ends, and calls that end with their names") {
  const std::string message =
                        "{%- for m in messages %}{{ '<|' + m.role + '|>' }}{%- if m.tool_calls %}{%- for c "
                        "in m.tool_calls %}{{ '<use>' + c.function.name }}",
                    rest = "{%- endfor %}{%- else %}{{ m.content }}{%- endif %}{%- endfor %}"
                           "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}";
  const std::string loose =
      message +
      "{%- for k, v in c.function.arguments | items %}{{ ' ' + k + '=' + (\"'\" + v + \"'\" if v is "
      "string else v | tojson) }}{%- endfor %}" +
      rest;
  CHECK(marks_of(loose).shown);
  check({loose, "<use>look far=true", "", "", R"(look {"far":true})"});
  check({loose, "<use>look times=7 place='the cave'", "", "", R"(look {"times":7,"place":"the cave"})"});
  check({loose, "<use>look place='the cave' times=[1, 2] far=false\nSo.", "So.", "",
         R"(look {"place":"the cave","times":[1,2],"far":false})"});

  // What ends a plain text may end the name, too.
  const std::string named =
      "{%- for m in messages %}{%- for c in m.tool_calls %}{{ c.function.name }}{%- for k, v in "
      "c.function.arguments | items %}{{ ' ' + k + '=' + v + ';' }}{%- endfor %}{%- else "
      "%}{{ m.content or 'not_found' }}{%- endfor %}{%- endfor %}";
  check({named, "Hello", "Hello", "", ""});
  const std::string refused =
      message + "{%- for k, v in c.function.arguments | items %}{{ ' ' + k + '=' + v + ';' }}"
                "{%- endfor %}{%- endfor %}{%- elif not m.content %}{{ raise_exception('empty') }}"
                "{%- else %}{{ m.content }}{%- endif %}{%- endfor %}";
  check({refused, "Hello", "Hello", "", ""});
}

TEST_CASE("a call that the answer ends within is one only where all its arguments stand") {
  const std::string attributes = chat_template("", "{{ '<call tool=\"' + c.function.name + '\"' }}" +
                                                       arguments(" ", "=\"", "'\"'") + "{{ '/>' }}");
  for (const char* cut : {"<call tool=\"look\" place=\"cave\"", "<call tool=\"look\" place=\"cave\"/"})
    check({attributes, cut, cut, "", ""});
  const std::string elements =
      chat_template("", "{{ '<' + c.function.name + '>\n' }}" + arguments("<", ">", "'</' + k + '>\n'") +
                            "{{ '</' + c.function.name + '></calls>' }}");
  for (const char* cut : {"<look>\n<place>if a <", "<look>\n<place>cave</place>\n",
                          "<look>\n<place>cave</place>\n</", "<look>\n<place>cave</place>\n<fa"})
    check({elements, cut, cut, "", ""});
  check({elements, "<look>\n<place>cave</place>\n</look>", "", "", cave});
}

TEST_CASE("what the prompt ends with is no text of the answer where it began no call") {
  const std::string object = R"({"place": "cave"})";
  const std::string to =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}{%- if m.content %}{{ "
      "'<|im_start|>assistant\n' + m.content + '<|im_end|>\n' }}{%- endif %}{%- for c in m.tool_calls %}{{ "
      "'<|im_start|>assistant to=' + c.function.name + '\n' + (c.function.arguments | tojson) + "
      "'<|im_end|>\n' }}{%- endfor %}{%- else %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
      "'<|im_end|>\n' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\n' }}{%- endif %}";
  CHECK(marks_of(to).shown);
  check({to, "Hello", "Hello", "", ""});
  check({to, "Hello {a} there.\n\nI am here.", "Hello {a} there.\n\nI am here.", "", ""});
  check({to, " to=fly\n" + object, " to=fly\n" + object, "", ""});
  check({to, object, object, "", ""});
  check({to, "", "", "", ""});
  check({to, "<think>Hm.</think>Hello", "Hello", "Hm.", ""});
  check({to, " to=look\n" + object, "", "", cave});
  check({to, "I look.\n<|im_start|>assistant to=look\n" + object, "I look.", "", cave});
  check_answer({to, "Hello", "Hello", "", ""}, {});
}

TEST_CASE("thoughts in members and between marks of other names") {
  // MiniCPM 3
  const std::string named = chat_template(
      "{%- if m.thought %}{{ '<|thought_start|>\n' + m.thought + '\n<|thought_end|>\n' }}{%- endif %}",
      "{{ '<|tool_call_start|>\n```python\n' + c.function.name + '(' }}{%- for k, v in "
      "c.function.arguments | items %}{{ k + '=' + (v | tojson) }}{%- if not loop.last %}{{ ', ' }}"
      "{%- endif %}{%- endfor %}{{ ')\n```\n<|tool_call_end|>' }}");
  CHECK(std::string_view(marks_of(named).thinking_member) == "thought");
  check({named,
         "<|thought_start|>\nHm.\n<|thought_end|>\n<|tool_call_start|>\n```python\nlook(place=\"cave\")\n"
         "look_up(word='```')\n```\n<|tool_call_end|>\nI look.",
         "I look.", "Hm.", cave + R"(; look_up {"word":"```"})"});
  const std::string only_named = mentioned("<|thought_end|>") + mentioned("<|thought_start|>");
  check({chat_template(only_named, ""), "<|thought_start|>Hm.<|thought_end|>Yes.", "Yes.", "Hm.", ""});
  // Without a first mark
  const std::string no_first =
      "{%- for m in messages %}{{ '<s>' + m.role + ': ' }}{%- if m.role == 'assistant' %}{{ (m.reasoning or "
      "'') + "
      "'<|answer|>' }}{%- endif %}{{ m.content + '</s>' }}{%- endfor %}{%- if add_generation_prompt %}{{ "
      "'<s>assistant: ' }}{%- endif %}";
  CHECK(std::string_view(marks_of(no_first).thinking_member) == "reasoning");
  check({no_first, "Two and two.<|answer|>Four.", "Four.", "Two and two.", ""});
  check({no_first, "<|answer|>Four.", "Four.", "", ""});
}

TEST_CASE("which calls and results a template leaves out") {
  CHECK(!marks_of(hermes).no_calls_shown);
  CHECK(!marks_of(hermes).no_results_shown);
  CHECK(marks_of(gemma3).no_calls_shown);
  CHECK(!marks_of(no_marks).no_results_shown);
  const std::string refused = "{%- for m in messages %}{%- if m.role not in ['user', 'assistant'] %}{{ "
                              "raise_exception('no') }}{%- endif %}"
                              "{{ m.content }}{%- endfor %}";
  CHECK(marks_of(refused).no_results_shown);
  CHECK(!marks_of(mistral).no_results_shown); // it wants an id
}
