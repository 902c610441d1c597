// A form's table says of each token what its masks say, and is not made of forms that are large.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/form.h"

using namespace pumice;

namespace {

const char* const person = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 12}, "note": {"type": "string"},
  "age": {"type": "integer", "minimum": 0, "maximum": 130}, "way": {"enum": ["north", "south", 1.5, null]}},
  "required": ["name", "way"], "additionalProperties": false})";

bool is_set(const std::vector<uint32_t>& bits, uint32_t token) {
  return (bits[token / 32] >> token % 32 & 1) != 0;
}

// The table beside the masks, on walks through both.
void check_table(const std::shared_ptr<FormVocabulary>& vocabulary, const FormSource& source,
                 const std::string& begun = "") {
  const auto form = require(Form::create(source, vocabulary));
  const uint32_t tokens = vocabulary->size() + 5; // models have some that no text has
  const std::vector<uint32_t> ends = {vocabulary->size(), 11, 11};
  const auto table = form->table(begun, ends, tokens);
  REQUIRE(table);
  CHECK(table->places.size() <= FormTable::most_places);
  // The same source has it already.
  CHECK(require(Form::create(source, vocabulary))->table(begun, ends, tokens) == table);

  std::mt19937 random(7);
  std::vector<uint32_t> bits((tokens + 31) / 32);
  for (int round = 0; round < 12; ++round) {
    FormPlace place = form->start();
    REQUIRE(require(form->accept(place, begun)));
    uint32_t at = 0;
    for (int count = 0; count < 40; ++count) {
      require(form->mask(place, ends, bits));
      std::vector<uint32_t> all;
      size_t wrong = 0;
      for (uint32_t token = 0; token < tokens; ++token) {
        wrong += is_set(bits, token) != table->next(at, token).has_value();
        if (is_set(bits, token) && token != ends[0] && token != ends[1]) all.push_back(token);
      }
      CHECK(wrong == 0);
      if (place.may_end) CHECK(table->next(at, ends[0]) == at);
      if (all.empty()) break;
      const uint32_t token = all[random() % all.size()];
      REQUIRE(require(form->accept(place, token)));
      at = *table->next(at, token);
    }
  }
}

} // namespace

TEST_CASE("a form's table has the tokens of its masks") {
  for (const char* name : {"gpt2", "llama2", "qwen2"}) {
    CAPTURE(std::string(name));
    const auto vocabulary = fixture_vocabulary(name);
    check_table(vocabulary, {.choices = {"north", "north-east", "übermorgen 漢字", "n"}});
    check_table(vocabulary, {.json_schema = person});
    check_table(vocabulary, {.json_schema = person}, "{\"name\": \"Jo");
    check_table(vocabulary, {.regex = "([a-z]{2,9}(, | and )|é+|\\p{Lu}{1,30})+\\d{3}"});
    check_table(vocabulary, {.regex = "[^]*"});
    check_table(vocabulary, {.regex = ".{3,40}x?"});
    check_table(vocabulary, {.json_schema = R"({"type": "array", "items": {"type": "number"}})"});
    check_table(vocabulary, {.grammar = "root ::= (word \" \")+\nword ::= [^() ]+ | \"(\" [0-9]* \")\""});
  }
  check_table(byte_vocabulary(), {.json_schema = person});
}

TEST_CASE("forms that are large, or without end, have no table") {
  const auto vocabulary = fixture_vocabulary("gpt2");
  const std::vector<uint32_t> ends = {vocabulary->size()};
  const auto has_table = [&](const FormSource& source) {
    const auto form = require(Form::create(source, vocabulary));
    const bool made = form->table("", ends, vocabulary->size() + 1) != nullptr;
    std::vector<uint32_t> bits(vocabulary->size() / 32 + 1);
    require(form->mask(form->start(), ends, bits)); // it can be used as before
    return made;
  };
  CHECK(!has_table({.grammar = "root ::= \"(\" root* \")\""}));
  CHECK(!has_table({.json_schema = R"({"type": "array", "items": {"$ref": "#"}})"}));
  CHECK(!has_table({.regex = "[ab]*a[ab]{12}"}));
  CHECK(!has_table({.regex = "(abcdefgh){500}"}));
  CHECK(has_table({.regex = "(abcdefgh){50}"}));
}
