// `pumice tokenize` and the C interface cut texts into the same tokens, and join them to the same texts.
#include <fstream>

#include <doctest/doctest.h>

#include "support/command/written.h"
#include "support/files/fixtures.h"
#include "support/in_turn.h"

using nlohmann::json;

namespace {

std::vector<uint32_t> cut(const pumice_model* model, const std::string& text, uint32_t flags) {
  pumice_error error;
  size_t size = 0;
  require_ok(pumice_model_tokenize(model, text.c_str(), flags, nullptr, 0, &size, &error), error);
  std::vector<uint32_t> tokens(size);
  require_ok(pumice_model_tokenize(model, text.c_str(), flags, tokens.data(), size, &size, &error), error);
  return tokens;
}

std::string joined(const pumice_model* model, const std::vector<uint32_t>& tokens) {
  pumice_error error;
  size_t size = 0;
  require_ok(pumice_model_detokenize(model, tokens.data(), tokens.size(), nullptr, 0, &size, &error), error);
  std::string text(size + 1, '\0');
  require_ok(
      pumice_model_detokenize(model, tokens.data(), tokens.size(), text.data(), text.size(), &size, &error),
      error);
  text.resize(size);
  return text;
}

std::string list_of(const std::vector<uint32_t>& tokens) {
  std::string text;
  for (uint32_t each : tokens) text += (text.empty() ? "" : ",") + std::to_string(each);
  return text;
}

void check_agree(const std::string& path, const pumice_model* model, const std::string& text) {
  CAPTURE(text);
  const json whole = command_json({"tokenize", path, "--json"}, text);
  CHECK(whole["ids"] == json(cut(model, text, PUMICE_ADD_SPECIAL | PUMICE_PARSE_SPECIAL)));
  const std::vector<uint32_t> plain = cut(model, text, PUMICE_PARSE_SPECIAL);
  CHECK(command_json({"tokenize", path, "--json", "--no-special"}, text)["ids"] == json(plain));
  if (plain.empty()) return;
  const json decoded = command_json({"tokenize", path, "--json", "--no-special", "--ids", list_of(plain)});
  CHECK(decoded["decoded"] == joined(model, plain));
}

} // namespace

TEST_CASE("the shipped models cut and join texts alike") {
  const DeviceHandle& device = shared_device();
  for (const std::string& path : {stories, (pretrained_folder() / "chat-2m.gguf").string(), dates}) {
    CAPTURE(path);
    const ModelHandle model = load(device.get(), path);
    for (const char* text :
         {"Once upon a time,\nthere was a cat.", " 12/05/1997 ", "<s>a<|end|></s>", "äöü€"})
      check_agree(path, model.get(), text);
  }
}

TEST_CASE("the fixtures' tokenizers cut and join texts alike") {
  const DeviceHandle& device = shared_device();
  std::vector<std::filesystem::directory_entry> tokenizers;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures().folder() / "tokenizers"))
    tokenizers.push_back(entry);
  std::ranges::sort(tokenizers);
  for (const auto& entry : turns_of(tokenizers, 3)) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    // The C interface knows no tokenizer without a model: this one is beside the weights of another.
    const TemporaryFolder folder;
    std::filesystem::copy(fixtures().model("llama-gqa"), folder.path(),
                          std::filesystem::copy_options::recursive);
    std::filesystem::copy(entry.path() / "tokenizer.json", folder.path() / "tokenizer.json",
                          std::filesystem::copy_options::overwrite_existing);
    const ModelHandle model = load(device.get(), folder.path().string());
    const json cases = json::parse(std::ifstream(entry.path() / "cases.json"));
    for (size_t i = 0; i < cases.size(); i += 7)
      check_agree(folder.path().string(), model.get(), cases[i]["text"]);
  }
}
