// What an answer to a chat with tools may be, as families of models write calls.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "form/chat_form.h"
#include "support/chat_families.h"
#include "support/files/temporary_folder.h"
#include "support/form.h"

using namespace pumice;
using namespace pumice::test;

namespace {

using nlohmann::ordered_json;

const ordered_json tools = ordered_json::parse(R"([
  {"type": "function", "function": {"name": "open_gate", "parameters": {"type": "object", "properties": {
    "way": {"type": "string", "enum": ["north", "south"]}, "wide": {"type": "boolean"}, "times": {"type": "integer"}},
    "required": ["way"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "say", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}}}}}])");

// The tokenizer of a fixture, with more special tokens.
std::shared_ptr<const Tokenizer> tokenizer_with(const std::vector<std::string>& special) {
  const std::filesystem::path fixture = fixtures().tokenizer("qwen2");
  if (special.empty()) return require(Tokenizer::load(fixture));
  ordered_json file = ordered_json::parse(std::ifstream(fixture / "tokenizer.json"));
  uint32_t id = 902;
  for (const std::string& each : special) {
    ordered_json token = file["added_tokens"].back();
    token["content"] = each;
    token["id"] = id++;
    file["added_tokens"].push_back(token);
  }
  const TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  return require(Tokenizer::load(folder.path()));
}

struct Family {
  explicit Family(const std::string& text, const std::vector<std::string>& special = {})
      : parsed(require(ChatTemplates().parse(text, "template"))), marks(marks_of(text)),
        call(WrittenCall::of(parsed, marks, std::tm())), tokenizer(tokenizer_with(special)),
        vocabulary(std::make_shared<FormVocabulary>(*tokenizer)) {}

  Result<form::Grammar> grammar(const std::string& choice, const std::string& prompt = "",
                                const FormSource& form = {}) {
    notes.clear();
    return chat_grammar({marks, call, *tokenizer, prompt, true, tools, choice, form, {}}, notes);
  }
  bool takes(const std::string& answer, const std::string& choice = "auto", const std::string& prompt = "") {
    const std::string key = choice + "|" + prompt;
    if (!forms[key]) forms[key] = require(Form::create(require(grammar(choice, prompt)), vocabulary));
    FormPlace place = forms[key]->start();
    return require(forms[key]->accept(place, spelled_bytes(*tokenizer, answer))) && place.may_end;
  }

  ChatTemplate parsed;
  AnswerMarks marks;
  Result<WrittenCall> call;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<FormVocabulary> vocabulary;
  std::map<std::string, std::shared_ptr<Form>> forms;
  std::vector<std::string> notes;
};

// A call with a name, and the arguments as this family writes them.
void check(const std::string& chat_template, const std::string& before, const std::string& middle,
           const std::string& good, const std::string& bad, const std::string& end,
           const std::string& prompt = "") {
  Family family(chat_template);
  INFO(before, middle);
  const std::string call = before + "open_gate" + middle + good + end;
  CAPTURE(call);
  CHECK(family.takes(call, "auto", prompt));
  CHECK(!family.takes(before + "fly" + middle + good + end, "auto", prompt));
  CHECK(!family.takes(before + "open_gate" + middle + bad + end, "auto", prompt));
  CHECK(family.takes(call, "required", prompt));
  CHECK(family.takes(call, "open_gate", prompt));
  CHECK(!family.takes(call, "say", prompt));
  CHECK(!family.takes(call, "none", prompt));
  CHECK(!family.takes("The gate is shut.", "required", prompt));
  for (const char* choice : {"auto", "none"})
    CHECK(family.takes("The gate < 5 [m] is shut.", choice, prompt) == prompt.empty());
}

} // namespace

TEST_CASE("a call has a tool's name, and arguments that are valid") {
  const std::string good = R"({"way": "north", "wide": true})", bad = R"({"way": "up"})";
  check(hermes, "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", good, bad, "}\n</tool_call>");
  check(qwen, "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"", "\", \"arguments\": ", good, bad,
        "}\n</tool_call>");
  check(llama, "{\"name\": \"", "\", \"parameters\": ", good, bad, "}");
  check(llama4, "<|python_start|>{\"name\": \"", "\", \"parameters\": ", good, bad, "}<|python_end|>");
  check(mistral, "[TOOL_CALLS]", "[CALL_ID]abc[ARGS]", good, bad, "");
  check(mistral, "[TOOL_CALLS]", "[ARGS]", good, bad, "");
  check(deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁sep｜>", good, bad,
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  check(kimi, "<|tool_calls_section_begin|><|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>",
        good, bad, "<|tool_call_end|><|tool_calls_section_end|>");
  check(phi4, "<|tool_call|>{\"name\": \"", "\", \"arguments\": ", good, bad, "}<|/tool_call|>");
  check(nemotron, "<TOOLCALL>[{\"name\": \"", "\", \"arguments\": ", good, bad, "}]</TOOLCALL>");
  check(hunyuan, "<tool_calls><tool_call>", "\n```json\n", good, bad, "\n```</tool_call></tool_calls>");
  check(cohere, "<|START_ACTION|>[\n{\"tool_call_id\": \"1\", \"tool_name\": \"",
        "\", \"parameters\": ", good, bad, "}\n]<|END_ACTION|>");
  check(coder, "<tool_call>\n<function=", ">\n",
        "<parameter=way>\nnorth\n</parameter>\n<parameter=times>\n3\n</parameter>\n",
        "<parameter=way>\nup\n</parameter>\n", "</function>\n</tool_call>");
  check(coder, "<function=", ">\n", "<parameter=way>\nnorth\n</parameter>\n", "",
        "</function>\n</tool_call>");
  check(glm, "<tool_call>", "\n", "<arg_key>way</arg_key>\n<arg_value>north</arg_value>\n",
        "<arg_key>say</arg_key>\n<arg_value>north</arg_value>\n", "</tool_call>");
  check(minimax, "<minimax:tool_call>\n<invoke name=\"", "\">\n",
        "<parameter name=\"way\">south</parameter>\n", "<parameter name=\"way\">up</parameter>\n",
        "</invoke>\n</minimax:tool_call>");
  check(olmo3, "<function_calls>", "", "(way=\"north\", wide=True)", "(wide=True)", "</function_calls>");
  check(lfm2_shown, "<|tool_call_start|>[", "", "(way='north')", "(way='up')", "]<|tool_call_end|>");
  check(functionary, "all\nI open it.>>>", "\n", good, bad, "", "x>>>");
  check(lfm2, "<|tool_call_start|>[", "", "(way=\"north\")", "(way=\"up\")", "]<|tool_call_end|>");
  check(gemma3, "```tool_code\n", "", "(way=\"north\")", "(way=\"up\")", "\n```");
  check(gpt_oss, "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", good, bad, "",
        "<|start|>assistant");
}

TEST_CASE("a call may be written in each way that is read") {
  Family lfm(lfm2_shown), oss(gpt_oss), thinks(hermes), pairs(glm), olmo(olmo3);
  const auto python = [&](const std::string& call) {
    return lfm.takes("<|tool_call_start|>[" + call + "]<|tool_call_end|>");
  };
  for (const char* text : {R"('\d+')", R"(r'\d\n')", R"(R"a")", "'''one\n'two' '''", R"("""say \"hi\"""")",
                           "'a' 'b'", "('a'\n  'b')", "u'x'", "b'x'", "f'plain'", "rb'x'", "''"}) {
    CAPTURE(text);
    CHECK(python("say(text=" + std::string(text) + ")"));
    CHECK(python("say(" + std::string(text) + ")"));
  }
  for (const char* number : {"3", "1_000", "0x1F", "0b11", "0o17", "+3", "-3"})
    CHECK(python("open_gate(way='north', times=" + std::string(number) + ")"));
  for (const char* good :
       {"say(other=(1, {'a': [None, .5, 1_0.]}, {1, 2},), more={1: True})", "open_gate('north', True, 3)",
        "open_gate(\n    way = 'north',\n    times = 3,\n)", "open_gate('south', times=3)"}) {
    CAPTURE(good);
    CHECK(python(good));
  }
  for (const char* bad : {"open_gate('up')", "open_gate(True)", "open_gate('north', 3)", "open_gate()",
                          "open_gate(way='north', times='3')", "say(text=f'{a}')", "say(text=7)"}) {
    CAPTURE(bad);
    CHECK(!python(bad));
  }
  for (const char* good :
       {"default_api.open_gate(way='north')", "open_gate.call(way='north')", "open_gate(**{'way': 'north'})",
        "open_gate( # the gate\n    way='north', # where\n    # how often\n    times=3,\n)",
        "say(other=[1, # one\n  2])"}) {
    CAPTURE(good);
    CHECK(python(good));
  }
  CHECK(!python("open_gate(**{'way': 'up'})"));
  CHECK(!python("print(open_gate('north'))"));
  Family gemma(gemma3), coders(coder);
  const auto block = [&](const std::string& code) { return gemma.takes("```tool_code\n" + code + "\n```"); };
  for (const char* good : {"print(open_gate(way='north'))", "print(default_api.say(text='hi'))",
                           "result = default_api.say(text=\"hi\")", "print( say('hi') )",
                           "say('hi')\nprint(open_gate('north'))"}) {
    CAPTURE(good);
    CHECK(block(good));
  }
  for (const char* bad : {"print(fly(text='hi'))", "print(open_gate('up'))", "print('hi')"}) {
    CAPTURE(bad);
    CHECK(!block(bad));
  }
  CHECK(coders.takes("<tool_call>\n<function=say>\n<parameter=text>\nhi\n</parameter>\n</tool_call>"));
  CHECK(!coders.takes("<tool_call>\n<function=open_gate>\n<parameter=way>\nup\n</parameter>\n</tool_call>"));
  const std::string gate = "{\"name\": \"open_gate\", \"arguments\": {";
  // Marks within strings, spelled and as special tokens.
  Family special(hermes, {"<tool_call>", "</tool_call>"});
  for (Family* family : {&thinks, &special}) {
    CHECK(family->takes("<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"</tool_call> ends "
                        "<tool_call>\"}}\n</tool_call>"));
    CHECK(!family->takes("<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"<|im_end|>\"}}\n"
                         "</tool_call>"));
  }
  CHECK(thinks.takes("<tool_call>\n" + gate +
                     "\n    \"way\": \"north\",\n    \"wide\": True\n}}\n</tool_call>"));
  // Without the first mark, where the last one is there.
  CHECK(thinks.takes("I go.\n" + gate + "\"way\": \"north\"}}\n</tool_call>"));
  CHECK(pairs.takes("say\n<arg_key>text</arg_key>\n<arg_value>hi</arg_value>\n</tool_call>"));
  CHECK(olmo.takes("say(text='hi')</function_calls>"));
  CHECK(!olmo.takes("fly(text='hi')</function_calls>"));
  CHECK(!olmo.takes("say(text='hi')</function_calls>", "none"));
  const std::string start = "<|start|>assistant", call = "<|message|>{\"text\": \"hi\"}";
  for (const std::string& answer :
       {std::string(
            "<|channel|>commentary to=assistant<|channel|>commentary?<|end|><|start|>assistant<|channel|>"
            "final<|message|>Yes."),
        std::string("<|channel|>analysis<|channel|>final<|message|>Yes.<|return|>"),
        std::string("<|channel|>Sure, here it is."),
        std::string("<|channel|>final<|message|><|message|>Yes."),
        "<|channel|>commentary to=functions.sayjson" + call + "<|call|>",
        "<|channel|>commentary to=say code" + call, " to=functions.say<|channel|>commentary json" + call,
        "<|channel|>commentary to=say" + call +
            "<|call|><|start|>assistant to=functions.say<|channel|>commentary" + call}) {
    CAPTURE(answer);
    CHECK(oss.takes(answer, "auto", start));
  }
  CHECK(!oss.takes("<|channel|>commentary to=functions.fly" + call, "auto", start));
  CHECK(!oss.takes("<|channel|>commentary to=functions.say<|message|>hi", "auto", start));
}

TEST_CASE("schemas that cannot be kept to leave the arguments free, and templates without calls say so") {
  Family family(hermes);
  const ordered_json odd = ordered_json::parse(
      R"([{"name": "look", "parameters": {"type": "object", "properties": {"a": {"not": {"type": "null"}}}}}])");
  std::vector<std::string> notes;
  const auto grammar =
      chat_grammar({family.marks, family.call, *family.tokenizer, "", true, odd, "auto", {}, {}}, notes);
  CHECK(grammar.ok());
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("'look'") != std::string::npos);
  Family plain(no_marks), gemma(gemma4);
  CHECK(plain.grammar("auto").error().code == Code::unsupported);
  CHECK(plain.takes("A gate.", "none"));
  CHECK(gemma.grammar("required").error().code == Code::unsupported);
  CHECK(family.grammar("fly").error().message.find("open_gate, say") != std::string::npos);
}

TEST_CASE("a form begins after the thoughts") {
  const FormSource yes{.choices = {"yes", "no"}};
  const auto takes = [&](const std::string& chat_template, const std::string& prompt,
                         const std::string& answer, const std::vector<std::string>& special = {}) {
    Family family(chat_template, special);
    const auto form = require(Form::create(require(family.grammar("auto", prompt, yes)), family.vocabulary));
    FormPlace place = form->start();
    return require(form->accept(place, spelled_bytes(*family.tokenizer, answer))) && place.may_end;
  };
  CHECK(takes(qwen, "", "yes"));
  CHECK(takes(qwen, "", "<think>\nmaybe\n</think>\n\nno"));
  CHECK(!takes(qwen, "", "<think>\nmaybe\n</think>\n\nmaybe"));
  CHECK(!takes(qwen, "", "maybe"));
  CHECK(takes(qwen, "<think>\n", "maybe\n</think>\n\nno"));
  CHECK(!takes(qwen, "<think>\n", "no"));
  CHECK(takes(qwen, "<think>\n\n</think>\n\n", "no"));
  CHECK(!takes(no_marks, "", "<think>\nmaybe\n</think>\n\nno"));
  CHECK(takes(no_marks, "", "<think>\nmaybe\n</think>\n\nno", {"<think>", "</think>"}));
  CHECK(takes(no_marks, "", "no"));
  CHECK(takes(gpt_oss, "<|start|>assistant",
              "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>no"));
  CHECK(!takes(gpt_oss, "<|start|>assistant", "<|channel|>final<|message|>maybe"));
}
