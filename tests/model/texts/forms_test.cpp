// Texts whose form the device follows by itself, against those whose masks the host writes.
#include <algorithm>
#include <map>
#include <random>

#include <doctest/doctest.h>

#include "model/vocabulary.h"
#include "step/forms/form_tables.h"
#include "step/work/resumable_batch.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "support/session.h"
#include "support/time_limit.h"

using namespace pumice;

namespace {

const char* const person = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 10},
  "way": {"enum": ["north", "south"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
  "required": ["name", "way", "age"], "additionalProperties": false})";

std::shared_ptr<const Model> model() {
  static const auto loaded = load_one_kernel_model(stories_model());
  return loaded;
}

const std::shared_ptr<FormVocabulary>& vocabulary() {
  static const auto made = std::make_shared<FormVocabulary>(*require(load_tokenizer(model()->file())));
  return made;
}

const std::vector<FormSource>& sources() {
  static const std::vector<FormSource> all = {{.choices = {"up", "down", "over there, behind the hill"}},
                                              {.json_schema = person},
                                              {.regex = "[A-Z][a-z ]{20,60}[.!]"}};
  return all;
}

SessionOptions options_for(bool tables, uint32_t sequences = 1) {
  SessionOptions options;
  options.size.context = 200;
  options.size.sequences = sequences;
  options.form_tables = tables;
  options.steps_ahead = 3;
  options.steps_per_submit = sequences == 1 ? 2 : 1;
  return options;
}

SamplingParams warm(uint64_t seed) {
  SamplingParams sampling;
  sampling.temperature = 1;
  sampling.repeat_penalty = seed % 2 ? 1.2f : 1.0f;
  sampling.seed = seed;
  sampling.stop_tokens = {2, 1};
  return sampling;
}

TextForm form_of(const FormSource& source) {
  return {require(Form::create(source, vocabulary()))};
}

GenerationRequest request_of(const FormSource& source, uint64_t seed) {
  return {{1, 300, 400, static_cast<uint32_t>(500 + seed)}, true, 90, warm(seed), {}, form_of(source)};
}

// The text as numbers: its tokens, and why it ended.
using Text = std::vector<uint32_t>;
void take_all(Session& session, Text& text) {
  while (const auto token = session.take()) {
    text.push_back(token->token);
    if (token->finish_reason != FinishReason::none)
      text.push_back(1000000 + static_cast<uint32_t>(token->finish_reason));
  }
}

Text whole_text(Session& session, GenerationRequest request) {
  require(session.begin(std::move(request)));
  Text text;
  while (session.active()) require(session.step());
  take_all(session, text);
  return text;
}

} // namespace

TEST_CASE("the device follows a form as the host does, in whole steps and in slices of any size") {
  const auto by_host = require(Session::create(model(), options_for(false)));
  const auto by_device = require(Session::create(model(), options_for(true)));
  for (const FormSource& source : sources()) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Text expected = whole_text(*by_host, request_of(source, seed));
      CHECK(expected.back() == 1000000 + static_cast<uint32_t>(FinishReason::stop));
      CHECK(whole_text(*by_device, request_of(source, seed)) == expected);

      std::mt19937 random(static_cast<uint32_t>(seed));
      require(by_device->begin(request_of(source, seed)));
      Text text;
      const TimeLimit limit;
      while (by_device->active() && limit.in_time()) {
        require(by_device->slice({random() % 2 ? 2e-3 : 1e-4}));
        if (random() % 8 == 0) require(by_device->discard());
        if (random() % 40 == 0) { // its memory comes and goes
          require(by_device->suspend());
          require(by_device->resume(model()));
        }
        if (random() % 16 == 0 && by_device->active()) require(by_device->step());
        take_all(*by_device, text);
      }
      take_all(*by_device, text);
      CHECK(text == expected);
    }
  }
}

namespace {

// A vocabulary with one token for each character, so that a form's text is often certain.
const std::shared_ptr<FormVocabulary>& characters() {
  static const auto made = [] {
    std::vector<std::string> tokens(model()->shape().vocabulary);
    for (uint32_t c = 0x20; c < 0x7F; ++c) tokens[200 + c] = std::string(1, static_cast<char>(c));
    return std::make_shared<FormVocabulary>(std::move(tokens));
  }();
  return made;
}

} // namespace

TEST_CASE("tokens that a form leaves no choice of are computed together, and the text is the same") {
  const FormSource recursive{.grammar = "root ::= \"(north or \" (root | \"south\") \")\""};
  std::vector<Text> texts[3];
  size_t steps[2] = {};
  for (const bool together : {false, true}) {
    SessionOptions options = options_for(false);
    options.forced_tokens = together;
    const auto session = require(Session::create(model(), options));
    for (uint64_t seed = 0; seed < 6; ++seed) {
      GenerationRequest request = request_of(sources()[1], seed);
      request.form = {require(Form::create(seed % 2 ? recursive : sources()[1], characters()))};
      request.sampling.stop_tokens = {2};
      request.max_tokens = seed == 4 ? 7 : 90; // it ends among them
      if (seed >= 2) request.sampling.dry_multiplier = 1;
      if (seed == 3) request.sampling.mirostat = 2;
      require(session->begin(request));
      Text text;
      for (; session->active(); ++steps[together]) require(session->step());
      take_all(*session, text);
      texts[together].push_back(text);
      if (!together) continue;
      require(session->begin(request));
      text.clear();
      while (session->active()) {
        require(session->slice({1e-3}));
        take_all(*session, text);
      }
      texts[2].push_back(text);
    }
  }
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] == texts[2]);
  CHECK(texts[0][4].size() == 8);
  CAPTURE(steps[0]);
  if (model()->context().profile.cpu) CHECK(steps[1] * 3 < steps[0] * 2);
}

TEST_CASE("the host may say what may be drawn while a step is computed") {
  RunnerOptions options;
  options.size.context = 200;
  const auto runner = require(Runner::create(model(), options));
  SamplingState state(runner->sampling_memory(), 1);
  state.set_params(0, warm(1));
  for (const uint32_t wanted : {77U, 300U}) {
    state.set_tokens(0, std::vector<uint32_t>{1});
    StepToken row{1};
    row.output = true;
    require(runner->write_step(std::span(&row, 1)));
    const auto refused = runner->submit(1, 1, [] { return Status(Error{Code::unsupported, "no"}); });
    REQUIRE(!refused.ok());
    CHECK(refused.error().message == "no");
    CHECK(state.count(0) == 1);
    const auto done = runner->submit(1, 1, [&]() -> Status {
      const std::span<uint32_t> mask = state.set_mask(0);
      std::ranges::fill(mask, 0U);
      mask[wanted / 32] = 1U << wanted % 32;
      return {};
    });
    require(require(done).wait());
    CHECK(state.count(0) == 2);
    CHECK(state.token(0, 1) == wanted);
  }
}

TEST_CASE("the host reads behind where the device follows the form") {
  for (const bool tables : {false, true}) {
    const auto batch = require(Batch::create(model(), options_for(tables)));
    const GenerationRequest request = request_of(sources()[2], 1);
    require(
        batch->add({request.tokens, request.sampling, 90, {}, {}, {}, request.form, request.tokens.size()}));
    require(batch->submit(6)); // and no token has been read
    CHECK((batch->repeated_steps() >= 5) == tables);
    require(batch->stop_all());
  }
}

TEST_CASE("a text can be saved, cancelled and begun again while the device follows its form") {
  const TemporaryFolder folder;
  std::vector<Text> texts[2];
  for (const bool tables : {false, true}) {
    const auto session = require(Session::create(model(), options_for(tables)));
    for (uint64_t seed = 0; seed < 4; ++seed) {
      require(session->begin(request_of(sources()[seed % 3], seed)));
      Text text;
      while (session->active() && text.size() < 2) {
        require(session->step());
        take_all(*session, text);
      }
      text.resize(std::min<size_t>(text.size(), 2)); // how many came is a matter of time
      if (seed % 2 && session->active()) {
        session->cancel();
        CHECK(!session->step().ok());
      }
      session->end_at(5);
      require(session->save(folder.path() / "state"));
      texts[tables].push_back(text);
      const auto other = require(Session::create(model(), options_for(tables)));
      require(other->restore(folder.path() / "state"));
      GenerationRequest more = request_of(sources()[1], seed);
      more.new_conversation = false;
      texts[tables].push_back(whole_text(*other, more));
      texts[tables].push_back(whole_text(*session, more));
    }
  }
  CHECK(texts[0] == texts[1]);
}

namespace {

// One in four has no form, and one in four has a form without a table.
SequenceRequest mixed_request(uint32_t number) {
  const FormSource recursive{.grammar = "root ::= \"(\" root* \")\""};
  GenerationRequest request = request_of(number % 4 == 3 ? recursive : sources()[number % 3], number);
  if (number % 4 == 1) request.form = {};
  SequenceRequest result{request.tokens, request.sampling, 30 + number % 7};
  result.form_begin = request.tokens.size();
  result.form = request.form;
  return result;
}

} // namespace

TEST_CASE("texts of a batch have forms of all kinds beside each other") {
  constexpr uint32_t count = 12;
  std::map<uint32_t, Text> texts[2], sliced;
  for (const bool tables : {false, true}) {
    const auto batch = require(Batch::create(model(), options_for(tables, 3)));
    uint32_t added = 0;
    while (added < 4) require(batch->add(mixed_request(added++)));
    for (int steps = 0; batch->sequences() > 0; ++steps) {
      const std::span<const BatchToken> tokens = require(batch->step());
      for (const BatchToken& token : tokens) texts[tables][token.sequence].push_back(token.token);
      if (steps % 5 == 0 && added < count) require(batch->add(mixed_request(added++)));
    }
  }
  CHECK(texts[0].size() == count);
  CHECK(texts[0] == texts[1]);

  const auto batch = require(ResumableBatch::create(model(), options_for(true, 3)));
  std::mt19937 random(1);
  for (uint32_t number = 0; number < count; ++number) require(batch->add(mixed_request(number)));
  const TimeLimit limit;
  while (batch->active() && limit.in_time()) {
    require(batch->slice({random() % 2 ? 2e-3 : 1e-4}));
    if (random() % 8 == 0) require(batch->discard());
    if (random() % 8 == 0 && batch->active()) require(batch->step());
    while (const auto token = batch->take()) sliced[token->sequence].push_back(token->token);
  }
  while (const auto token = batch->take()) sliced[token->sequence].push_back(token->token);
  CHECK(sliced == texts[0]);
}

namespace {

// Alike objects behind each other, whose names and values come again.
const char* const list =
    R"({"type": "array", "minItems": 4, "maxItems": 5, "items": {"type": "object", "properties":
  {"creature": {"enum": ["bear", "badger"]}, "direction": {"enum": ["north", "south"]}, "hungry": {"type": "boolean"}},
  "required": ["creature", "direction", "hungry"], "additionalProperties": false}})";
// As long, and without a table.
const char* const nested = R"({"$ref": "#/$defs/den", "$defs": {"den": {"type": "object", "properties":
  {"creature": {"enum": ["bear", "badger"]}, "direction": {"enum": ["north", "south"]}, "next":
  {"anyOf": [{"$ref": "#/$defs/den"}, {"type": "null"}]}}, "required": ["creature", "direction", "next"],
  "additionalProperties": false}}})";

SessionOptions guessing(SessionOptions options, uint32_t drafts) {
  options.size.context = 400;
  options.size.drafts = drafts;
  options.always_draft = drafts > 0;
  return options;
}

} // namespace

TEST_CASE("texts that have a form and whose tokens are guessed at stay the same" *
          doctest::test_suite("rest")) {
  std::vector<FormSource> all = sources();
  all.push_back({.json_schema = list});
  all.push_back({.json_schema = nested});
  all.push_back({.regex = "((north|south), ){12}end"});
  for (const bool tables : {false, true}) {
    const auto plain = require(Session::create(model(), guessing(options_for(tables), 0)));
    const auto guesses = require(Session::create(model(), guessing(options_for(tables), 7)));
    for (size_t i = 0; i < all.size(); ++i) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(tables);
        CAPTURE(i);
        CAPTURE(seed);
        GenerationRequest request = request_of(all[i], seed);
        request.max_tokens = 300;
        if (seed == 0) request.sampling.temperature = 0;
        request.sampling.log_probabilities = seed == 2 ? 2 : 0; // then no token is put there without a draw
        const Text expected = whole_text(*plain, request);
        CHECK(whole_text(*guesses, request) == expected);
        require(guesses->begin(request));
        Text text;
        while (guesses->active()) {
          require(guesses->slice({seed % 2 ? 2e-3 : 1.0}));
          take_all(*guesses, text);
        }
        CHECK(text == expected);
      }
    }
    CHECK(guesses->drafts().held > 200);
  }
}

TEST_CASE("texts with and without forms are guessed at beside each other, by a model too" *
          doctest::test_suite("rest")) {
  constexpr uint32_t count = 12;
  for (const bool by_model : {false, true}) {
    std::map<uint32_t, Text> texts[3];
    for (const uint32_t drafts : {0u, 3u, 7u}) {
      SessionOptions options = guessing(options_for(drafts != 3, 3), drafts);
      if (by_model && drafts > 0)
        options.draft_model = model(); // whose guesses hold where the form allows them
      const auto batch = require(Batch::create(model(), options));
      uint32_t added = 0;
      while (added < 4) require(batch->add(mixed_request(added++)));
      std::map<uint32_t, Text>& found = texts[drafts == 0 ? 0 : drafts == 3 ? 1 : 2];
      for (int steps = 0; batch->sequences() > 0 || added < count; ++steps) {
        const std::span<const BatchToken> tokens = require(batch->step());
        for (const BatchToken& token : tokens) found[token.sequence].push_back(token.token);
        if (added < count && (steps % 5 == 0 || batch->sequences() == 0))
          require(batch->add(mixed_request(added++)));
      }
      if (by_model && drafts > 0) CHECK(batch->drafts().held > 0);
    }
    CHECK(texts[0].size() == count);
    CHECK(texts[0] == texts[1]);
    CHECK(texts[0] == texts[2]);
  }
}

TEST_CASE("tables share memory, and those that no text uses make room") {
  std::vector<uint32_t> memory(900);
  FormTables tables(memory);
  const auto table_of = [](uint32_t tokens, uint16_t token_class) {
    auto table = std::make_shared<FormTable>();
    table->classes.assign(tokens, token_class);
    table->class_count = token_class + 1U;
    table->places = {{{token_class, 0}}};
    return table;
  };
  const auto first = table_of(320, 200), second = table_of(320, 201), third = table_of(320, 202);
  const auto begin = tables.use(first);
  REQUIRE(begin);
  CHECK(tables.use(first) == begin);
  CHECK(tables.use(second));
  CHECK(tables.use(third));
  const auto large = table_of(320, 400);
  CHECK(!tables.use(large)); // all are in use
  tables.release(*first);
  CHECK(!tables.use(large));
  tables.release(*first);
  tables.release(*second);
  CHECK(tables.use(large) == begin);
  CHECK(!tables.use(table_of(320, 2000)));
  tables.release(*third);
  CHECK(tables.use(third)); // it was still there, and what it needs is
}
