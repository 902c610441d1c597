// The translation model that ships: its text comes out as the script that made it says, and as often right.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generate/encoder_decoder.h"
#include "model/vocabulary.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/model.h"

using namespace pumice;

namespace {

const std::filesystem::path folder = dates_model();

std::vector<std::vector<Hypothesis>> generate(const std::shared_ptr<const Model>& model,
                                              std::span<const EncoderInput> inputs, uint32_t beams) {
  EncoderDecoderOptions session_options;
  session_options.inputs = 32;
  session_options.beams = beams;
  session_options.input_tokens = 1024;
  session_options.output_tokens = 32;
  auto session = EncoderDecoder::create(model, session_options);
  if (!session.ok()) FAIL(session.error().text());
  GenerationOptions options;
  options.config = *read_generation_config(model->file(), model->shape().vocabulary);
  options.config.beams = beams;
  options.sampling.temperature = 0;
  auto texts = (*session)->generate(inputs, options);
  if (!texts.ok()) FAIL(texts.error().text());
  CHECK((*session)->encoder().steps() <= 1 + inputs.size() / 8);
  return std::move(*texts);
}

} // namespace

TEST_CASE("the dates model gives the ids that were noted down when it was exported") {
  const auto model = load_model(folder);
  const nlohmann::json expected = nlohmann::json::parse(std::ifstream(folder / "expected.json"));
  std::vector<EncoderInput> inputs;
  for (const nlohmann::json& line : expected.at("examples")) {
    inputs.push_back({line.at("source_ids").get<std::vector<uint32_t>>(), {}, {}});
  }
  REQUIRE(inputs.size() >= 5);
  const auto tokenizer = load_tokenizer(model->file());
  REQUIRE(tokenizer.ok());
  const auto greedy = generate(model, inputs, 1), beams = generate(model, inputs, 4);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const nlohmann::json& line = expected.at("examples")[i];
    CAPTURE(line.at("text").get<std::string>());
    CHECK((*tokenizer)->encode(line.at("text").get<std::string>(), true) == inputs[i].tokens);
    CHECK(greedy[i][0].tokens == line.at("greedy_ids").get<std::vector<uint32_t>>());
    CHECK(beams[i][0].tokens == line.at("beam4_ids").get<std::vector<uint32_t>>());
  }
}

// Every eighth of them; a long run reads all.
TEST_CASE("the dates model reads at least 99 of 100 dates of days that it was not trained with") {
  const auto model = load_model(folder);
  const auto tokenizer = load_tokenizer(model->file());
  REQUIRE(tokenizer.ok());
  std::vector<EncoderInput> inputs;
  std::vector<std::string> dates;
  std::ifstream lines(folder / "held_out.tsv");
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    inputs.push_back({(*tokenizer)->encode(line.substr(0, tab), true), {}, {}});
    dates.push_back(line.substr(tab + 1));
  }
  REQUIRE(inputs.size() >= 1000);
  inputs = turns_of(inputs, 8);
  dates = turns_of(dates, 8);
  const auto texts = generate(model, inputs, 1);
  size_t right = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    right += (*tokenizer)->decode(texts[i][0].tokens, false) == dates[i];
  }
  MESSAGE(right << " of " << inputs.size() << " are right");
  CHECK(right * 100 >= inputs.size() * 99);
}
