// Masks for tools/compare_masks.py:   mask_lines VOCABULARY < LINES
// VOCABULARY has the bytes of a token in each line, as hexadecimal digits; the token after the last one ends
// texts. Each line of the input is JSON, {"schema", "tokens"}. The answer is a line of JSON and, without an
// "error" in it, the masks before each token and after the last one, bit by bit: {"make": seconds, "table":
// seconds, "places": of the table or null, "times": seconds of each mask, with the step before it, "masks":
// how many}. Fewer masks than tokens and one: a token did not fit.
// With {"schema", "walk": a number}, the answer is a text of tokens that are drawn from the masks: {"text":
// its bytes as hexadecimal digits, or null if it did not end, "tokens": how many}.
#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "form/form.h"

using namespace pumice;
using json = nlohmann::ordered_json; // properties have an order

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> read_vocabulary(const char* path) {
  std::vector<std::string> tokens;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::string& token = tokens.emplace_back();
    for (size_t i = 0; i + 1 < line.size(); i += 2)
      token += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  }
  return tokens;
}

// A schema that is a string is JSON itself, however deep.
std::string schema_of(const json& line) {
  const json& schema = line["schema"];
  return schema.is_string() ? schema.get<std::string>() : schema.dump();
}

// The answer to a line, and the masks.
Result<json> answered(const json& line, const std::shared_ptr<FormVocabulary>& vocabulary,
                      std::vector<uint32_t>& masks) {
  auto start = Clock::now();
  PUMICE_TRY(const std::shared_ptr<Form> form,
             Form::create(FormSource{.json_schema = schema_of(line)}, vocabulary));
  const double make = seconds_since(start);
  start = Clock::now();
  const uint32_t end = vocabulary->size();
  const std::shared_ptr<const FormTable> table = form->table("", {&end, 1}, end + 1);
  const double table_time = seconds_since(start);
  const size_t words = end / 32 + 1;
  std::vector<double> times;
  FormPlace place = form->start();
  bool fits = true;
  for (size_t n = 0; n <= line["tokens"].size() && fits; ++n) {
    masks.resize(masks.size() + words);
    start = Clock::now();
    if (n > 0) {
      PUMICE_TRY(fits, form->accept(place, line["tokens"][n - 1].get<uint32_t>()));
    }
    if (fits) PUMICE_CHECK(form->mask(place, {&end, 1}, std::span(masks).last(words)));
    times.push_back(seconds_since(start));
  }
  if (!fits) {
    masks.resize(masks.size() - words);
    times.pop_back();
  }
  return json{{"make", make},
              {"table", table_time},
              {"places", table ? json(table->places.size()) : json()},
              {"times", times},
              {"masks", times.size()}};
}

// A token of those that may follow. After some of them, those that close something are drawn often.
uint32_t drawn(const std::vector<uint32_t>& mask, const FormVocabulary& vocabulary, std::mt19937& random,
               bool closing) {
  std::vector<uint32_t> all, closers;
  for (uint32_t token = 0; token <= vocabulary.size(); ++token) {
    if ((mask[token / 32] >> token % 32 & 1) == 0) continue;
    all.push_back(token);
    const std::string_view bytes = vocabulary.bytes(token);
    const bool closes =
        bytes.size() == 1 && std::string_view("\"]}0").find(bytes[0]) != std::string_view::npos;
    if (closes || bytes == "null") closers.push_back(token);
  }
  if (closing && all.back() == vocabulary.size()) return all.back();
  const std::vector<uint32_t>& from = closing && !closers.empty() && random() % 4 ? closers : all;
  return from[random() % from.size()];
}

Result<json> walked(const json& line, const std::shared_ptr<FormVocabulary>& vocabulary) {
  PUMICE_TRY(const std::shared_ptr<Form> form,
             Form::create(FormSource{.json_schema = schema_of(line)}, vocabulary));
  std::mt19937 random(line["walk"].get<uint32_t>());
  const uint32_t end = vocabulary->size();
  std::vector<uint32_t> mask(end / 32 + 1);
  FormPlace place = form->start();
  std::string text;
  uint32_t tokens = 0;
  constexpr uint32_t usual = 30, most = 3000;
  while (tokens < most) {
    PUMICE_CHECK(form->mask(place, {&end, 1}, mask));
    const uint32_t token = drawn(mask, *vocabulary, random, tokens >= usual);
    if (token == end) break;
    PUMICE_TRY(const bool fits, form->accept(place, token));
    if (!fits) return Error{Code::internal, "a token of a mask does not fit"};
    for (const char each : vocabulary->bytes(token))
      text += fmt::format("{:02x}", static_cast<uint8_t>(each));
    ++tokens;
  }
  return json{{"text", tokens < most ? json(text) : json()}, {"tokens", tokens}};
}

} // namespace

int main(int, char** arguments) {
  const auto vocabulary = std::make_shared<FormVocabulary>(read_vocabulary(arguments[1]));
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<uint32_t> masks;
    const json asked = json::parse(line);
    const Result<json> answer =
        asked.contains("walk") ? walked(asked, vocabulary) : answered(asked, vocabulary, masks);
    std::cout << (answer.ok() ? *answer : json{{"error", answer.error().message}}).dump() << '\n';
    if (answer.ok())
      std::cout.write(reinterpret_cast<const char*>(masks.data()),
                      static_cast<std::streamsize>(4 * masks.size()));
    std::cout.flush();
  }
}
