// `pumice translate`: texts from arguments and from standard input, beams, tasks, and attention.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::vector<int64_t> integers(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsFile::Entry* entry = file.find(name);
  if (!entry) FAIL("no tensor " << name);
  return *SafetensorsFile::integers(*entry);
}

// Marian's fixture with words, and what the reference made of its first input.
struct Words {
  TemporaryFolder folder;
  std::string model = folder.path().string();
  std::string source, other; // texts of the two inputs
  std::vector<int64_t> greedy, beams;

  Words() {
    write_word_folder(folder, "marian");
    const auto file = SafetensorsFile::open(fixtures().model("marian") / "expected.safetensors");
    REQUIRE(file.ok());
    const std::vector<int64_t> ids = integers(*file, "input_ids"), mask = integers(*file, "attention_mask");
    const size_t columns = ids.size() / 2;
    std::vector<int64_t> rows[2];
    for (size_t i = 0; i < ids.size(); ++i) {
      if (mask[i]) rows[i / columns].push_back(ids[i]);
    }
    source = words(rows[0]);
    other = words(rows[1]);
    greedy = up_to_end(integers(*file, "generated_ids"));
    beams = up_to_end(integers(*file, "beam4_ids"));
  }

  static std::vector<int64_t> up_to_end(std::vector<int64_t> ids) {
    ids.erase(std::ranges::find(ids, 2), ids.end());
    return ids;
  }
  CommandResult translate(std::vector<std::string> arguments, const std::string* input = nullptr) const {
    arguments.insert(arguments.begin(), {"translate", model, "-n", "12"});
    const CommandResult result = pumice_command(arguments, input);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return result;
  }
  CommandResult fail(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"translate", model, source});
    return pumice_command(arguments);
  }
};

} // namespace

FIXTURE_TEST_CASE("translate gives the reference's greedy and beam search texts") {
  const Words words;
  const json greedy = json::parse(words.translate({words.source, "--json"}).out);
  CHECK(greedy["source"] == words.source);
  CHECK(Words::up_to_end(greedy["tokens"].get<std::vector<int64_t>>()) == words.greedy);
  CHECK(greedy["text"] == ::words(words.greedy));
  CHECK(!greedy.contains("hypotheses"));

  const json best =
      json::parse(words.translate({words.source, "--json", "--beams", "4", "--n-best", "3"}).out);
  CHECK(Words::up_to_end(best["tokens"].get<std::vector<int64_t>>()) == words.beams);
  REQUIRE(best["hypotheses"].size() == 3);
  CHECK(best["hypotheses"][0]["text"] == best["text"]);
  CHECK(best["hypotheses"][0]["score"].get<float>() >= best["hypotheses"][1]["score"].get<float>());
  CHECK(best["score"].get<float>() < 0);
}

// By the logits that `pumice eval` has for the text.
FIXTURE_TEST_CASE("a greedy text has the score that a beam with these tokens has") {
  const Words words;
  const json config = json::parse(std::ifstream(words.folder.path() / "generation_config.json"));
  const auto read = json::parse(pumice_command({"tokenize", words.model, "--json"}, words.source).out)["ids"]
                        .get<std::vector<int64_t>>();
  for (const char* penalty : {"1", "0.4"}) {
    CAPTURE(std::string(penalty));
    const json greedy =
        json::parse(words.translate({words.source, "--json", "--length-penalty", penalty}).out);
    const auto tokens = greedy["tokens"].get<std::vector<int64_t>>();
    std::vector<int64_t> begun = {config["decoder_start_token_id"].get<int64_t>()};
    begun.insert(begun.end(), tokens.begin(), tokens.end() - 1);
    const std::string in = (words.folder.path() / "in.safetensors").string(),
                      out = (words.folder.path() / "out.safetensors").string();
    const SafetensorsFile::Entry entries[] = {
        {"input_ids", "I64", {1, read.size()}, std::as_bytes(std::span(read))},
        {"decoder_input_ids", "I64", {1, begun.size()}, std::as_bytes(std::span(begun))}};
    REQUIRE(write_safetensors(in, entries).ok());
    REQUIRE(pumice_command({"eval", words.model, "--inputs", in, "--outputs", out}).status == 0);
    const auto file = SafetensorsFile::open(out);
    REQUIRE(file.ok());
    const std::vector<float> logits = *SafetensorsFile::floats(*file->find("logits"));
    const size_t vocabulary = logits.size() / begun.size();
    double score = 0;
    for (size_t at = 0; at < tokens.size(); ++at) {
      const auto row = logits.begin() + static_cast<ptrdiff_t>(at * vocabulary);
      double sum = 0;
      for (size_t token = 0; token < vocabulary; ++token) sum += std::exp(double{row[token]});
      score += double{row[tokens[at]]} - std::log(sum);
    }
    score /= std::pow(static_cast<double>(tokens.size()), std::stod(penalty));
    CHECK(greedy["score"].get<double>() == doctest::Approx(score).epsilon(1e-4));
  }
  // The trained model's best text is the same with beams.
  const auto dates = [&](const char* beams) {
    return json::parse(
        pumice_command({"translate", dates_model().string(), "le 3 mars 2021", "--json", "--beams", beams})
            .out);
  };
  const json one = dates("1"), four = dates("4");
  CHECK(one["tokens"] == four["tokens"]);
  CHECK(one["score"].get<double>() == doctest::Approx(four["score"].get<double>()).epsilon(1e-3));
}

TEST_CASE("translate --paragraphs joins the lines of a paragraph, and keeps blank lines") {
  const Words words;
  const std::string both = words.source + " ! " + words.other;
  const std::string first = words.translate({both, "--sentences"}).out,
                    second = words.translate({words.other, "--sentences"}).out;
  // Three words on a line, with what else text has at line ends.
  std::string wrapped;
  size_t count = 0;
  for (const char c : both) wrapped += c != ' ' ? std::string(1, c) : ++count % 3 ? " " : " \r\n  ";
  const std::string input = "\n" + wrapped + "\n\n \n" + words.other;
  CHECK(words.translate({"--paragraphs"}, &input).out == "\n" + first + "\n\n" + second);
  CHECK(lines_of(words.translate({"--sentences"}, &input).out).size() > 8); // each line by itself
  const std::vector<std::string> objects = lines_of(words.translate({"--paragraphs", "--json"}, &input).out);
  REQUIRE(objects.size() == 5);
  CHECK(json::parse(objects[1])["source"] == both);
  CHECK(json::parse(objects[1])["sentences"].size() == 2);
  CHECK(json::parse(objects[4])["source"] == words.other);
  CHECK(words.translate({"--paragraphs", "--file", words.folder.write("text.txt", input).string()}).out ==
        "\n" + first + "\n\n" + second);
  // Lines that are written without spaces are joined without.
  const std::string wide = "\u65e5\u672c\n\u8a9e\u3067\n\u3059\nw5\n";
  CHECK(json::parse(words.translate({"--paragraphs", "--json"}, &wide).out)["source"] ==
        "\u65e5\u672c\u8a9e\u3067\u3059w5");
  const CommandResult bad =
      pumice_command({"translate", words.model, "--paragraphs"}, "w5\nw6\n\nw7\n\xff\n");
  CHECK(bad.status == 1);
  CHECK(bad.err.find("standard input: paragraph 3") != std::string::npos);
  CHECK(pumice_command({"translate", words.model, "--paragraphs", "w5"}).status != 0);
}

TEST_CASE("each line of --n-best says whose it is, unless there is one text") {
  const Words words;
  const std::vector<std::string> best = {"--beams", "2", "--n-best", "2"};
  const auto lines = [&](std::vector<std::string> texts, const std::string* input) {
    texts.insert(texts.end(), best.begin(), best.end());
    std::istringstream out(words.translate(texts, input).out);
    std::vector<std::string> all;
    for (std::string line; std::getline(out, line);) all.push_back(line);
    return all;
  };
  for (const std::string& line : lines({words.source}, nullptr)) CHECK(std::ranges::count(line, '\t') == 1);
  const std::string input = words.source + "\n" + words.other + "\n";
  for (const auto& all : {lines({words.source, words.other}, nullptr), lines({}, &input)}) {
    REQUIRE(all.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(all[i].starts_with(i < 2 ? "1\t-" : "2\t-"));
  }
}

FIXTURE_TEST_CASE("translate answers lines in their order, and each as if it were alone") {
  const Words words;
  const std::string first = words.translate({words.source}).out, second = words.translate({words.other}).out;
  CHECK(first == ::words(words.greedy) + "\n");
  CHECK(second != first);
  CHECK(words.translate({words.other, words.source}).out == second + first);
  // No end to the last line; lines that are empty or have only spaces; the end that Windows writes.
  const std::string input = words.source + "\n\n" + words.other + "\r\n  \n" + words.source;
  const std::string expected = first + "\n" + second + "\n" + first;
  CHECK(words.translate({}, &input).out == expected);
  CHECK(words.translate({"--sequences", "1"}, &input).out == expected);
  CHECK(words.translate({"--batch-tokens", "1"}, &input).out == expected);
  const std::string nothing;
  CHECK(words.translate({}, &nothing).out == "");
  const std::string blank = "\n";
  CHECK(json::parse(words.translate({"--json"}, &blank).out)["text"] == "");
}

FIXTURE_TEST_CASE(
    "translate answers the lines around a bad one, in whose place is an empty one or an error") {
  const Words words;
  const std::string first = words.translate({words.source}).out, second = words.translate({words.other}).out;
  const std::string input = words.source + "\n" + words.other + "\nw4 \xff\n" + words.other + "\n";
  std::vector<std::string> arguments = {"translate", words.model, "-n", "12"};
  const CommandResult ended = pumice_command(arguments, input);
  CHECK(ended.status == 1);
  CHECK(ended.out == first + second + "\n" + second);
  CHECK(ended.err.find("standard input: line 3") != std::string::npos);
  CHECK(ended.err.find("UTF-8") != std::string::npos);
  arguments.push_back("--json");
  const std::vector<std::string> objects = lines_of(pumice_command(arguments, input).out);
  REQUIRE(objects.size() == 4);
  CHECK(json::parse(objects[2])["error"].get<std::string>().find("line 3") != std::string::npos);
  CHECK(json::parse(objects[3]).contains("text"));
  arguments.back() = "--skip-bad-lines";
  const CommandResult skipped = pumice_command(arguments, input);
  CHECK(skipped.status == 0);
  CHECK(skipped.out == first + second + second);
  CHECK(skipped.err.find("standard input: line 3") != std::string::npos);
  arguments.push_back("--json");
  CHECK(lines_of(pumice_command(arguments, input).out).size() == 3);
}

TEST_CASE("translate cuts a text that is too long, and says so") {
  const Words words;
  std::string longest, longer;
  for (int i = 0; i < 3000; ++i) (i < 2048 ? longest : longer) += "w" + std::to_string(3 + i % 300) + " ";
  const CommandResult whole = words.translate({longest, "--json"});
  CHECK(whole.err.find("left out") == std::string::npos);
  const CommandResult cut = words.translate({longest + longer, "--json"});
  CHECK(cut.err.find("TEXT 1: the text has 3000 tokens") != std::string::npos);
  CHECK(json::parse(cut.out)["truncated"] == true);
  CHECK(json::parse(cut.out)["tokens"] == json::parse(whole.out)["tokens"]);
}

TEST_CASE("translate knows tasks, prefixes and target languages") {
  const Words words;
  const size_t space = words.source.find(' ');
  const std::string start = words.source.substr(0, space + 1), rest = words.source.substr(space + 1);
  const std::string expected = words.translate({words.source}).out;
  CHECK(words.translate({rest, "--prefix", start}).out == expected);
  const json forced = json::parse(words.translate({words.source, "--target-language", "w7", "--json"}).out);
  CHECK(forced["tokens"][0] == 7);
  CHECK(json::parse(words.translate({words.source, "--forced-first", "7", "--json"}).out) == forced);
  CHECK(fails_saying(words.fail({"--target-language", "xx"}), {"--to", "0 to 319", "'xx'"}) == "");

  json config = json::parse(std::ifstream(words.folder.path() / "config.json"));
  config["task_specific_params"]["a_to_b"] = {{"prefix", start}, {"num_beams", 4}, {"max_length", 13}};
  words.folder.write("config.json", config.dump());
  const CommandResult task = pumice_command({"translate", words.model, rest, "--task", "a_to_b", "--json"});
  REQUIRE(task.status == 0);
  CHECK(Words::up_to_end(json::parse(task.out)["tokens"].get<std::vector<int64_t>>()) == words.beams);
  CHECK(fails_saying(words.fail({"--task", "b_to_a"}), {"--task b_to_a", "its tasks are a_to_b"}) == "");
}

TEST_CASE("translate --attention: rows sum to one and are where the decoder looked") {
  const Words words;
  const std::string path = (words.folder.path() / "a.safetensors").string();
  const json written = json::parse(words.translate({words.source, "--json", "--attention", path}).out);
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(json(integers(*file, "output_ids")) == written["tokens"]);
  CHECK(::words(integers(*file, "input_ids")) == words.source);
  const SafetensorsFile::Entry *shown = file->find("attention"), *heads = file->find("cross_attentions.1");
  REQUIRE(shown);
  REQUIRE(heads);
  const uint64_t queries = written["tokens"].size(), keys = integers(*file, "input_ids").size();
  CHECK(shown->shape == std::vector<uint64_t>{queries, keys});
  CHECK(heads->shape == std::vector<uint64_t>{4, queries, keys});
  const std::vector<float> mean = *SafetensorsFile::floats(*shown), all = *SafetensorsFile::floats(*heads);
  for (size_t row = 0; row < 4 * queries; ++row) {
    const auto at = all.begin() + static_cast<ptrdiff_t>(row * keys);
    CHECK(std::accumulate(at, at + static_cast<ptrdiff_t>(keys), 0.0) == doctest::Approx(1));
  }
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (size_t head = 0; head < 4; ++head) sum += all[head * mean.size() + i];
    CHECK(mean[i] == doctest::Approx(sum / 4));
  }

  words.translate({words.source, "--attention", path, "--attention-layer", "0", "--attention-head", "2"});
  const auto chosen = SafetensorsFile::open(path);
  REQUIRE(chosen->find("cross_attentions.0"));
  const std::vector<float> first = *SafetensorsFile::floats(*chosen->find("cross_attentions.0"));
  const std::vector<float> one = *SafetensorsFile::floats(*chosen->find("attention"));
  const auto from = first.begin() + static_cast<ptrdiff_t>(2 * one.size());
  CHECK(std::equal(one.begin(), one.end(), from));
}

TEST_CASE("translate --attention draws a PNG or an SVG, and refuses what it cannot draw") {
  const Words words;
  const std::string path = (words.folder.path() / "a.png").string();
  words.translate({words.source, "--beams", "2", "--attention", path});
  std::string head(4, ' ');
  std::ifstream(path, std::ios::binary).read(head.data(), 4);
  CHECK(head == "\x89PNG");
  const std::string svg = (words.folder.path() / "a.svg").string();
  words.translate({words.source, "--attention", svg});
  std::getline(std::ifstream(svg), head);
  CHECK(head.starts_with("<svg "));
  CHECK(fails_saying(words.fail({"--attention", "a.gif"}), {".png", ".svg", ".safetensors", "a.gif"}) == "");
  CHECK(fails_saying(words.fail({"--attention", "/no/such/a.png"}), {"no folder /no/such"}) == "");
  CHECK(fails_saying(words.fail({"--attention", path, "--attention-layer", "2"}), {"0 to 1", "2"}) == "");
  CHECK(fails_saying(words.fail({"--attention", path, "--attention-head", "4"}), {"0 to 3", "4"}) == "");
  CHECK(fails_saying(words.fail({"w5", "--attention", path}), {"one text", "several"}) == "");
  CHECK(fails_saying(words.fail({"--attention-head", "1"}), {"--attention"}) == "");
}

FIXTURE_TEST_CASE("translate --alignment links each word to the one that its token attended to most") {
  const Words words;
  const std::string path = (words.folder.path() / "a.safetensors").string();
  const json plain = json::parse(
      words.translate({words.source, "--json", "--attention", path, "--attention-layer", "0"}).out);
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  const std::vector<float> attention = *SafetensorsFile::floats(*file->find("attention"));
  const std::vector<int64_t> read = integers(*file, "input_ids"), written = integers(*file, "output_ids");
  json expected = json::array();
  std::string text;
  const auto is_word = [](int64_t id) { return id > 2; };
  for (size_t row = 0, word = 0; row < written.size(); ++row) {
    if (!is_word(written[row])) continue;
    float most = -1;
    size_t link = 0;
    for (size_t column = 0, from = 0; column < read.size(); ++column) {
      if (!is_word(read[column])) continue;
      if (attention[row * read.size() + column] > most) {
        most = attention[row * read.size() + column];
        link = from;
      }
      ++from;
    }
    expected.push_back({link, word});
    text += (text.empty() ? "" : " ") + std::to_string(link) + "-" + std::to_string(word++);
  }
  REQUIRE(expected.size() > 3);
  const json linked = json::parse(words.translate({words.source, "--json", "--alignment"}).out);
  CHECK(linked["alignment"] == expected);
  CHECK(linked["text"] == plain["text"]);
  const std::string line = words.translate({words.source, "--alignment"}).out;
  CHECK(line == plain["text"].get<std::string>() + " ||| " + text + "\n");

  // Of every one of several, and of several sentences as of one text.
  const json best = json::parse(
      words.translate({words.source, "--json", "--alignment", "--beams", "2", "--n-best", "2"}).out);
  REQUIRE(best["hypotheses"].size() == 2);
  for (const json& each : best["hypotheses"]) CHECK(!each["alignment"].empty());
  const json two = json::parse(
      words.translate({words.source + " ! " + words.source, "--json", "--alignment", "--sentences"}).out);
  REQUIRE(two["sentences"].size() == 2);
  const size_t first_words = static_cast<size_t>(std::ranges::count(words.source, ' ')) + 2;
  CHECK(two["alignment"].back()[0] >= first_words);
}

TEST_CASE("translate --alignment counts words, not their pieces") {
  const json linked = json::parse(
      pumice_command({"translate", dates_model().string(), "le 3 mars 2021", "--json", "--alignment"}).out);
  REQUIRE(!linked["alignment"].empty());
  for (size_t n = 0; n < linked["alignment"].size(); ++n) {
    CHECK(linked["alignment"][n][1] == n);
    CHECK(linked["alignment"][n][0] < 4);
  }
}

TEST_CASE("translate says which subcommand another kind of model is for") {
  const auto fails = [](const char* model, const char* kind, const char* subcommand) {
    const std::string path = fixtures().model(model).string();
    return fails_saying(pumice_command({"translate", path, "w5"}), {kind, subcommand});
  };
  CHECK(fails("llama-mha", "is a decoder", "pumice run") == "");
  CHECK(fails("bert", "is an encoder", "pumice embed") == "");
  CHECK(fails("vit", "is an encoder of pictures", "pumice classify") == "");
  CHECK(fails("vit-gpt2", "is an encoder-decoder", "pumice caption") == "");
  CHECK(fails("whisper", "is an encoder-decoder", "pumice transcribe") == "");
  CHECK(fails("marian", "tokenizer", "") == "");
}
