#include "serve/routes/request_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "io/json_text.h"
#include "serve/models/served_model.h"
#include "task/generated_text.h"

namespace pumice::serve {

namespace {

constexpr uint32_t most_texts = 16; // of a request
constexpr size_t most_stops = 64;

// What other servers call fields of this one.
struct OtherName {
  const char *other, *own;
};
constexpr OtherName other_names[] = {{"repetition_penalty", "repeat_penalty"},
                                     {"repeat_last_n", "repeat_window"},
                                     {"n_predict", "max_tokens"},
                                     {"guided_json", "json_schema"},
                                     {"guided_regex", "regex"},
                                     {"guided_choice", "choices"},
                                     {"guided_grammar", "grammar"}};

// What others have and this server has not would make another text: only where it says nothing is it taken.
Status refuse_other_sampling(const RequestBody& body) {
  struct Other {
    const char* field;
    double none;
  };
  constexpr Other others[] = {{"tfs_z", 1},           {"top_a", 0},   {"min_tokens", 0},
                              {"use_beam_search", 0}, {"n_probs", 0}, {"length_penalty", 1}};
  for (const auto& [field, none] : others) {
    const Json& value = body[field];
    if (!value.is_null() && value != false && value != none)
      return bad_field(field, "this server does not have it: leave it out");
  }
  for (const char* field : {"structured_outputs", "bad_words"}) {
    if (!body[field].empty()) return bad_field(field, "this server does not have it: leave it out");
  }
  if (body["mirostat"] == 1) return bad_field("mirostat", "1 is not supported: 2 is");
  return {};
}

constexpr size_t most_values = 1'000'000; // of a request, each of which takes tens of bytes

// Counts the values of a JSON text, roughly: what begins one stands before it.
size_t values_in(std::string_view text) {
  size_t count = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (c == '\\') ++i; // only in strings
    count += !quoted && (c == ',' || c == '[' || c == '{');
  }
  return count;
}

// Large, and read otherwise.
bool is_content(const std::string& field) {
  constexpr std::array contents = {"messages", "prompt", "input",     "tools", "system",
                                   "image",    "images", "documents", "text"};
  return std::ranges::find(contents, field) != contents.end();
}

Status read_count(const Fields& fields, const char* field, uint32_t least, uint32_t most, uint32_t& value) {
  PUMICE_TRY(value, fields.u32_or(field, least, most, value));
  return {};
}

Status read_form(const RequestBody& body, FormSource& form) {
  PUMICE_CHECK(read_response_format(body["response_format"], "response_format", form));
  PUMICE_TRY(const std::vector<std::string> choices, body.texts("choices"));
  if (!choices.empty()) form.choices = choices;
  PUMICE_TRY(form.regex, body.string_or("regex", form.regex));
  PUMICE_TRY(form.grammar, body.string_or("grammar", form.grammar));
  if (const Json& schema = body["json_schema"]; schema.is_object() || schema.is_boolean()) {
    form.json_schema = schema.dump();
  } else {
    PUMICE_TRY(form.json_schema, body.string_or("json_schema", form.json_schema));
  }
  if (form == FormSource()) return {};
  const Result<form::Grammar> parsed = parse_form(form);
  if (parsed.ok()) return {};
  const char* field = body.has("response_format") ? "response_format"
                      : !form.choices.empty()     ? "choices"
                      : !form.regex.empty()       ? "regex"
                      : !form.grammar.empty()     ? "grammar"
                                                  : "json_schema";
  return bad_field(field, parsed.error().message);
}

// The adapters of --lora by their numbers, as llama.cpp's server has it: [{"id": 0, "scale": 0.5}]. Those
// that are left out are not added.
Status read_adapters(const Json& list, TextModel& model, AdapterChoice& choice) {
  choice = model.usual_adapter();
  if (list.is_null()) return {};
  if (!list.is_array()) return bad_field("lora", "expected a list of objects with an 'id' and a 'scale'");
  std::vector<float> scales(model.adapters().size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json id = list[i].is_object() ? list[i].value("id", Json()) : Json();
    const Json scale = list[i].is_object() ? list[i].value("scale", Json(1)) : Json();
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= scales.size()) {
      return bad_field(
          fmt::format("lora[{}].id", i),
          fmt::format("expected a number below {}: the model has so many adapters (--lora)", scales.size()));
    }
    const std::string field = fmt::format("lora[{}].scale", i);
    if (!scale.is_number()) return bad_field(field, "expected a number");
    const auto value = static_cast<float>(scale.get<double>());
    if (const Status status = check_scale(value); !status.ok())
      return bad_field(field, status.error().message);
    scales[id.get<size_t>()] = value;
  }
  choice = model.adapter(scales);
  return {};
}

} // namespace

Error bad_field(const std::string& field, const std::string& what) {
  return {Code::invalid_argument, fmt::format("{}: {}", request_field(field), what)};
}

Result<RequestBody> RequestBody::read(const HttpRequest& request) {
  if (values_in(request.body) > most_values) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected at most {} values", request_name, most_values)};
  }
  Result<Json> object = parse_ordered_json(request.body, request_name);
  if (!object.ok()) {
    const Error& wrong = object.error();
    return Error{wrong.code == Code::out_of_memory ? wrong.code : Code::invalid_argument, wrong.message};
  }
  if (!object->is_object())
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected a JSON object, found {}", request_name, object->type_name())};
  return RequestBody(*std::move(object));
}

RequestBody::RequestBody(Json object) : object_(std::move(object)), settings_(nlohmann::json::object()) {
  for (const auto& [other, own] : other_names) {
    const auto given = object_.find(other), kept = object_.find(own);
    if (given == object_.end() || (kept != object_.end() && !kept->is_null())) continue;
    Json value = *given;
    object_[own] = std::move(value);
  }
  for (const char* field : {"top_k", "repeat_window"}) { // all, as llama.cpp and Ollama have it
    if (const auto given = object_.find(field); given != object_.end() && *given == -1)
      *given = field == std::string_view("top_k") ? 0u : uint32_t{SAMPLING_RING};
  }
  for (const auto& [field, value] : object_.items()) {
    if (!is_content(field)) settings_[field] = nlohmann::json(value);
  }
}

const Json& RequestBody::operator[](const char* field) const {
  static const Json none;
  const auto found = object_.find(field);
  return found == object_.end() ? none : *found;
}

Result<std::string> RequestBody::string_or(const char* field, const std::string& usual) const {
  const Json& value = (*this)[field];
  if (value.is_null()) return usual;
  if (!value.is_string()) return error(field, fmt::format("expected a string, found {}", value.type_name()));
  return value.get<std::string>();
}

Result<bool> RequestBody::boolean_or(const char* field, bool usual) const {
  const Json& value = (*this)[field];
  if (value.is_null()) return usual;
  if (!value.is_boolean())
    return error(field, fmt::format("expected true or false, found {}", value.type_name()));
  return value.get<bool>();
}

Result<std::vector<std::string>> RequestBody::texts(const char* field) const {
  const Json& value = (*this)[field];
  if (value.is_null()) return std::vector<std::string>();
  if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
  std::vector<std::string> all;
  const bool strings =
      value.is_array() && std::ranges::all_of(value, [](const Json& each) { return each.is_string(); });
  if (!strings) return error(field, "expected a string or a list of strings");
  for (const Json& each : value) all.push_back(each.get<std::string>());
  return all;
}

Error RequestBody::error(const std::string& field, const std::string& what) const {
  return bad_field(field, what);
}

Status read_stops(const RequestBody& body, const char* field, std::vector<std::string>& stops) {
  PUMICE_TRY(stops, body.texts(field));
  if (stops.size() > most_stops)
    return bad_field(field, fmt::format("expected at most {} strings, found {}", most_stops, stops.size()));
  return {};
}

Status read_seed(const RequestBody& body, SamplingParams& sampling) {
  const Json& seed = body["seed"];
  if (seed.is_null() || seed == -1) return {}; // a random one
  constexpr double whole = 1ull << 53;         // numbers from there on are not told apart
  const double value = seed.is_number_float() ? seed.get<double>() : -1;
  const bool is_whole = value >= 0 && value < whole && value == std::floor(value); // 7.0
  if (!seed.is_number_unsigned() && !is_whole)
    return bad_field("seed", "expected a whole number from 0, or -1");
  sampling.seed = is_whole ? static_cast<uint64_t>(value) : seed.get<uint64_t>();
  return {};
}

// {"50256": -100}: at the least of what OpenAI allows, the token is forbidden.
Status read_biases(const RequestBody& body, uint32_t vocabulary, SamplingParams& sampling) {
  constexpr const char* field = "logit_bias";
  const Json& biases = body[field];
  if (biases.is_null()) return {};
  if (!biases.is_object()) return bad_field(field, "expected an object of numbers by the ids of tokens");
  for (const auto& [name, value] : biases.items()) {
    uint32_t token = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), token);
    if (end.ec != std::errc() || end.ptr != name.data() + name.size() || token >= vocabulary) {
      return bad_field(field, fmt::format("'{}' is not the id of a token: expected one below {}",
                                          name.substr(0, 40), vocabulary));
    }
    if (!value.is_number()) return bad_field(field, fmt::format("the value of {} is not a number", name));
    constexpr float least = -100, most = 100;
    const float bias = value.get<float>();
    if (!(bias >= least && bias <= most))
      return bad_field(field, fmt::format("the value of {} is {}: expected -100 to 100", name, bias));
    sampling.logit_biases.push_back({token, bias == least ? -std::numeric_limits<float>::infinity() : bias});
  }
  if (sampling.logit_biases.size() > SAMPLING_BIASES)
    return bad_field(field, fmt::format("expected at most {} tokens", uint32_t{SAMPLING_BIASES}));
  return {};
}

Status read_response_format(const Json& format, const std::string& field, FormSource& form) {
  if (format.is_null()) return {};
  const std::string type = format.is_object() ? format.value("type", Json()).dump() : "";
  if (type == "\"text\"") return {};
  if (type == "\"json_object\"") {
    form.json_schema = R"({"type": "object"})";
    return {};
  }
  if (type != "\"json_schema\"")
    return bad_field(field, "expected an object whose 'type' is text, json_object or json_schema");
  // OpenAI's interfaces have the schema in one place, or in the other.
  const Json inner = format.value("json_schema", format);
  const Json schema = inner.is_object() ? inner.value("schema", Json()) : Json();
  if (!schema.is_object() && !schema.is_boolean())
    return bad_field(field + ".json_schema.schema", "expected a JSON schema");
  form.json_schema = schema.dump();
  return {};
}

Result<TextWish> read_wish(const RequestBody& body, TextModel& model) {
  TextWish wish;
  const Fields fields = body.fields();
  PUMICE_CHECK(refuse_other_sampling(body));
  command::SamplingOptions options = model.sampling();
  if (body.has("dry_sequence_breakers")) {
    PUMICE_TRY(options.dry_breakers, body.texts("dry_sequence_breakers"));
    if (options.dry_breakers.empty()) options.dry_breakers = {"none"};
  }
  PUMICE_CHECK(command::read_sampling_fields(fields, options.params));
  PUMICE_TRY(wish.sampling, options.resolved(*model.tokenizer()));
  PUMICE_CHECK(read_seed(body, wish.sampling));
  PUMICE_CHECK(read_biases(body, model.shape().vocabulary, wish.sampling));
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    if (body[field] == -1) continue; // as many as fit
    PUMICE_CHECK(read_count(fields, field, 1, UINT32_MAX, wish.max_tokens));
  }
  PUMICE_CHECK(read_count(fields, "n", 1, most_texts, wish.count));
  PUMICE_CHECK(read_stops(body, "stop", wish.stops));
  PUMICE_CHECK(read_form(body, wish.form));
  PUMICE_TRY(wish.ignores_ends, body.boolean_or("ignore_eos", false));
  if (body.has("stop_token_ids")) {
    PUMICE_TRY(wish.stop_tokens,
               fields.u32_array_or_empty("stop_token_ids", 0, model.shape().vocabulary - 1));
  }
  PUMICE_CHECK(read_adapters(body["lora"], model, wish.adapter));
  return wish;
}

} // namespace pumice::serve
