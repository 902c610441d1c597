// Masks for tools/compare_masks.py:   mask_lines VOCABULARY < LINES
// VOCABULARY has the bytes of a token in each line, as hexadecimal digits; the token after the last one ends
// texts. Each line of the input is JSON, {"schema", "tokens"}. The answer is a line of JSON and, without an
// "error" in it, the masks before each token and after the last one, bit by bit: {"make": seconds, "table":
// seconds, "places": of the table or null, "times": seconds of each mask, with the step before it, "masks":
// how many}. Fewer masks than tokens and one: a token did not fit.
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

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

// The answer to a line, and the masks.
Result<json> answered(const json& line, const std::shared_ptr<FormVocabulary>& vocabulary,
                      std::vector<uint32_t>& masks) {
  auto start = Clock::now();
  PUMICE_TRY(const std::shared_ptr<Form> form,
             Form::create(FormSource{.json_schema = line["schema"].dump()}, vocabulary));
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

} // namespace

int main(int, char** arguments) {
  const auto vocabulary = std::make_shared<FormVocabulary>(read_vocabulary(arguments[1]));
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<uint32_t> masks;
    const Result<json> answer = answered(json::parse(line), vocabulary, masks);
    std::cout << (answer.ok() ? *answer : json{{"error", answer.error().message}}).dump() << '\n';
    if (answer.ok())
      std::cout.write(reinterpret_cast<const char*>(masks.data()),
                      static_cast<std::streamsize>(4 * masks.size()));
    std::cout.flush();
  }
}
