#include "io/fields.h"
#include "io/json_text.h"

#include "support/command/messages.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace pumice;

namespace {

Result<nlohmann::json> parse(std::string_view text, DuplicateKeys duplicates = DuplicateKeys::keep_last) {
  return parse_json(std::as_bytes(std::span(text)), "config.json", duplicates);
}

const nlohmann::json config = {
    {"layers", 12},      {"whole", 8.0},         {"eps", 1e-6},    {"huge", 1e300},
    {"negative", -4},    {"tied", true},         {"name", "gpt"},  {"nothing", nullptr},
    {"list", {1, 2, 3}}, {"mixed", {1, "x", 3}}, {"names", {"a"}}, {"rope", {{"factor", 8.0}, {"low", "x"}}},
};

} // namespace

TEST_CASE("fields: values of each type") {
  const Fields fields(config, "config.json");
  CHECK(*fields.u32("layers") == 12);
  CHECK(*fields.u32("whole") == 8);
  CHECK(*fields.f32("eps") == 1e-6f);
  CHECK(*fields.f32("layers") == 12);
  CHECK(*fields.f32("negative") == -4);
  CHECK(*fields.boolean("tied"));
  CHECK(*fields.string("name") == "gpt");
  CHECK(*fields.u32_array("list") == std::vector<uint32_t>{1, 2, 3});
  CHECK(*fields.u32_array("layers") == std::vector<uint32_t>{12});
  CHECK(*fields.f32_array("list") == std::vector<float>{1, 2, 3});
  CHECK(*fields.string_array("names") == std::vector<std::string>{"a"});
  CHECK(*fields.object("rope")->f32("factor") == 8);
  CHECK(fields.has("layers"));
  CHECK(!fields.has("nothing"));
  CHECK(!fields.has("absent"));
  CHECK(fields.find("name") != nullptr);
}

TEST_CASE("fields: a default replaces an absent or null field, but not a wrong one") {
  const Fields fields(config, "config.json");
  CHECK(*fields.u32_or("absent", 3) == 3);
  CHECK(*fields.u32_or("nothing", 3) == 3);
  CHECK(*fields.u32_or("layers", 1, 100, 3) == 12);
  CHECK(*fields.f32_or("absent", 0.5f) == 0.5f);
  CHECK(*fields.boolean_or("absent", true));
  CHECK(*fields.string_or("absent", "silu") == "silu");
  CHECK(fields.u32_array_or_empty("absent")->empty());
  CHECK(!fields.object_or_empty("absent")->has("factor"));
  CHECK(says(fields.u32_or("name", 3), {"'name'"}) == "");
  CHECK(says(fields.f32_or("name", 3), {"'name'"}) == "");
  CHECK(says(fields.boolean_or("name", true), {"'name'"}) == "");
  CHECK(says(fields.string_or("layers", ""), {"'layers'"}) == "");
  CHECK(says(fields.object_or_empty("layers"), {"'layers'"}) == "");
}

TEST_CASE("fields: errors name the file, the field, what was expected and what was found") {
  const Fields fields(config, "some/config.json");
  CHECK(says(fields.u32("absent", 1, 9),
             {"some/config.json", "'absent'", "integer from 1 to 9", "missing"}) == "");
  CHECK(says(fields.u32("nothing"), {"'nothing'", "missing"}) == "");
  CHECK(says(fields.u32("layers", 1, 9), {"some/config.json", "'layers'", "from 1 to 9", "found 12"}) == "");
  CHECK(says(fields.u32("layers", 13), {"'layers'", "at least 13", "found 12"}) == "");
  CHECK(says(fields.u32("negative"), {"'negative'", "non-negative", "found -4"}) == "");
  CHECK(says(fields.u32("eps"), {"'eps'", "integer", "found 1e-06"}) == "");
  CHECK(says(fields.u32("tied"), {"'tied'", "found true"}) == "");
  CHECK(says(fields.f32("huge"), {"'huge'", "number", "1e+300"}) == "");
  CHECK(says(fields.f32("negative", 0), {"'negative'", "at least 0", "found -4"}) == "");
  CHECK(says(fields.f32("layers", 0, 1), {"'layers'", "from 0 to 1", "found 12"}) == "");
  CHECK(says(fields.boolean("layers"), {"'layers'", "true or false", "found 12"}) == "");
  CHECK(says(fields.string("list"), {"'list'", "a string", "an array of 3"}) == "");
  CHECK(says(fields.object("name"), {"'name'", "an object", "\"gpt\""}) == "");
  CHECK(says(fields.u32_array("mixed"), {"'mixed[1]'", "integer", "\"x\""}) == "");
  CHECK(says(fields.u32_array("name"), {"'name'", "array", "\"gpt\""}) == "");
  CHECK(says(fields.object("rope")->f32("low"), {"some/config.json", "'rope.low'", "\"x\""}) == "");
  CHECK(says(fields.u32("absent"), {}) == "");
  CHECK(fields.u32("absent").error().code == Code::invalid_file);
  CHECK(says(Result<int>(fields.error("layers", "too many")),
             {"some/config.json: field 'layers': too many"}) == "");
}

TEST_CASE("fields: a value that is not an object has no fields") {
  const nlohmann::json array = {1, 2};
  CHECK(says(Fields(array, "x").u32("layers"), {"'layers'", "missing"}) == "");
}

TEST_CASE("json: errors name the file and the byte") {
  CHECK(says(parse("{\"a\": 1,}"), {"config.json", "invalid JSON", "byte 9"}) == "");
  CHECK(says(parse(""), {"config.json", "invalid JSON", "byte 1"}) == "");
  CHECK(says(parse("{\"a\": \"\xff\"}"), {"config.json", "invalid JSON"}) == "");
  CHECK(says(parse("{\"a\": 1e999}"), {"config.json", "invalid JSON"}) == "");
  CHECK(says(parse(std::string(129, '[') + std::string(129, ']')), {"config.json", "nested", "byte 128"}) ==
        "");
  CHECK(parse(std::string(128, '[') + std::string(128, ']')).ok());
  CHECK(parse("[\"[[[[\\\"[[[\"]").ok());
}

TEST_CASE("json: a key that occurs twice") {
  const std::string_view text = R"({"a": {"b": 1, "c": {"b": 2}, "b": 3}})";
  CHECK((*parse(text))["a"]["b"] == 3);
  CHECK(says(parse(text, DuplicateKeys::refuse), {"config.json", "'b'", "twice"}) == "");
  CHECK(parse(R"({"a": {"b": 1}, "b": [{"b": 1}, {"b": 2}]})", DuplicateKeys::refuse).ok());
}

TEST_CASE("json: a value of any size is described in a few words") {
  CHECK(describe(std::string(10000, 'x')).size() < 100);
  CHECK(describe(nlohmann::json(std::vector<int>(1000))) == "an array of 1000");
  CHECK(describe(nullptr) == "null");
  CHECK(describe("\xff") == "\"\\xff\"");
}

TEST_CASE("JSON in order is what the library makes of it, and many members take no longer than others") {
  using ordered = nlohmann::ordered_json;
  for (
      const char* text :
      {R"({"b": 1, "a": [true, null, -2, 1.5e3, "\u00e9", {}], "c": {"z": [], "y": {"x": 18446744073709551615}}})",
       R"([])", R"("a")", R"([[], [[1], {"a": {}}], 2])",
       R"({"a": 1, "b": 2, "a": {"c": 3}, "c": 4, "b": []})", R"([{"a": 1, "a": 2}, {"a": 3}])"}) {
    CAPTURE(text);
    CHECK(parse_ordered_json(text, "f")->dump() == ordered::parse(text).dump());
  }
  const std::string broken = "{\"a\": 1,}";
  CHECK(parse_ordered_json(broken, "config.json").error().message == parse(broken).error().message);
  CHECK(!parse_ordered_json("[1e999]", "f").ok());
  CHECK(!parse_ordered_json("", "f").ok());
  std::string many = "{";
  for (int i = 0; i < 200'000; ++i) many += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  many.back() = '}';
  const auto read = parse_ordered_json(many, "f"); // a quadratic reader takes minutes
  REQUIRE(read.ok());
  CHECK(read->size() == 200'000);
  CHECK(std::prev(read->end()).key() == "k199999");
}
