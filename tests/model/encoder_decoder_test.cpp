// Decoding with an encoder's input: what is computed how often, several inputs together, the rules of
// decoding.
#include "generate/resumable_generation.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "support/files/fixtures.h"
#include "support/in_turn.h"
#include "support/model.h"

using namespace pumice;

namespace {

// Inputs of different lengths, some of one token.
std::vector<EncoderInput> some_inputs(size_t count, uint32_t vocabulary) {
  std::vector<EncoderInput> inputs(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t at = 0; at < 1 + i * 5 % 23; ++at) {
      inputs[i].tokens.push_back(static_cast<uint32_t>((i * 37 + at * 11 + 3) % vocabulary));
    }
  }
  return inputs;
}

EncoderDecoderOptions session_options(uint32_t inputs, uint32_t beams) {
  EncoderDecoderOptions options;
  options.inputs = inputs;
  options.beams = beams;
  options.input_tokens = 64;
  options.output_tokens = 40;
  return options;
}

std::unique_ptr<EncoderDecoder> make_session(const std::shared_ptr<const Model>& model, uint32_t inputs,
                                             uint32_t beams) {
  auto session = EncoderDecoder::create(model, session_options(inputs, beams));
  if (!session.ok()) FAIL(session.error().text());
  return std::move(*session);
}

GenerationOptions settings(const Model& model, uint32_t beams, uint32_t tokens) {
  GenerationOptions options;
  options.config = *read_generation_config(model.file(), model.shape().vocabulary);
  options.config.beams = beams;
  options.config.max_tokens = tokens;
  options.sampling.temperature = 0;
  return options;
}

std::vector<std::vector<Hypothesis>> generate(EncoderDecoder& session, std::span<const EncoderInput> inputs,
                                              const GenerationOptions& options) {
  auto texts = session.generate(inputs, options);
  if (!texts.ok()) FAIL(texts.error().text());
  return std::move(*texts);
}

// The same tokens, and the same bits of their scores.
bool same_texts(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  return std::ranges::equal(a, b, [](const Hypothesis& one, const Hypothesis& other) {
    return one.tokens == other.tokens && one.score == other.score && one.finished == other.finished;
  });
}

std::shared_ptr<const Model> fixture(const char* name) {
  return load_model(fixtures().model(name));
}

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.space == b.space && a.allocation == b.allocation && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

} // namespace

// Each model with some number of beams; a long run has each with each.
FIXTURE_TEST_CASE("the encoder runs once for an input, and no step of the decoder writes what it left") {
  size_t turn = 0;
  for (const char* name : {"marian", "t5", "bart"}) {
    const auto model = fixture(name);
    CAPTURE(name);
    const std::vector<EncoderInput> input = some_inputs(4, 320);
    for (uint32_t beams : turn_of(std::array{1u, 4u, 7u}, turn++)) {
      const auto session = make_session(model, 1, beams);
      for (uint32_t tokens : {1u, 5u, 20u}) {
        const uint64_t before = session->encoder().steps();
        GenerationOptions options = settings(*model, beams, tokens);
        options.config.ends.clear();
        (void)generate(*session, std::span(input).subspan(3, 1), options);
        CHECK(session->encoder().steps() == before + 1);
      }
      const auto plan = session->decoder().plan(beams);
      REQUIRE(plan.ok());
      const auto caches = session->decoder().caches().subspan(model->shape().layers.size());
      REQUIRE(caches.size() == model->shape().encoder->caches.size());
      size_t readers = 0;
      for (const PlannedDispatch& planned : (*plan)->dispatches) {
        for (const Dispatch::Binding& binding : planned.dispatch.bindings) {
          for (const CacheRef& cache : caches) {
            const bool touches = overlap(binding.buffer, cache.keys) || overlap(binding.buffer, cache.values);
            if (touches) CHECK(binding.access == Access::read);
            readers += touches;
          }
        }
      }
      CHECK(readers == 2 * model->shape().layers.size()); // the keys and values of each layer
    }
  }
}

// Each model with one beam or several; a long run has both for each.
FIXTURE_TEST_CASE("several inputs together get the texts that each gets alone") {
  size_t turn = 0;
  for (const char* name : {"marian-relu", "flan-t5", "transformer-postnorm"}) {
    const auto model = load_one_kernel_model(fixtures().model(name));
    CAPTURE(name);
    const std::vector<EncoderInput> inputs = some_inputs(9, 320);
    for (uint32_t beams : turn_of(std::array{1u, 3u}, turn++)) {
      const GenerationOptions options = settings(*model, beams, 9);
      const auto together = generate(*make_session(model, 4, beams), inputs, options);
      const auto session = make_session(model, 1, beams);
      REQUIRE(together.size() == inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(i);
        const auto alone = generate(*session, std::span(inputs).subspan(i, 1), options);
        REQUIRE(together[i].size() == 1);
        CHECK(together[i][0].tokens == alone[0][0].tokens);
        CHECK(together[i][0].score == alone[0][0].score); // the same bits
        CHECK_FALSE(together[i][0].tokens.empty());
      }
    }
  }
}

FIXTURE_TEST_CASE("one beam is the greedy choice, whichever way it is made") {
  const auto model = fixture("bart");
  const std::vector<EncoderInput> inputs = some_inputs(3, 320);
  const auto device = make_session(model, 3, 1), wide = make_session(model, 3, 4);
  GenerationOptions options = settings(*model, 1, 15);
  const auto expected = generate(*device, inputs, options);
  const auto with_beams = generate(*wide, inputs, options);
  options.rule = [](size_t, std::span<float>, std::span<const uint32_t>) {
    return Status();
  }; // makes the host choose
  const auto on_host = generate(*device, inputs, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHECK(with_beams[i][0].tokens == expected[i][0].tokens);
    CHECK(on_host[i][0].tokens == expected[i][0].tokens);
  }
}

// Each way with a model; a long run has each with both.
FIXTURE_TEST_CASE("slices of any size give the texts and the scores of whole steps") {
  size_t turn = 0;
  for (const char* name : {"marian-relu", "t5"}) {
    const auto model = fixture(name);
    CAPTURE(name);
    const std::vector<EncoderInput> inputs = some_inputs(5, 320);
    struct Way {
      uint32_t at_a_time, beams;
      bool by_host;
    };
    const Way ways[] = {{2, 1, false}, {2, 1, true}, {2, 3, true}};
    for (const Way& way : turns_of(ways, 2, turn++)) {
      CAPTURE(way.beams);
      CAPTURE(way.by_host);
      GenerationOptions options = settings(*model, way.beams, 9);
      options.hypotheses = way.beams;
      if (way.beams == 1 && way.by_host)
        options.rule = [](size_t, std::span<float>, std::span<const uint32_t>) { return Status(); };
      const auto expected = generate(*make_session(model, way.at_a_time, way.beams), inputs, options);
      auto sliced = ResumableGeneration::create(model, session_options(way.at_a_time, way.beams), options,
                                                {.prepared = true});
      if (!sliced.ok()) FAIL(sliced.error().text());
      for (const double budget : {1e-6, 50e-6, 1.0}) {
        CAPTURE(budget);
        REQUIRE((*sliced)->start(inputs, options).ok());
        for (bool active = true; active;) {
          const auto slice = (*sliced)->slice({budget});
          if (!slice.ok()) FAIL(slice.error().text());
          active = slice->active;
        }
        const auto texts = (*sliced)->texts();
        REQUIRE(texts.ok());
        CHECK(std::ranges::equal(*texts, expected, same_texts));
      }
    }
  }
}

FIXTURE_TEST_CASE("n best texts are different and in order") {
  const auto model = fixture("t5");
  const std::vector<EncoderInput> inputs = some_inputs(2, 320);
  GenerationOptions options = settings(*model, 6, 8);
  options.hypotheses = 6;
  for (const auto& texts : generate(*make_session(model, 2, 6), inputs, options)) {
    REQUIRE(texts.size() == 6);
    std::set<std::vector<uint32_t>> seen;
    for (size_t i = 0; i < texts.size(); ++i) {
      CHECK(seen.insert(texts[i].tokens).second);
      CHECK(texts[i].finished);
      if (i > 0) CHECK(texts[i - 1].score >= texts[i].score);
    }
  }
}

FIXTURE_TEST_CASE("rules: forced and suppressed tokens, runs that do not come twice, the least length") {
  const auto model = fixture("bart");
  const std::vector<EncoderInput> inputs = some_inputs(2, 320);
  for (uint32_t beams : {1u, 3u}) {
    CAPTURE(beams);
    const auto session = make_session(model, 2, beams);
    GenerationOptions options = settings(*model, beams, 12);
    const uint32_t favourite = generate(*session, inputs, options)[0][0].tokens[3];
    options.config.no_repeat_ngram = 2;
    options.config.forced_first = 17;
    options.config.forced_last = 19;
    options.config.suppressed = {favourite};
    for (const auto& texts : generate(*session, inputs, options)) {
      const std::vector<uint32_t>& tokens = texts[0].tokens;
      REQUIRE(tokens.size() == 12);
      CHECK(tokens.front() == 17);
      CHECK(tokens.back() == 19);
      CHECK(std::ranges::count(tokens, favourite) == 0);
      std::set<std::pair<uint32_t, uint32_t>> pairs;
      for (size_t i = 0; i + 1 < tokens.size(); ++i) CHECK(pairs.insert({tokens[i], tokens[i + 1]}).second);
    }
    options = settings(*model, beams, 12);
    options.config.ends = {favourite};
    const std::vector<uint32_t> ended = generate(*session, inputs, options)[0][0].tokens;
    CHECK(std::ranges::count(std::span(ended).first(ended.size() - 1), favourite) == 0);
    if (beams == 1)
      CHECK(ended.size() <= 4); // where it was said; of several beams a longer one may be better
    options.config.min_tokens = 7;
    CHECK(generate(*session, inputs, options)[0][0].tokens.size() >= 8);
    options.config.suppressed_first = {favourite};
    options.config.min_tokens = 0;
    CHECK(generate(*session, inputs, options)[0][0].tokens.front() != favourite);
  }
}

FIXTURE_TEST_CASE("what cannot be decoded is an error, and the session goes on") {
  const auto model = fixture("marian");
  const auto session = make_session(model, 2, 2);
  const std::vector<EncoderInput> inputs = some_inputs(2, 320);
  const auto error = [&](const EncoderInput& input, const GenerationOptions& options) {
    const auto texts = session->generate(std::span(&input, 1), options);
    REQUIRE_FALSE(texts.ok());
    return texts.error().message;
  };
  const GenerationOptions good = settings(*model, 2, 5);
  CHECK(error({}, good).find("an input has 0 tokens, and the model reads 1 to 64") != std::string::npos);
  EncoderInput input = inputs[1];
  input.tokens.resize(65);
  CHECK(error(input, good).find("an input has 65 tokens, and the model reads 1 to 64") != std::string::npos);
  input = inputs[1];
  input.tokens[0] = 320;
  CHECK(error(input, good).find("token 320 is not in the vocabulary, whose ids are 0 to 319") !=
        std::string::npos);
  GenerationOptions bad = good;
  bad.config.beams = 3;
  CHECK(error(inputs[1], bad).find("3 beams were asked for, and this session was made for 2") !=
        std::string::npos);
  bad = good;
  bad.config.prompt = {320};
  CHECK(error(inputs[1], bad).find("token 320 is not in the vocabulary") != std::string::npos);
  bad.config.prompt.clear();
  CHECK(error(inputs[1], bad).find("decoder_start_token_id") != std::string::npos);
  bad.config.prompt.assign(40, 1);
  CHECK(error(inputs[1], bad).find("does not fit its context of 40") != std::string::npos);
  CHECK(generate(*session, inputs, good).size() == 2);

  const auto encoder_only = fixture("bert"), decoder_only = fixture("gpt2");
  CHECK(EncoderDecoder::create(encoder_only, {}).error().message.find("has no decoder") != std::string::npos);
  CHECK(EncoderDecoder::create(decoder_only, {}).error().message.find("has no encoder") != std::string::npos);
}
