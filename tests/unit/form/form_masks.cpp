// A mask has exactly the tokens that may follow, whatever the vocabulary's tokens are.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/form.h"
#include "text/unicode/unicode.h"

using namespace pumice;

namespace {

const char* const person = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 12}, "mail": {"type": "string", "format": "email"},
  "age": {"type": "integer", "minimum": 0, "maximum": 130}, "friends": {"type": "array", "items": {"$ref": "#"}}},
  "required": ["name"], "additionalProperties": {"enum": ["yes", "no", 1.5]}})";

// Every token of every mask on some walks, against the bytes of the token alone.
void check_masks(const char* name, const FormSource& source) {
  CAPTURE(std::string(name));
  const auto vocabulary = fixture_vocabulary(name);
  const auto form = require(Form::create(source, vocabulary));
  FormWalk walk(*form, *vocabulary, 3);
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    FormPlace place = form->start();
    for (int count = 0; count < 30; ++count) {
      const std::vector<uint32_t> all = walk.allowed(place);
      REQUIRE(!all.empty());
      size_t next = 0, wrong = 0;
      for (uint32_t token = 0; token < vocabulary->size(); ++token) {
        const bool allowed = next < all.size() && all[next] == token;
        if (allowed) ++next;
        FormPlace after = place;
        wrong += require(form->accept(after, token)) != allowed;
      }
      CHECK(wrong == 0);
      CHECK((all.back() == vocabulary->size()) == place.may_end);
      const uint32_t token = all[random() % all.size()];
      if (token == vocabulary->size()) break;
      REQUIRE(require(form->accept(place, token)));
    }
  }
}

} // namespace

TEST_CASE("a mask has the tokens whose bytes may follow") {
  for (const char* name : {"gpt2", "llama2"}) {
    check_masks(name, {.json_schema = person});
    check_masks(name, {.regex = "([a-z]{2,9}(, | and )|é+|\\p{Lu}{1,30})+\\d{3}"});
    check_masks(name, {.grammar = "root ::= \"(\" root* \")\" | word\nword ::= [^() ]+ \" \"?"});
  }
}

TEST_CASE("texts drawn from masks are whole characters, and fit") {
  for (const char* name : {"gpt2", "llama2", "qwen2"}) {
    CAPTURE(std::string(name));
    const auto vocabulary = fixture_vocabulary(name);
    const auto form = require(Form::create({.json_schema = person}, vocabulary));
    FormWalk walk(*form, *vocabulary, 5);
    for (int round = 0; round < 20; ++round) {
      const std::optional<std::string> text = walk.text(40);
      REQUIRE(text);
      CHECK(text::is_valid_utf8(*text));
      CHECK(accepts(*form, *text));
    }
  }
}

TEST_CASE("special tokens and unused ids are no part of a form") {
  for (const char* name : {"gpt2", "llama2", "llama3"}) {
    CAPTURE(std::string(name));
    const auto tokenizer = require(Tokenizer::load(fixtures().tokenizer(name)));
    const auto vocabulary = std::make_shared<FormVocabulary>(*tokenizer);
    const auto form = require(Form::create({.regex = "[^]*"}, vocabulary));
    FormWalk walk(*form, *vocabulary, 1);
    for (const uint32_t token : walk.allowed(form->start())) {
      if (token < vocabulary->size()) CHECK(!tokenizer->is_special(token));
    }
  }
}

TEST_CASE("the bytes of tokens are what the tokenizer decodes") {
  for (const char* name : {"gpt2", "llama2", "llama3", "gemma", "qwen2", "t5"}) {
    CAPTURE(std::string(name));
    const auto tokenizer = require(Tokenizer::load(fixtures().tokenizer(name)));
    const std::vector<std::string> bytes = tokenizer->bytes_within();
    for (const char* text : {"Hello world, \"quoted\" and 3.5 more", "naïve — 漢字 😀 end", "a  b\n\tc"}) {
      const std::vector<uint32_t> ids = tokenizer->encode(text, false);
      std::string joined;
      for (const uint32_t id : ids) joined += tokenizer->is_special(id) ? "" : bytes[id];
      const std::string decoded = tokenizer->decode(ids, false);
      if (joined.starts_with(' ') && !decoded.starts_with(' '))
        joined.erase(0, 1); // only a text's first token
      if (text::is_valid_utf8(joined)) CHECK(joined == decoded);
    }
  }
}
