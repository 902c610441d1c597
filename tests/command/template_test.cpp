// `pumice template`: where templates are read from, what is printed, and what is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/gguf_builder.h"

using nlohmann::json;

namespace {

const std::string greeting = R"({"messages": [{"role": "user", "content": "Hi"}]})";
const std::string with_tools =
    R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]})";

class Files {
public:
  Files() { write("chat.json", greeting); }
  std::string write(const std::string& name, std::string_view text) const {
    return folder_.write(name, text).string();
  }
  void folder(const std::string& name) const { std::filesystem::create_directories(folder_.path() / name); }
  std::string path(const std::string& name = "") const { return (folder_.path() / name).string(); }

  // With the messages of chat.json, unless others are given.
  CommandResult run(const std::string& model, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"template", path(model)};
    if (more.empty() || more[0] != "--messages")
      arguments.insert(arguments.end(), {"--messages", path("chat.json")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return pumice_command(arguments, nullptr, {"LD_LIBRARY_PATH=/nonexistent", "VK_ICD_FILENAMES="});
  }
  std::string text(const std::string& model, std::vector<std::string> more = {}) const {
    const CommandResult result = run(model, std::move(more));
    return result.status == 0 && result.err.empty() ? result.out : "failed: " + result.err;
  }
  std::string refused(const std::string& text, const std::vector<std::string>& parts) const {
    return fails_saying(run("plain.jinja", {"--messages", write("other.json", text)}), parts);
  }

private:
  TemporaryFolder folder_;
};

} // namespace

TEST_CASE("template prints what a file's template makes, and not a byte more") {
  const Files files;
  files.write("plain.jinja", "{% for m in messages %}\n<{{ m.role }}>{{ m.content }}\n{% endfor %}\n");
  CHECK(files.text("plain.jinja") == "<user>Hi\n");
  files.write("no_suffix", "{{ messages|length }}{{ bos_token }}{{ missing }} \n\n");
  CHECK(files.text("no_suffix") == "1 \n");
  files.write("keys.jinja", "{{ messages[0]|tojson }} {{ deep|tojson }}");
  const std::string object =
      R"({"messages": [{"role": "user", "z": 1, "a": "é"}], "deep": {"b": [1.5, null], "a": {}}})";
  CHECK(files.text("keys.jinja", {"--messages", files.write("keys.json", object)}) ==
        R"({"role": "user", "z": 1, "a": "é"} {"b": [1.5, null], "a": {}})");
  files.write("date.jinja", "{{ strftime_now('%A %d %b %Y %H:%M:%S, day %j') }}");
  CHECK(files.text("date.jinja", {"--now", "2026-07-26T12:00:05"}) == "Sunday 26 Jul 2026 12:00:05, day 207");
  CHECK(files.text("date.jinja", {"--now", "2024-02-29T00:00:00"}) ==
        "Thursday 29 Feb 2024 00:00:00, day 060");
  for (const char* time :
       {"now", "2026-02-30T12:00:00", "2026-07-26", "2026-07-26T24:00:00", "2026-07-26T12:00:00Z"})
    CHECK(fails_saying(files.run("date.jinja", {"--now", time}), {"--now", time, "2026-07-26T12:00:00"}) ==
          "");
}

TEST_CASE("template reads a folder's templates and special tokens") {
  const Files files;
  files.folder("chat/chat_templates");
  files.write("chat/config.json", "{}");
  CHECK(fails_saying(files.run("chat"), {"chat", "no chat template", "pumice run"}) == "");
  json config = {{"bos_token", "<s>"},
                 {"eos_token", {{"content", "</s>"}}},
                 {"chat_template", "one {{ bos_token }}{{ eos_token }}"}};
  files.write("chat/tokenizer_config.json", config.dump());
  CHECK(files.text("chat") == "one <s></s>");
  const std::string own = R"({"messages": [], "bos_token": "B"})";
  CHECK(files.text("chat", {"--messages", files.write("own.json", own)}) == "one B</s>");
  config["chat_template"] = {{{"name", "default"}, {"template", "default"}},
                             {{"name", "tool_use"}, {"template", "tools"}},
                             {{"name", "rag"}, {"template", "rag {{ bos_token }}"}}};
  files.write("chat/tokenizer_config.json", config.dump());
  CHECK(files.text("chat") == "default");
  CHECK(files.text("chat", {"--messages", files.write("tools.json", with_tools)}) == "tools");
  CHECK(files.text("chat", {"--template", "rag"}) == "rag <s>");
  CHECK(fails_saying(files.run("chat", {"--template", "rug"}),
                     {"--template", "'rug'", "default", "tool_use", "rag"}) == "");
  CHECK(files.text("chat", {"--template", files.write("mine", "mine {{ bos_token }}")}) == "mine <s>");
  files.write("chat/chat_template.json", R"({"chat_template": "of the processor"})");
  CHECK(files.text("chat") == "of the processor");
  files.write("chat/chat_templates/rag.jinja", "newer rag");
  files.write("chat/chat_template.jinja", "newer");
  CHECK(files.text("chat") == "newer");
  CHECK(files.text("chat", {"--template", "rag"}) == "newer rag");
}

TEST_CASE("template reads a GGUF file's templates and special tokens") {
  const Files files;
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .string("tokenizer.chat_template", "plain {{ bos_token }}{{ eos_token }}")
      .strings("tokenizer.chat_templates", {"tool_use"})
      .string("tokenizer.chat_template.tool_use", "tools")
      .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2);
  const auto bytes = builder.build();
  files.write("model.gguf", std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  CHECK(files.text("model.gguf") == "plain <s></s>");
  CHECK(files.text("model.gguf", {"--messages", files.write("tools.json", with_tools)}) == "tools");
  CHECK(files.text("model.gguf", {"--template", "tool_use"}) == "tools");
}

TEST_CASE("template refuses what is no conversation, no template, or has no end") {
  const Files files;
  files.write("plain.jinja", "x");
  CHECK(files.refused("{", {"other.json", "JSON"}) == "");
  CHECK(files.refused("\xff", {"other.json", "JSON"}) == "");
  CHECK(files.refused("[]", {"other.json", "object"}) == "");
  CHECK(files.refused("{}", {"messages"}) == "");
  CHECK(files.refused(R"({"messages": "Hi"})", {"messages", "list", "string"}) == "");
  CHECK(files.refused(R"({"messages": ["Hi"]})", {"\"messages\"[0]", "object", "string"}) == "");
  CHECK(files.refused(R"({"messages": [{"role": "user"}, {"content": "Hi"}]})",
                      {"\"messages\"[1]", "role"}) == "");
  CHECK(files.refused(R"({"messages": [{"role": 1}]})", {"\"messages\"[0]", "role", "number"}) == "");
  CHECK(fails_saying(files.run("plain.jinja", {"--messages", files.path("none.json")}), {"none.json"}) == "");
  CHECK(fails_saying(files.run("none.jinja"), {"none.jinja"}) == "");

  files.write("raises.jinja", "a\n{{ raise_exception('no system message, please') }}");
  CHECK(fails_saying(files.run("raises.jinja"), {"raises.jinja", "no system message, please", "line 2"}) ==
        "");
  files.write("broken.jinja", "a\n{% for m in messages %}");
  CHECK(fails_saying(files.run("broken.jinja"), {"broken.jinja", "{% endfor %}", "line 2"}) == "");
  files.write("endless.jinja",
              "\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  CHECK(fails_saying(files.run("endless.jinja"), {"endless.jinja", "steps", "line 2", "{% for %}"}) == "");

  files.folder("bad");
  const auto config = [&](const std::string& text) {
    files.write("bad/tokenizer_config.json", text);
    return files.run("bad");
  };
  CHECK(fails_saying(config("{"), {"tokenizer_config.json"}) == "");
  CHECK(fails_saying(config(R"({"chat_template": 1})"),
                     {"tokenizer_config.json", "'chat_template'", "found 1"}) == "");
  CHECK(fails_saying(config(R"({"chat_template": [{"name": "a"}]})"), {"'chat_template[0].template'"}) == "");
  CHECK(fails_saying(config(R"({"chat_template": "{{"})"),
                     {"tokenizer_config.json: chat_template", "line 1"}) == "");
}
