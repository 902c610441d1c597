#include "input/kept_text.h"

#include <bit>
#include <span>

#include <nlohmann/json.hpp>

#include "base/guarded.h"
#include "io/json_text.h"

namespace pumice::command {

namespace {

using Json = nlohmann::ordered_json;

// A token and the bits of its log-probability: minus infinity and NaN have no number in JSON.
void add_to(Json& numbers, const TokenLogProbability& each) {
  numbers.push_back(each.token);
  numbers.push_back(std::bit_cast<uint32_t>(each.log_probability));
}

Json json_of(const KeptText& text) {
  Json json = {
      {"sample", text.sample}, {"made_with", text.made_with}, {"seed", text.seed}, {"ids", text.ids}};
  for (const TokenLogProbabilities& each : text.log_probabilities) {
    Json numbers = Json::array();
    add_to(numbers, each);
    for (const TokenLogProbability& top : each.top) add_to(numbers, top);
    json["logprobs"].push_back(std::move(numbers));
  }
  if (text.end) json["end"] = *text.end;
  if (!text.finish_reason.empty()) json["finish_reason"] = text.finish_reason;
  return json;
}

TokenLogProbabilities log_probabilities_of(const std::vector<uint32_t>& numbers) {
  const auto at = [&](size_t i) {
    return TokenLogProbability{numbers.at(i), std::bit_cast<float>(numbers.at(i + 1))};
  };
  TokenLogProbabilities result{at(0), {}};
  for (size_t i = 2; i < numbers.size(); i += 2) result.top.push_back(at(i));
  return result;
}

KeptText text_of(const nlohmann::json& json) {
  KeptText text;
  text.sample = json.at("sample").get<uint32_t>();
  text.made_with = json.at("made_with").get<uint64_t>();
  text.seed = json.at("seed").get<uint64_t>();
  text.ids = json.at("ids").get<std::vector<uint32_t>>();
  if (json.contains("logprobs")) {
    for (const nlohmann::json& each : json.at("logprobs"))
      text.log_probabilities.push_back(log_probabilities_of(each.get<std::vector<uint32_t>>()));
  }
  if (json.contains("end")) text.end = json.at("end").get<uint32_t>();
  if (json.contains("finish_reason")) text.finish_reason = json.at("finish_reason").get<std::string>();
  return text;
}

} // namespace

std::string kept_line(const std::vector<KeptText>& texts) {
  Json all = Json::array();
  for (const KeptText& text : texts) all.push_back(json_of(text));
  return all.dump();
}

std::vector<KeptText> read_kept_line(const std::string& line) {
  std::vector<KeptText> texts;
  if (line.empty()) return texts;
  const Result<nlohmann::json> all = parse_json(std::as_bytes(std::span(line)), "--resume");
  if (!all.ok()) return texts;
  // What has another form throws.
  const Status read = guarded([&] {
    for (const nlohmann::json& each : *all) texts.push_back(text_of(each));
  });
  if (!read.ok()) texts.clear();
  return texts;
}

} // namespace pumice::command
