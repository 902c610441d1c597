#pragma once

// Small templates that write answers, thoughts and calls as families of models do.
#include <map>
#include <string>

#include "support/require.h"
#include "text/chat/answer_marks.h"

namespace pumice::test {

// Of a message: its content, what comes before it and what comes after it, for each call `c`.
inline std::string chat_template(const std::string& thought, const std::string& call,
                                 const std::string& prompt = "") {
  return "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + thought +
         "{{ m.content }}{%- for c in m.tool_calls %}" + call +
         "{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\n" +
         prompt + "' }}{%- endif %}";
}
inline std::string shown(const std::string& begin, const std::string& end) {
  return "{%- if m.reasoning_content %}{{ '" + begin + "' + m.reasoning_content + '" + end +
         "' }}{%- endif %}";
}
inline std::string mentioned(const std::string& mark) {
  return "{%- if '" + mark + "' in m.content %}{%- endif %}";
}

inline const std::string think = shown("<think>\n", "\n</think>\n\n");
inline const std::string hermes_call = "{{ '<tool_call>\n' + (c.function | tojson) + '\n</tool_call>' }}";
inline const std::string coder_call =
    "{{ '<tool_call>\n<function=' + c.function.name + '>\n' }}{%- for k, v in c.function.arguments | items %}"
    "{{ '<parameter=' + k + '>\n' + (v if v is string else v | tojson) + '\n</parameter>\n' }}{%- endfor %}"
    "{{ '</function>\n</tool_call>' }}";
inline const std::string glm_call =
    "{{ '\n<tool_call>' + c.function.name + '\n' }}{%- for k, v in c.function.arguments | items %}"
    "{{ '<arg_key>' + k + '</arg_key>\n<arg_value>' + (v if v is string else v | tojson) + '</arg_value>\n' "
    "}}"
    "{%- endfor %}{{ '</tool_call>' }}";
inline const std::string deepseek_call =
    "{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + "
    "(c.function.arguments | tojson) + '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}";
inline const std::string invoke_call =
    "{{ '\n<minimax:tool_call>\n<invoke name=\"' + c.function.name + '\">\n' }}"
    "{%- for k, v in c.function.arguments | items %}"
    "{{ '<parameter name=\"' + k + '\">' + (v if v is string else v | tojson) + '</parameter>\n' }}{%- "
    "endfor %}"
    "{{ '</invoke>\n</minimax:tool_call>' }}";
// f(a=1, b=2) between two texts
inline std::string python_call(const std::string& begin, const std::string& end) {
  return "{{ '" + begin +
         "' + c.function.name + '(' }}{%- for k, v in c.function.arguments | items %}{{ k + '=' + (v | "
         "tojson) }}"
         "{%- if not loop.last %}{{ ', ' }}{%- endif %}{%- endfor %}{{ ')" +
         end + "' }}";
}
// A name and an object, with texts before, between and after.
inline std::string named_call(const std::string& begin, const std::string& middle, const std::string& end) {
  return "{{ '" + begin + "' + c.function.name + '" + middle + "' + (c.function.arguments | tojson) + '" +
         end + "' }}";
}

inline const std::string no_marks = chat_template("", "");
inline const std::string hermes = chat_template("", hermes_call);
inline const std::string qwen = chat_template(think, hermes_call);
inline const std::string coder = chat_template("", coder_call);
inline const std::string glm = chat_template(think, glm_call);
inline const std::string seed = chat_template(
    shown("<seed:think>", "</seed:think>"),
    "{{ '<seed:tool_call>\n<function=' + c.function.name + '>\n</function>\n</seed:tool_call>' }}");
inline const std::string llama = chat_template("", named_call("{\"name\": \"", "\", \"parameters\": ", "}")) +
                                 "{%- if builtin %}{{ '<|python_tag|>' }}{%- endif %}";
inline const std::string mistral =
    "{%- for m in messages %}{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{%- elif m.role == 'tool' %}"
    "{%- if not m.tool_call_id is defined or m.tool_call_id | length != 9 %}{{ raise_exception('no id') "
    "}}{%- endif %}"
    "{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}{%- else %}" +
    mentioned("[/THINK]") +
    "{{ m.content }}{%- for c in m.tool_calls %}"
    "{%- if not c.id is defined or c.id | length != 9 %}{{ raise_exception('no id') }}{%- endif %}"
    "{{ '[TOOL_CALLS]' + c.function.name + '[CALL_ID]' + c.id + '[ARGS]' + (c.function.arguments | tojson) }}"
    "{%- endfor %}{{ '</s>' }}{%- endif %}{%- endfor %}";
inline const std::string gpt_oss =
    "{%- for m in messages %}{%- if m.role == 'assistant' %}{%- if m.tool_calls %}"
    "{{ '<|start|>assistant to=functions.' + m.tool_calls[0].function.name + '<|channel|>commentary "
    "json<|message|>' "
    "+ (m.tool_calls[0].function.arguments | tojson) + '<|call|>' }}{%- else %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{%- endif %}{%- else %}"
    "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{%- endif %}";
inline const std::string deepseek = chat_template(mentioned("</think>"), deepseek_call);
inline const std::string gemma3 =
    "{%- for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content + "
    "'<end_of_turn>\n' }}{%- endfor %}";
inline const std::string gemma4 = chat_template(
    shown("<|channel>thought\n", "\n<channel|>"),
    "{{ '<|tool_call>call:' + c.function.name + '{' }}{%- for k, v in c.function.arguments | items %}"
    "{{ k + ':<|\"|>' + v + '<|\"|>' }}{%- endfor %}{{ '}<tool_call|>' }}");
inline const std::string granite = "{{ 'Think between <think></think>, and answer between "
                                   "<response></response>. To call, write <|tool_call|>' }}" +
                                   chat_template("", "");
inline const std::string lfm2 =
    "{%- if tools %}{{ 'List of tools: ' + (tools | tojson) }}{%- endif %}" + no_marks;
inline const std::string nemotron =
    chat_template(mentioned("</think>"), "{{ '<TOOLCALL>[' + (c.function | tojson) + ']</TOOLCALL>' }}");
inline const std::string cohere =
    "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|CHATBOT_TOKEN|>' }}{%- if m.tool_calls %}"
    "{{ '<|START_THINKING|>' + m.reasoning_content + '<|END_THINKING|><|START_ACTION|>[{\"tool_call_id\": "
    "\"0\", "
    "\"tool_name\": \"' + m.tool_calls[0].function.name + '\", \"parameters\": ' + "
    "(m.tool_calls[0].function.arguments | tojson) + '}]<|END_ACTION|>' }}{%- else %}"
    "{{ '<|START_RESPONSE|>' + m.content + '<|END_RESPONSE|>' }}{%- endif %}{{ '<|END_OF_TURN_TOKEN|>' }}{%- "
    "else %}"
    "{{ '<|USER_TOKEN|>' + m.content + '<|END_OF_TURN_TOKEN|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|CHATBOT_TOKEN|>' }}{%- endif %}";
inline const std::string minimax = chat_template(think, invoke_call, "<think>\n");
inline const std::string deepseek32 = chat_template(
    think,
    "{{ '<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"' + c.function.name + '\">\n</｜DSML｜invoke>\n"
    "</｜DSML｜function_calls>' }}");
inline const std::string llama4 =
    chat_template("", named_call("<|python_start|>{\"name\": \"", "\", \"parameters\": ", "}<|python_end|>"));
inline const std::string olmo3 = chat_template("", python_call("<function_calls>", "</function_calls>"));
inline const std::string lfm2_shown =
    chat_template("", python_call("<|tool_call_start|>[", "]<|tool_call_end|>"));
inline const std::string kimi = chat_template(
    "", named_call("<|tool_calls_section_begin|><|tool_call_begin|>functions.",
                   ":0<|tool_call_argument_begin|>", "<|tool_call_end|><|tool_calls_section_end|>"));
inline const std::string phi4 =
    chat_template("", "{{ '<|tool_call|>' + (c.function | tojson) + '<|/tool_call|>' }}");
inline const std::string hunyuan =
    chat_template(shown("<think>\n", "\n</think>\n<answer>\n"),
                  named_call("<tool_calls><tool_call>", "\n```json\n", "\n```</tool_call></tool_calls>")) +
    "{# <answer></answer> #}";

inline const std::string functionary =
    "{%- for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}{%- if m.role == "
    "'assistant' %}{%- if m.content %}{{ '>>>all\\n' + m.content }}{%- endif %}{%- for c in m.tool_calls %}"
    "{{ '>>>' + c.function.name + '\n' + (c.function.arguments | tojson) }}{%- endfor %}{%- else %}{{ "
    "m.content }}"
    "{%- endif %}{{ '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n>>>' }}{%- endif %}";
inline const std::string mirothinker =
    "{{ 'Call as <use_mcp_tool><server_name>s</server_name></use_mcp_tool>.' }}" + qwen;

inline const AnswerMarks& marks_of(const std::string& text) {
  static std::map<std::string, AnswerMarks> known;
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  const ChatTemplate parsed = require(ChatTemplates().parse(text, "template"));
  return known.emplace(text, AnswerMarks::of(parsed, std::tm())).first->second;
}

} // namespace pumice::test
