// Sources that would take much time or memory end with a sentence, or cost little.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "support/form.h"

using namespace pumice;

namespace {

std::string repeated(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

// Makes the form, and some masks. Whether it was refused.
bool is_refused(std::string FormSource::*kind, std::string text) {
  FormSource source;
  source.*kind = std::move(text);
  const auto begin = std::chrono::steady_clock::now();
  const auto vocabulary = byte_vocabulary();
  const auto form = Form::create(source, vocabulary);
  bool refused = !form.ok();
  if (form.ok()) {
    FormPlace place = (*form)->start();
    std::vector<uint32_t> bits(8);
    for (int count = 0; count < 50 && !refused; ++count) {
      refused = !(*form)->mask(place, {}, bits).ok();
      uint32_t token = 0;
      while (token < 256 && (bits[token / 32] >> token % 32 & 1) == 0) ++token;
      if (token == 256) break;
      CHECK(require((*form)->accept(place, token)));
    }
  }
  // A second on any machine that tests run on, with room for sanitizers.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  return refused;
}

} // namespace

TEST_CASE("hostile regular expressions") {
  const auto kind = &FormSource::regex;
  CHECK(is_refused(kind, repeated("(", 60'000) + "a" + repeated(")", 60'000)));
  CHECK(is_refused(kind, repeated("a", 2'000'000)));
  CHECK(is_refused(kind, "(a{0,1000000000}){2,3}"));
  CHECK(is_refused(kind, "(((a{1,100}){1,100}){1,100}){1,100}"));
  CHECK(!is_refused(kind, "a{0,1000000000}"));
  CHECK(!is_refused(kind, "(a*)*"));
  CHECK(!is_refused(kind, "(a*){1000000000}"));
  CHECK(!is_refused(kind, "(x+x+)+y"));
  CHECK(!is_refused(kind, "(a|a)*b"));
  CHECK(!is_refused(kind, "(a|b)*a(a|b){200}"));
  CHECK(!is_refused(kind, "(a|aa|aaa){50000,100000}b"));
  CHECK(is_refused(kind, repeated("\\p{L}", 300)));
  std::string alternatives = "[^a]*x";
  for (int i = 1; i < 3000; ++i) alternatives += std::string("|[^") + static_cast<char>('a' + i % 26) + "]*x";
  is_refused(kind, alternatives); // or not, but soon
}

TEST_CASE("hostile grammars") {
  const auto kind = &FormSource::grammar;
  CHECK(is_refused(kind, "root ::= " + repeated("(", 60'000) + "\"a\"" + repeated(")", 60'000)));
  CHECK(is_refused(kind, "root ::= \"a\" " + repeated("*", 60'000)));
  CHECK(!is_refused(kind, "root ::= \"a\"" + repeated(" | \"a\"", 50'000)));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 3000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " \"x\"\n";
  CHECK(!is_refused(kind, chain + "r3000 ::= \"y\"\n"));
  CHECK(is_refused(kind, chain + "r3000 ::= r0\n"));
  CHECK(!is_refused(kind, "root ::= \"[\" root \"]\" | \"x\""));
}

TEST_CASE("hostile grammars in Lark") {
  const auto kind = &FormSource::grammar;
  CHECK(is_refused(kind, "start: " + repeated("(", 60'000) + "\"a\"" + repeated(")", 60'000)));
  CHECK(is_refused(kind, "start: " + repeated("[", 60'000)));
  CHECK(is_refused(kind, "start: \"a\"" + repeated("*", 60'000)));
  CHECK(!is_refused(kind, "start: \"a\"" + repeated("\n | \"a\"", 50'000)));
  CHECK(!is_refused(kind, "start: \"a\"~0..1000000000"));
  CHECK(is_refused(kind, "start: (\"a\"~0..1000000000)~2..1000000000 /(a{1,100}){1,100}/"));
  CHECK(!is_refused(kind, "start: start start | \"x\""));
  CHECK(!is_refused(kind, "start: (A | A A | \"aa\")* \"b\"\nA: /(a|a)*a/\n%ignore /a*/"));
  std::string chain = "start: r0\n";
  for (int i = 0; i < 3000; ++i)
    chain += "r" + std::to_string(i) + ": r" + std::to_string(i + 1) + " \"x\"\n";
  CHECK(!is_refused(kind, chain + "r3000: \"y\"\n"));
  CHECK(is_refused(kind, chain + "r3000: r0\n"));
}

TEST_CASE("what is wrong is told in a sentence, however long its name is") {
  const auto length = [](std::string FormSource::*kind, const std::string& text) {
    FormSource source;
    source.*kind = text;
    const auto form = Form::create(source, byte_vocabulary());
    REQUIRE(!form.ok());
    return form.error().message.size();
  };
  const std::string name = repeated("n", 120'000);
  CHECK(length(&FormSource::json_schema, "{\"$ref\": \"#/" + name + "\"}") < 400);
  CHECK(length(&FormSource::json_schema, "{\"$ref\": \"http://" + name + "\"}") < 400);
  CHECK(length(&FormSource::json_schema, "{\"" + name + "\": 1}") < 400);
  CHECK(length(&FormSource::json_schema, "{\"properties\": {\"" + name + "\": {\"contains\": 1}}}") < 400);
  CHECK(length(&FormSource::grammar, "root ::= " + name) < 400);
  CHECK(length(&FormSource::grammar, "start: " + name) < 400);
}

TEST_CASE("schemas with many parts") {
  const auto kind = &FormSource::json_schema;
  const auto list = [](int count, const auto& each) {
    std::string all;
    for (int i = 0; i < count; ++i) all += (i ? "," : "") + each(std::to_string(i));
    return all;
  };
  const auto constant = [](const std::string& i) { return "{\"const\":\"a" + i + "\"}"; };
  CHECK(!is_refused(kind, "{\"oneOf\":[" + list(8'000, constant) + "]}"));
  CHECK(!is_refused(kind, "{\"oneOf\":[" + list(1'500, [](const std::string& i) {
                            return R"({"type":"object","required":["k"],"properties":{"k":{"const":)" + i +
                                   "},\"v\":{\"type\":\"null\"}}}";
                          }) + "]}"));
  CHECK(is_refused(kind, "{\"oneOf\":[" + list(1'500, [](const std::string& i) {
                           return R"({"type":"object","required":["k)" + i +
                                  R"("],"properties":{"k":{"const":1}}})";
                         }) + "]}"));
  const auto property = [](const std::string& i) {
    return "{\"properties\":{\"p" + i + "\":{\"type\":\"string\"}}}";
  };
  CHECK(is_refused(kind, "{\"allOf\":[" + list(5'000, property) + "]}"));
  CHECK(is_refused(kind, "{\"required\":[" +
                             list(20'000, [](const std::string& i) { return "\"p" + i + "\""; }) + "]}"));
  CHECK(is_refused(kind, "{\"patternProperties\":{" + list(200, [](const std::string& i) {
                           return "\"[a-z]" + i + ".*[0-9]\":{\"type\":\"integer\"}";
                         }) + "}}"));
  std::string nested = "{}"; // each prefixItems is a part of the one before it
  for (int i = 0; i < 40; ++i) nested = "{\"prefixItems\":[" + repeated("{},", 490) + nested + "]}";
  CHECK(is_refused(kind, nested));
  is_refused(kind,
             R"({"type": "string", "pattern": "^(.{0,50}a){0,50}$", "minLength": 100, "maxLength": 5000})");
  is_refused(kind, "{\"properties\":{" + list(1'500, [](const std::string& i) {
                     return "\"p" + i + R"(":{"type":"string","format":"uri","maxLength":)" +
                            std::to_string(20 + std::stoi(i)) + "}";
                   }) + "}}");
}

TEST_CASE("hostile schemas") {
  const auto kind = &FormSource::json_schema;
  CHECK(is_refused(kind, repeated("[", 60'000) + repeated("]", 60'000)));
  CHECK(is_refused(kind, R"({"type": "string", "title": ")" + repeated("a", 10'000'000) + "\"}"));
  CHECK(is_refused(kind, R"({"$ref": "#"})"));
  CHECK(is_refused(kind, R"({"allOf": [{"$ref": "#"}]})"));
  CHECK(is_refused(kind, R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"));
  CHECK(is_refused(kind, R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"));
  CHECK(is_refused(kind, R"({"properties": {"a": {"allOf": [{"$ref": "#"}, {"required": ["b"]}]}}})"));
  CHECK(is_refused(kind, R"({"type": "array", "prefixItems": [{})" + repeated(", {}", 60'000) + "]}"));
  CHECK(is_refused(kind, R"({"type": "string", "minLength": 100000000, "pattern": "^a*$"})"));
  CHECK(is_refused(kind, R"({"type": "string", "pattern": "^a{30,}$", "maxLength": 20})"));
  CHECK(is_refused(kind, R"({"$ref": "http://127.0.0.1/schema"})"));
  CHECK(!is_refused(kind, R"({"type": "string", "maxLength": 1000000000})"));
  CHECK(!is_refused(kind, R"({"type": "array", "minItems": 1000000000, "items": {"type": "integer"}})"));
  std::string defs = R"({"$ref": "#/$defs/d0", "$defs": {"d60": {"type": "string"})";
  for (int i = 0; i < 60; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"";
    defs += ", \"d" + std::to_string(i) + "\": {\"anyOf\": [" + next + "}, " + next + ", \"minLength\": 1}]}";
  }
  CHECK(is_refused(kind, defs + "}}"));
}
