// Sessions that are saved to files and brought back.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "io/checksum.h"
#include "step/cache/snapshot.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/session.h"

using namespace pumice;

namespace {

std::shared_ptr<const Model> model() {
  static const auto loaded = load_model(stories_model());
  return loaded;
}

std::unique_ptr<Session> make_session(CacheType cache = CacheType::f16, uint32_t context = 100,
                                      std::shared_ptr<const Model> of = model()) {
  SessionOptions options;
  options.size.context = context;
  options.size.chunk = 16;
  options.size.cache = cache;
  auto session = Session::create(std::move(of), options);
  if (!session.ok()) FAIL(session.error().text());
  return *std::move(session);
}

const std::vector<uint32_t> prompt = {1, 300, 400, 500, 600, 700, 800, 900, 1000, 301, 302};

SamplingParams some_sampling() {
  SamplingParams sampling;
  sampling.temperature = 1.1f;
  sampling.top_k = 50;
  sampling.repeat_penalty = 1.2f;
  sampling.seed = 77;
  return sampling;
}

std::vector<char> read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const std::filesystem::path& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// With a checksum that holds again after a field has been changed.
void seal(std::vector<char>& bytes) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
  const uint64_t value = sum.value();
  std::memcpy(bytes.data() + bytes.size() - 8, &value, 8);
}

} // namespace

// Types of the cache take turns in these two; a long run has all in each.
TEST_CASE("a prompt's beginning that is in the cache is not computed again, and changes no bit") {
  for (CacheType cache : turn_of(std::array{CacheType::f32, CacheType::f16, CacheType::q4_0}, 2)) {
    auto session = make_session(cache);
    REQUIRE(session->set_prompt(prompt, some_sampling()).ok());
    CHECK(session->reused() == 0);
    std::vector<uint32_t> second = prompt;
    for (uint32_t token : take(*session, 20)) second.push_back(token);
    const size_t said = second.size();
    second.insert(second.end(), {42, 43, 44});
    REQUIRE(session->set_prompt(second, some_sampling()).ok());
    CHECK(session->reused() >= said - 1); // the last token may have been in flight
    CHECK(session->reused() <= said);
    const std::vector<uint32_t> continued = take(*session, 20);

    std::vector<uint32_t> third = second;
    third[15] ^= 1;
    REQUIRE(session->set_prompt(third, some_sampling()).ok());
    CHECK(session->reused() == 15);
    const std::vector<uint32_t> changed = take(*session, 20);

    REQUIRE(session->set_prompt(second, some_sampling()).ok());
    CHECK(session->reused() == 15);
    CHECK(take(*session, 20) == continued);
    REQUIRE(session->set_prompt(prompt, some_sampling()).ok());
    CHECK(session->reused() == prompt.size() - 1);

    auto fresh = make_session(cache);
    REQUIRE(fresh->set_prompt(second, some_sampling()).ok());
    CHECK(take(*fresh, 20) == continued);
    REQUIRE(fresh->reset().ok());
    REQUIRE(fresh->set_prompt(third, some_sampling()).ok());
    CHECK(fresh->reused() == 0);
    CHECK(take(*fresh, 20) == changed);
  }
}

TEST_CASE("a session goes on after saving and after restoring as it would have") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  for (CacheType cache : turn_of(std::array{CacheType::f32, CacheType::f16_q8_0, CacheType::q4_0}, 1)) {
    auto plain = make_session(cache);
    REQUIRE(plain->prefill(prompt, some_sampling()).ok());
    const std::vector<uint32_t> before = take(*plain, 25), after = take(*plain, 40);

    auto session = make_session(cache);
    REQUIRE(session->prefill(prompt, some_sampling()).ok());
    CHECK(take(*session, 25) == before);
    REQUIRE(session->save(path).ok());
    CHECK(take(*session, 40) == after);
    // In the session that has gone on, in new ones, and in one with more or less room.
    REQUIRE(session->restore(path).ok());
    CHECK(take(*session, 40) == after);
    for (uint32_t context : {100u, 76u, 500u}) {
      auto other = make_session(cache, context);
      REQUIRE(other->restore(path).ok());
      CHECK(other->tokens().size() == prompt.size() + 25);
      CHECK(take(*other, 40) == after);
    }
    // A prompt runs against what was restored.
    auto prompted = make_session(cache);
    REQUIRE(prompted->restore(path).ok());
    std::vector<uint32_t> next(prompted->tokens().begin(), prompted->tokens().begin() + 30);
    next.push_back(99);
    REQUIRE(prompted->set_prompt(next, {}).ok());
    CHECK(prompted->reused() == 30);
    auto fresh = make_session(cache);
    REQUIRE(fresh->set_prompt(next, {}).ok());
    CHECK(take(*fresh, 20) == take(*prompted, 20));
  }
}

TEST_CASE("a batch takes a saved conversation into any of its slots") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  auto session = make_session();
  REQUIRE(session->prefill(prompt, some_sampling()).ok());
  take(*session, 25);
  REQUIRE(session->save(path).ok());
  const std::vector<uint32_t> after = take(*session, 12);

  SessionOptions options;
  options.size.context = 90;
  options.size.chunk = 8;
  options.size.sequences = 3;
  auto batch = Batch::create(model(), options);
  REQUIRE(batch.ok());
  REQUIRE((*batch)->add({prompt, {}, 50}).ok()); // runs in the first
  REQUIRE((*batch)->step().ok());
  CHECK(says((*batch)->load(path, 0), {"slot 0", "no sequence"}) == "");
  CHECK(says((*batch)->save(path, 0, {}), {"slot 0", "no sequence"}) == "");
  CHECK(says((*batch)->load(path, 3), {"slot 3", "the 3 slots"}) == "");
  const auto conversation = (*batch)->load(path, 2);
  REQUIRE(conversation.ok());
  CHECK(conversation->sampling.seed == 77);
  const auto id = (*batch)->add({conversation->tokens, conversation->sampling, 12});
  REQUIRE(id.ok());
  std::vector<uint32_t> tokens;
  while (tokens.size() < 12) {
    const auto results = (*batch)->step();
    REQUIRE(results.ok());
    for (const BatchToken& each : *results) {
      if (each.sequence != *id) continue;
      if (tokens.empty()) CHECK((*batch)->reused(*id) == conversation->tokens.size() - 1);
      tokens.push_back(each.token);
    }
  }
  CHECK(tokens == after);
}

TEST_CASE("sessions are saved in any state") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  auto session = make_session();
  REQUIRE(session->save(path).ok()); // of nothing
  REQUIRE(session->prefill(prompt, {}).ok());
  REQUIRE(session->restore(path).ok());
  CHECK(session->tokens().empty());
  CHECK(says(session->next(), {"no prompt"}) == "");

  REQUIRE(session->prefill(prompt, {}).ok()); // no token taken yet
  REQUIRE(session->save(path).ok());
  const std::vector<uint32_t> answer = take(*session, 100 - prompt.size());
  auto other = make_session();
  REQUIRE(other->restore(path).ok());
  CHECK(take(*other, answer.size()) == answer);

  REQUIRE(session->save(path).ok()); // full
  REQUIRE(other->restore(path).ok());
  CHECK(other->full());
  CHECK(says(other->next(), {"context of 100 tokens is full"}) == "");
  auto longer = make_session(CacheType::f16, 120);
  REQUIRE(longer->restore(path).ok());
  CHECK(take(*longer, 20).size() == 20);
  auto shorter = make_session(CacheType::f16, 64);
  CHECK(says(shorter->restore(path), {path.string(), "'tokens'", "at most 64", "100"}) == "");
}

TEST_CASE("a damaged state file is refused, and the session stays as it was") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state", bad = folder.path() / "bad";
  auto session = make_session();
  REQUIRE(session->prefill(prompt, {}).ok());
  take(*session, 5);
  REQUIRE(session->save(path).ok());
  const std::vector<char> good = read_file(path);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1); // nothing left over
  const std::vector<uint32_t> expected = take(*session, 30);

  auto victim = make_session();
  REQUIRE(victim->restore(path).ok());
  for (size_t size = 0; size < good.size(); size += 97) {
    write_file(bad, {good.begin(), good.begin() + static_cast<ptrdiff_t>(size)});
    REQUIRE(says(victim->restore(bad), {bad.string() + ": field '", "expected", "found"}) == "");
  }
  std::vector<char> more = good;
  more.push_back(0);
  write_file(bad, more);
  CHECK(says(victim->restore(bad),
             {"'bytes'", std::to_string(good.size()), std::to_string(good.size() + 1)}) == "");
  // Every bit of the fields, then one here and there.
  for (size_t bit = 0; bit < good.size() * 8; bit += bit < 8 * 200 ? 1 : 8 * 1013 + 1) {
    std::vector<char> flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_file(bad, flipped);
    REQUIRE(says(victim->restore(bad), {bad.string() + ": field '", "expected", "found"}) == "");
  }
  CHECK(says(victim->restore(folder.path() / "none"), {"none"}) == "");
  CHECK(says(victim->save(folder.path() / "no" / "where"), {"where", "cannot be written"}) == "");
  CHECK(take(*victim, 30) == expected);
}

TEST_CASE("wrong fields with a correct checksum are named") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state", bad = folder.path() / "bad";
  auto session = make_session();
  REQUIRE(session->prefill(prompt, {}).ok());
  take(*session, 5);
  REQUIRE(session->save(path).ok());
  const std::vector<char> good = read_file(path);
  const auto refused = [&](size_t offset, uint32_t value, std::initializer_list<std::string_view> parts) {
    std::vector<char> changed = good;
    std::memcpy(changed.data() + offset, &value, 4);
    seal(changed);
    write_file(bad, changed);
    return says(session->restore(bad), parts);
  };
  const size_t tokens = 20 + 8 + 4 + 4 + 4 + 112; // the offset of their count
  const size_t pictures = tokens + 4 + 4 * 16;    // their rows and sizes: none
  const size_t layers = pictures + 4 + 4;
  CHECK(refused(8, 9, {"'version'", "expected 15", "found 9"}) == "");
  CHECK(refused(20, 9, {"'model'", "stories-2m.gguf", "another"}) == "");
  CHECK(refused(28, 0, {"'cache type'", "expected f16", "found f32"}) == "");
  CHECK(refused(32, 17, {"'cached tokens'", "at most 16", "17"}) == "");
  CHECK(refused(36, 1, {"'written end'", "found 1"}) == "");
  CHECK(refused(tokens - 16, 0x83333333, {"'order'", "each once at most", "0x83333333"}) == "");
  CHECK(refused(tokens, 0xffffffff, {"'tokens'"}) == "");
  CHECK(refused(tokens + 4, 2048, {"'token 0'", "at most 2047", "2048"}) == "");
  CHECK(refused(pictures, 0x40000000, {"'rows of pictures'"}) == "");
  CHECK(refused(layers, 0x10000000, {"'layer "}) == "");
  CHECK(refused(layers + 4, 99, {"'layer 0 kv_heads'", "99"}) == "");
  CHECK(refused(layers + 8, 99, {"'layer 0 head_dim'", "99"}) == "");
  CHECK(refused(layers + 12, 8, {"'layer 0 capacity'", "expected 128", "found 8"}) == "");
  CHECK(refused(layers + 16, 64, {"bytes"}) == "");
  CHECK(refused(36, 1u << 30, {"'layer 0 "}) == ""); // a ring, which this layer is not
}

TEST_CASE("state of another model or another cache is refused") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state";
  auto session = make_session(CacheType::f32);
  REQUIRE(session->prefill(prompt, {}).ok());
  const std::vector<uint32_t> expected = take(*session, 10);
  REQUIRE(session->save(path).ok());
  auto half = make_session(CacheType::f16);
  REQUIRE(half->prefill(prompt, {}).ok());
  CHECK(says(half->restore(path), {path.string(), "'cache type'", "expected f16", "found f32"}) == "");
  CHECK(take(*half, 10).size() == 10);

  const std::vector<uint32_t> short_prompt = {1, 2, 3};
  const auto foreign = load_model(fixtures().gguf("random-F32"));
  auto other = make_session(CacheType::f32, 100, foreign);
  REQUIRE(other->prefill(short_prompt, {}).ok());
  CHECK(says(other->restore(path), {path.string(), "'model'", "random-F32.gguf", "another"}) == "");
  const std::vector<uint32_t> still = take(*other, 10);
  REQUIRE(other->reset().ok());
  REQUIRE(other->prefill(short_prompt, {}).ok());
  CHECK(take(*other, 10) == still);
  // The same shapes with other weights are another model too.
  CHECK(foreign->identity() != load_model(fixtures().gguf("random-BF16"))->identity());
}
