// Conversations that leave out a part of what was read, and keep what is behind it.
#include "generate/session.h"

#include <cmath>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/files/random_model.h"
#include "support/model.h"

using namespace pumice;

namespace {

using Tokens = std::vector<uint32_t>;

Tokens some_tokens(uint32_t count, uint32_t seed) {
  Tokens tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = 3 + (seed * 7919 + i * 131 + i * i * 17) % 250;
  return tokens;
}

Tokens operator+(Tokens left, const Tokens& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Result<std::unique_ptr<Session>> make_session(const std::shared_ptr<const Model>& model, bool shifts,
                                              CacheType cache = CacheType::f32, uint32_t context = 256) {
  SessionOptions options;
  options.size.context = std::min(context, model->shape().context);
  options.size.chunk = 32;
  options.size.cache = cache;
  options.shift_positions = shifts;
  return Session::create(model, options);
}

// The log-probabilities behind a prompt, the most probable tokens' first.
TokenLogProbabilities next(Session& session, const Tokens& prompt, bool in_slices = false) {
  SamplingParams sampling;
  sampling.log_probabilities = 8;
  REQUIRE(session.begin({prompt, true, 1, sampling}).ok());
  while (session.active()) REQUIRE((in_slices ? session.slice({1e-2}).ok() : session.step().ok()));
  const std::optional<BatchToken> token = session.take();
  REQUIRE(token);
  return token->log_probabilities;
}

double distance(const TokenLogProbabilities& a, const TokenLogProbabilities& b) {
  REQUIRE(a.top.size() == b.top.size());
  double worst = 0;
  for (size_t i = 0; i < a.top.size(); ++i) {
    worst = std::max<double>(worst, std::fabs(a.top[i].log_probability - b.top[i].log_probability));
  }
  return worst;
}

const Tokens kept = some_tokens(20, 1), left_out = some_tokens(45, 2), behind = some_tokens(60, 3),
             question = some_tokens(10, 4);

} // namespace

TEST_CASE("behind what is left out, a model of one layer says what it would have said") {
  const TemporaryFolder folder;
  write_random_model(folder, {{"model_type", "llama"},
                              {"architectures", {"LlamaForCausalLM"}},
                              {"hidden_size", 64},
                              {"intermediate_size", 96},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"num_hidden_layers", 1},
                              {"vocab_size", 256},
                              {"rms_norm_eps", 1e-5},
                              {"rope_theta", 10000.0},
                              {"max_position_embeddings", 512},
                              {"tie_word_embeddings", true}});
  const auto model = load_model(folder.path());
  for (const CacheType cache : {CacheType::f32, CacheType::f16}) {
    CAPTURE(to_string(cache));
    const auto shifts = *make_session(model, true, cache), reads = *make_session(model, false, cache);
    next(*shifts, kept + left_out + behind);
    const Tokens prompt = kept + behind + question;
    const TokenLogProbabilities expected = next(*reads, prompt), found = next(*shifts, prompt);
    CHECK(shifts->reused() == 80);
    CHECK(distance(found, expected) < (cache == CacheType::f32 ? 1e-4 : 1e-3));
    CHECK(distance(next(*reads, left_out), expected) > 1e-2); // otherwise this says nothing
    // More is left out, of what has been moved.
    const Tokens later(behind.begin() + 15, behind.end());
    const TokenLogProbabilities again = next(*shifts, kept + later + question + question);
    CHECK(shifts->reused() == 75); // the question, too
    CHECK(distance(again, next(*reads, kept + later + question + question)) <
          (cache == CacheType::f32 ? 1e-4 : 2e-3));
  }
}

TEST_CASE("positions are shifted where that is asked for, and in whole steps") {
  const auto model = load_model(stories_model());
  const Tokens all = kept + left_out + behind, prompt = kept + behind + question;
  const auto reused = [&](bool shifts, bool in_slices) {
    const auto session = *make_session(model, shifts, CacheType::f16);
    next(*session, all);
    const TokenLogProbabilities found = next(*session, prompt, in_slices);
    if (!shifts || in_slices) {
      const auto fresh = *make_session(model, false, CacheType::f16);
      CHECK(distance(found, next(*fresh, prompt)) < 1e-2);
    }
    return session->reused();
  };
  CHECK(reused(true, false) == 80);
  CHECK(reused(true, true) == 20);
  CHECK(reused(false, false) == 20);
  // A little that both have is not worth it.
  const auto session = *make_session(model, true, CacheType::f16);
  next(*session, all);
  next(*session, kept + some_tokens(20, 3) + question);
  CHECK(session->reused() == 20);
}

TEST_CASE("models whose positions cannot be shifted say why") {
  const auto refused = [](const char* fixture, const char* why, CacheType cache = CacheType::f16) {
    const auto model = load_model(fixtures().model(fixture));
    CAPTURE(fixture);
    CHECK(says(make_session(model, true, cache), {"positions cannot be shifted", why}) == "");
  };
  refused("gpt2", "learned");
  refused("mamba2", "recurrent");
  refused("mistral-swa", "window");
  refused("hunyuan-dense", "weights behind the rotation");
  refused("qwen2-5-vl", "picture");
  refused("llama-gqa", "Q8_0", CacheType::q8_0);
  refused("llama-gqa", "Q4_0", CacheType::q4_0);
  for (const char* fixture : {"llama-gqa", "bloom", "deepseek-v2", "phi"}) {
    CAPTURE(fixture);
    const auto made = make_session(load_model(fixtures().model(fixture)), true);
    CHECK(made.ok());
    if (!made.ok()) MESSAGE(made.error().text());
  }
}
