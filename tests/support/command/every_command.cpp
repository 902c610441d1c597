#include "support/command/every_command.h"

#include <doctest/doctest.h>

#include "media/image.h"
#include "support/files/bert_folder.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/files/word_folder.h"

namespace {

using Words = std::vector<std::string>;

void write_safetensors(const std::string& path, const std::vector<std::string>& names) {
  const std::vector<int64_t> ids = {5, 6, 7, 8};
  std::vector<pumice::SafetensorsFile::Entry> entries;
  for (const std::string& name : names)
    entries.push_back({name, "I64", {1, 4}, std::as_bytes(std::span(ids))});
  REQUIRE(pumice::write_safetensors(path, entries).ok());
}

nlohmann::json bench_result() {
  nlohmann::json samples = nlohmann::json::array();
  for (int i = 0; i < 6; ++i) samples.push_back({{"seconds", 0.1 + 0.001 * i}});
  return {{"device", "x"}, {"results", {{{"test", "pp8"}, {"stable", true}, {"samples", samples}}}}};
}

} // namespace

Words EveryCommand::Command::writing(const std::string& option, const std::string& file) const {
  Words all = arguments;
  if (!option.empty()) all.push_back(option);
  all.push_back(file);
  return all;
}

Words EveryCommand::Command::complete(const std::string& file) const {
  return needs_output ? writing(outputs[0], file) : arguments;
}

std::string EveryCommand::Command::name() const {
  return arguments[1] == "compare" ? "bench compare" : arguments[0];
}

EveryCommand::EveryCommand() {
  write_files();
  const std::string story = fixtures().story().string(), speech = speech_.path().string();
  const std::string talk = (pretrained_folder() / "chat-2m.gguf").string();
  const std::string marian = file("marian/model.safetensors"), tokenizer = file("marian/tokenizer.json");
  commands_ = {
      {{"chat", talk, "What is 2 plus 3?"}, {}, {}},
      {{"template", talk, "--messages", file("messages.json")}, {}, {file("messages.json")}},
      {{"run", story, "Once", "-n", "40"}, {"--session"}, {}},
      {{"generate", story, "--prompt", "Once", "-n", "20"}, {"--outputs", "--session"}, {}},
      {{"translate", file("marian"), "w5 w6", "-n", "12"}, {"--attention"}, {marian, tokenizer}},
      {{"transcribe", speech, file("sound.wav"), "-n", "8", "--language", "en"}, {"--attention"}, {}},
      {{"speak", talker_.path().string(), "good morning", "-n", "40", "--seed", "1"},
       {"--output"},
       {(talker_.path() / "config.json").string()},
       true},
      {{"caption", file("vit-gpt2"), file("picture.png"), "-n", "8"}, {"--attention"}, {file("picture.png")}},
      {{"embed", file("bert"), "the fox"}, {"--output"}, {file("bert/config.json")}},
      {{"rerank", file("bert"), "the fox", "--query", "fox"}, {}, {}},
      {{"search", file("bert"), file("texts"), "fox"}, {}, {}},
      {{"classify", file("bert"), "the fox"}, {}, {}},
      {{"tokenize", story}, {}, {}},
      {{"eval", file("marian"), "--inputs", file("in.safetensors")},
       {"--outputs"},
       {marian, file("in.safetensors")},
       true},
      {{"inspect", story}, {}, {}},
      {{"devices"}, {}, {}},
      {{"doctor", "--quick", "--only", "memory"}, {}, {}},
      {{"tune", file("llama"), "--seconds", "0.1"}, {"--export"}, {file("llama/model.safetensors")}},
      {{"bench", story, "-p", "16", "-n", "4", "-r", "2", "-w", "1"}, {}, {}},
      {{"bench", "compare", file("bench.json"), file("bench.json")}, {}, {}},
      {{"perplexity", story, file("text.txt"), "--context", "32"}, {}, {}},
      {{"convert", file("llama"), "--type", "F16"}, {""}, {file("llama/model.safetensors")}, true},
  };
}

void EveryCommand::write_files() const {
  for (const char* model : {"marian", "vit-gpt2"}) {
    const TemporaryFolder folder;
    write_word_folder(folder, model);
    std::filesystem::copy(folder.path(), file(model));
  }
  std::filesystem::create_directory(file("llama"));
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(fixtures().model("llama-mha") / name, file("llama") + "/" + name);
  }
  const TemporaryFolder bert;
  BertFolder settings;
  settings.labels = 1;
  REQUIRE(settings.write(bert));
  std::filesystem::copy(bert.path(), file("bert"));
  folder_.write("sound.wav", wav_bytes(wail(24000)));
  pumice::Image picture{32, 32, std::vector<uint8_t>(32 * 32 * 3, 90)};
  REQUIRE(pumice::write_png(picture, file("picture.png")).ok());
  write_safetensors(file("in.safetensors"), {"input_ids", "decoder_input_ids"});
  folder_.write("messages.json", std::string_view(R"({"messages": [{"role": "user", "content": "Hi"}]})"));
  folder_.write("bench.json", bench_result().dump());
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Once upon a time there was a dog. ";
  folder_.write("text.txt", text);
  std::filesystem::create_directory(file("texts"));
  folder_.write("texts/a.txt", std::string_view("the fox\n\nthe dog\n"));
  folder_.write("lines.txt", std::string_view("the fox\nthe dog\n"));
}
