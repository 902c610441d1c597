// Texts that have a form: in whole steps, in slices, in a batch.
#include <set>
#include <string>
#include <vector>

#include "support/embedding.h"

namespace {

const char* const schema = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 10},
  "way": {"enum": ["north", "south"]}}, "required": ["name", "way"], "additionalProperties": false})";

struct Asked {
  explicit Asked(uint64_t seed) {
    sampling.temperature = 1;
    sampling.seed = seed;
    request.text = "The girl said";
    request.new_conversation = true;
    request.max_tokens = 100;
    request.sampling = &sampling;
    request.form = &form;
  }
  Asked(const Asked&) = delete;

  pumice_sampling sampling = {sizeof sampling};
  pumice_form form = {sizeof form};
  pumice_request request = {sizeof request};
};

Story answer(pumice_session* session, const Asked& asked, bool in_slices = false) {
  return generated_story(session, asked.request, in_slices);
}

void check_person(const Story& story) {
  CAPTURE(story.text);
  CHECK(story.finish_reason == PUMICE_FINISH_STOP);
  CHECK(story.text.starts_with("{\"name\":"));
  CHECK((story.text.ends_with("\"north\"}") || story.text.ends_with("\"south\"}")));
}

} // namespace

TEST_CASE("a session's texts have their form, the same in slices as in whole steps") {
  const ModelHandle model = load(shared_device().get());
  pumice_session_options options = {sizeof options};
  options.context = 192;
  const SessionHandle session = make_session(model.get(), options);
  options.drafts = 5;
  const SessionHandle guessing = make_session(model.get(), options);
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Asked asked(seed);
    asked.form.json_schema = schema;
    const Story whole = answer(session.get(), asked);
    check_person(whole);
    texts.insert(whole.text);
    CHECK(answer(session.get(), asked, true) == whole);
    for (const bool in_slices : {false, true}) CHECK(answer(guessing.get(), asked, in_slices) == whole);
  }
  CHECK(texts.size() > 1);
  // What comes after has none.
  Asked asked(1);
  asked.request.form = nullptr;
  CHECK(!answer(session.get(), asked).text.starts_with("{"));
}

TEST_CASE("each text of a batch has a form of its own, and is what it is alone") {
  const ModelHandle model = load(shared_device().get());
  pumice_session_options options = {sizeof options};
  options.context = 192;
  const SessionHandle session = make_session(model.get(), options);
  Asked first(1), second(2), third(3);
  const char* choices[] = {"up", "down", "over there"};
  first.form.choices = choices;
  first.form.choice_count = 3;
  second.form.json_schema = schema;
  third.request.form = nullptr;
  third.request.max_tokens = 12;
  const Story alone[] = {answer(session.get(), first), answer(session.get(), second),
                         answer(session.get(), third)};
  CHECK((alone[0].text == "up" || alone[0].text == "down" || alone[0].text == "over there"));

  pumice_batch_options batch_options = {sizeof batch_options};
  batch_options.context = 192;
  batch_options.texts = 3;
  for (const uint32_t drafts : {0u, 5u}) {
    batch_options.drafts = drafts;
    const BatchHandle batch = make_batch(model.get(), batch_options);
    pumice_error error;
    uint32_t ids[3];
    size_t count = 0;
    for (const Asked* each : {&first, &second, &third})
      require_ok(pumice_batch_add(batch.get(), &each->request, &ids[count++], &error), error);
    pumice_slice slice = {sizeof slice};
    do {
      require_ok(pumice_work_advance(pumice_batch_work(batch.get()), 3000, nullptr, &slice, &error), error);
    } while (slice.active);
    Story stories[3];
    while (const pumice_event* event = pumice_batch_poll(batch.get())) {
      for (size_t i = 0; i < 3; ++i) {
        if (event->text_id == ids[i]) add_event(*event, stories[i]);
      }
    }
    for (size_t i = 0; i < 3; ++i) CHECK(stories[i] == alone[i]);
  }
}

TEST_CASE("what is wrong with a form is an error of the request") {
  const ModelHandle model = load(shared_device().get());
  pumice_session_options options = {sizeof options};
  options.context = 64;
  const SessionHandle session = make_session(model.get(), options);
  const auto error_of = [&](const Asked& asked) {
    pumice_error error;
    CHECK(pumice_session_generate(session.get(), &asked.request, &error) != PUMICE_OK);
    return std::string(error.message);
  };
  Asked asked(1);
  CHECK(error_of(asked).find("request.form: a form is choices") == 0);
  asked.form.regex = "a(";
  CHECK(error_of(asked) == "request.form: the regular expression, at byte 2: a ( has no )");
  asked.form.json_schema = "{}";
  CHECK(error_of(asked).find("give exactly one") != std::string::npos);
  asked.form.regex = nullptr;
  asked.request.ignore_end = true;
  CHECK(error_of(asked).find("ends with a stop token") != std::string::npos);
}
