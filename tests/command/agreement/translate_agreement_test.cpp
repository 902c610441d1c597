// `pumice translate --json` and the C interface: the same numbers of every model that translates.
#include <array>
#include <fstream>

#include <nlohmann/json.hpp>

#include "generate/generation_config.h"
#include "model/architecture.h"
#include "support/command/command.h"
#include "support/files/word_folder.h"
#include "support/in_turn.h"
#include "support/translators.h"

using nlohmann::json;

namespace {

// How a model is asked, both ways.
struct Asked {
  std::vector<std::string> arguments;
  pumice_translator_options options = {sizeof options};
  pumice_writing_options writing = {sizeof writing};
};

json written(const pumice_written& given, bool alignment) {
  json result = {{"text", given.text},
                 {"tokens", std::vector<uint32_t>(given.tokens, given.tokens + given.token_count)},
                 {"score", given.score}};
  if (alignment) result["alignment"] = json::array();
  for (size_t i = 0; alignment && i < given.alignment_count; ++i)
    result["alignment"].push_back({given.alignment[2 * i], given.alignment[2 * i + 1]});
  return result;
}

void add(json& to, const pumice_written* texts, size_t count, const Asked& asked) {
  REQUIRE(count > 0);
  to.update(written(texts[0], asked.options.alignment));
  for (size_t i = 0; asked.writing.n_best > 1 && i < count; ++i)
    to["hypotheses"].push_back(written(texts[i], asked.options.alignment));
}

// What the C interface makes of a text, in the command's form.
json translation(pumice_translator* translator, const std::string& text, size_t index, const Asked& asked) {
  const pumice_translation* made = nullptr;
  pumice_error error;
  require_ok(pumice_translator_result(translator, index, &made, &error), error);
  json result = {{"schema", 1}, {"source", text}};
  if (made->truncated) result["truncated"] = true;
  add(result, made->texts, made->text_count, asked);
  if (asked.options.sentences) result["sentences"] = json::array();
  for (size_t i = 0; i < made->sentence_count; ++i) {
    const pumice_sentence& sentence = made->sentences[i];
    json own = {{"source", sentence.source}};
    Asked plain = asked;
    plain.options.alignment = false;
    add(own, sentence.texts, sentence.text_count, plain);
    result["sentences"].push_back(own);
  }
  return result;
}

void check(pumice_model* model, const std::string& path, Asked asked, const std::vector<std::string>& texts) {
  asked.writing.scores = true;
  asked.options.writing = &asked.writing;
  pumice_translator* made = nullptr;
  pumice_error error;
  require_ok(pumice_translator_create(model, &asked.options, &made, &error), error);
  const TranslatorHandle translator(made);
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  require_ok(pumice_translator_translate(made, pointers.data(), pointers.size(), &error), error);

  std::vector<std::string> arguments = {"translate", path, "--json"};
  arguments.insert(arguments.end(), asked.arguments.begin(), asked.arguments.end());
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() == texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    CHECK(translation(made, texts[i], i, asked) == json::parse(lines[i]));
}

bool translates(const std::string& fixture) {
  const auto file = pumice::ModelFile::open(fixtures().model(fixture));
  if (!file.ok()) return false;
  const auto definition = pumice::open_model_definition(*file);
  if (!definition.ok()) return false;
  const pumice::ModelShape shape = (*definition)->shape();
  if (!shape.has_decoder() || !shape.encoder || shape.encoder->kind != pumice::InputKind::tokens)
    return false;
  const auto settings = pumice::read_generation_config(*file, shape.vocabulary);
  return settings.ok() && !settings->prompt.empty(); // they say what the decoder begins with
}

Asked best_of_beams() {
  Asked asked;
  asked.arguments = {"-n", "10", "--beams", "3", "--n-best", "2", "--length-penalty", "0.6"};
  asked.writing.max_tokens = 10;
  asked.writing.beams = 3;
  asked.writing.n_best = 2;
  asked.writing.length_penalty = 0.6f;
  return asked;
}

Asked greedy_sentences() {
  Asked asked;
  asked.arguments = {"-n", "10", "--beams", "1", "--sentences", "--early-stopping", "yes"};
  asked.writing.max_tokens = 10;
  asked.writing.beams = 1;
  asked.writing.early_stopping = PUMICE_EARLY_STOPPING_YES;
  asked.options.sentences = true;
  return asked;
}

// Two tokens of the folder's become names of languages.
void name_languages(const TemporaryFolder& folder, const char* first, const char* second) {
  json tokenizer = json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  for (uint32_t id : {300u, 301u}) {
    const char* name = id == 300 ? first : second;
    tokenizer["model"]["vocab"].erase(word(id));
    tokenizer["model"]["vocab"][name] = id;
    json token = tokenizer["added_tokens"][0];
    token.update({{"id", id}, {"content", name}});
    tokenizer["added_tokens"].push_back(token);
  }
  folder.write("tokenizer.json", tokenizer.dump());
}

} // namespace

// Every third fixture, with beams or by sentences in turn; a long run asks each in both ways.
TEST_CASE("translate and the C interface agree for every fixture that translates") {
  const DeviceHandle& device = shared_device();
  const std::vector<std::string> texts = {"w5 w6 w40 w7 ! w8 w9", "", "w41 w5"};
  size_t count = 0;
  for (const std::string& name : fixtures().models()) {
    if (!translates(name) || !takes(count++ % 3 == 0)) continue;
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const std::string path = folder.path().string();
    const ModelHandle model = load(device.get(), path);
    for (const Asked& asked : turn_of(std::array{best_of_beams(), greedy_sentences()}, count))
      check(model.get(), path, asked, texts);
  }
  CHECK(count >= 8);
}

TEST_CASE("translate and the C interface agree for the model that ships, alignment and glossary included") {
  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get(), dates);
  Asked plain;
  check(model.get(), dates, plain, {"le 3 mars 2021", "May 4, 1999", "the third of may, 1987"});
  Asked more;
  more.arguments = {"--alignment", "--prefix", "the ", "--beams", "2", "--n-best", "2"};
  more.options.alignment = true;
  more.options.prefix = "the ";
  more.writing.beams = more.writing.n_best = 2;
  more.writing.inputs = 3;
  check(model.get(), dates, more, {"third of may, 1987", "3 mars 2021"});
  Asked terms;
  const TemporaryFolder folder;
  const std::string glossary = "mars\t2022\n";
  terms.arguments = {"--glossary", folder.write("terms.tsv", glossary).string()};
  terms.options.glossary = glossary.c_str();
  check(model.get(), dates, terms, {"le 3 mars 2021", "May 4, 1999"});
}

TEST_CASE("a model of many languages is refused without one, with the command's sentence") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "m2m100");
  name_languages(folder, "__de__", "__en__");
  const std::string path = folder.path().string();
  const ModelHandle model = load(device.get(), path);
  pumice_translator* made = nullptr;
  pumice_error error;
  CHECK(pumice_translator_create(model.get(), nullptr, &made, &error) == PUMICE_INVALID_ARGUMENT);
  std::string sentence = error.message;
  const CommandResult refused = pumice_command({"translate", path, "w5"});
  CHECK(refused.status == 1);
  sentence.replace(sentence.find("options.target_language"), 23, "--to");
  CAPTURE(sentence);
  CHECK(refused.err.find(sentence) != std::string::npos);

  Asked asked;
  asked.arguments = {"-n", "8", "--from", "German", "--to", "en"};
  asked.writing.max_tokens = 8;
  asked.options.source_language = "German";
  asked.options.target_language = "en";
  check(model.get(), path, asked, {"w5 w6"});
}

TEST_CASE("translate and the C interface agree about a task that the model's settings define") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "t5");
  json config = json::parse(std::ifstream(folder.path() / "config.json"));
  config["task_specific_params"]["a_to_b"] = {{"prefix", "w9 w10 "}, {"num_beams", 2}, {"max_length", 9}};
  folder.write("config.json", config.dump());
  const std::string path = folder.path().string();
  const ModelHandle model = load(device.get(), path);
  Asked asked;
  asked.arguments = {"--task", "a_to_b"};
  asked.options.task = "a_to_b";
  check(model.get(), path, asked, {"w5 w6", "w7"});
}
