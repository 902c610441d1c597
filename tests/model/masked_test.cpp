// Masked language models against a reference's answers.
#include <doctest/doctest.h>

#include "step/encoder.h"
#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

std::unique_ptr<Encoder> make_encoder(const std::shared_ptr<const Model>& model,
                                      const std::string& readable) {
  EncoderOptions options;
  options.tokens = 128;
  options.inputs = 16;
  options.readable = {readable};
  auto encoder = Encoder::create(model, options);
  if (!encoder.ok()) FAIL(encoder.error().text());
  return std::move(*encoder);
}

std::vector<std::vector<float>> read_all(const std::shared_ptr<const Model>& model, const std::string& name,
                                         const std::vector<EncoderInput>& inputs) {
  const auto encoder = make_encoder(model, name);
  if (const auto status = encoder->encode(inputs); !status.ok()) FAIL(status.error().text());
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < inputs.size(); ++i) rows.push_back(*encoder->read(name, i));
  return rows;
}

} // namespace

TEST_CASE("heads of masked language models give a reference's logits, at gaps the same bits") {
  for (const char* name :
       {"bert-masked", "roberta-masked", "distilbert-masked", "albert-masked", "modernbert-masked"}) {
    CAPTURE(name);
    const std::filesystem::path path = fixtures().model(name);
    const Answers answers(path / "expected.safetensors");
    LoadOptions options;
    options.readable = {"logits"};
    const auto model = load_model(path, options);
    std::vector<EncoderInput> inputs;
    for (const ForcedInput& each : answers.inputs()) inputs.push_back(each.input);
    const auto logits = read_all(model, "logits", inputs),
               sparse = read_all(model, "sparse_embedding", inputs);
    const size_t columns = model->shape().encoder->vocabulary;
    for (size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      const size_t count = inputs[i].tokens.size() * columns; // without padding
      CHECK(relative_rms(logits[i], answers.row("logits", i).first(count)) <= 1e-4);
      CHECK(relative_rms(sparse[i], answers.row("sparse_embedding", i)) <= 1e-4);
    }
    inputs[0].outputs = {2, 3, 11};
    inputs[1].outputs = {7};
    const auto gaps = read_all(model, "masked_logits", inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      REQUIRE(gaps[i].size() == inputs[i].outputs.size() * columns);
      for (size_t gap = 0; gap < inputs[i].outputs.size(); ++gap) {
        const std::span<const float> row(gaps[i].data() + gap * columns, columns);
        const std::span<const float> same(logits[i].data() + inputs[i].outputs[gap] * columns, columns);
        CHECK(relative_rms(row, same) <= 1e-6);
      }
    }
    CHECK(load_model(path)->weight_bytes() < model->weight_bytes()); // without the head
    inputs[0].outputs.assign(17, 1);
    CHECK(!make_encoder(model, "masked_logits")->encode(inputs).ok());
  }
}
