#include "api/request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "task/generated_text.h"

namespace pumice::api {

namespace {

constexpr size_t most_stop_strings = 64;

template <class Number>
Status check_range(const std::string& name, Number found, Number least, Number most) {
  if (found >= least && found <= most) return {}; // false for a NaN
  return Error{Code::invalid_argument, fmt::format("{} is {}: expected {} to {}", name, found, least, most)};
}

Status check_count(const std::string& name, size_t found, size_t most) {
  if (found <= most) return {};
  return Error{Code::invalid_argument, fmt::format("{} is {}: expected at most {}", name, found, most)};
}

std::string element(const std::string& array, size_t index) {
  return fmt::format("{}[{}]", array, index);
}

Result<std::vector<LogitBias>> read_biases(const pumice_sampling& given, uint32_t vocabulary,
                                           const std::string& name) {
  const std::string banned = name + "->banned_tokens", biased = name + "->logit_biases";
  PUMICE_CHECK(check_array(given.banned_tokens, given.banned_token_count, sizeof(uint32_t), banned));
  PUMICE_CHECK(check_array(given.logit_biases, given.logit_bias_count, sizeof(pumice_logit_bias), biased));
  std::vector<LogitBias> biases;
  std::set<uint32_t> different;
  const auto add = [&](uint32_t token, float bias) -> Status {
    different.insert(token);
    biases.push_back({token, bias});
    if (different.size() <= SAMPLING_BIASES) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{} bans and biases more than {} different tokens", name, SAMPLING_BIASES)};
  };
  for (size_t i = 0; i < given.banned_token_count; ++i) {
    PUMICE_CHECK(check_token(given.banned_tokens[i], vocabulary, element(banned, i)));
    PUMICE_CHECK(add(given.banned_tokens[i], -std::numeric_limits<float>::infinity()));
  }
  for (size_t i = 0; i < given.logit_bias_count; ++i) {
    const pumice_logit_bias& each = given.logit_biases[i];
    PUMICE_CHECK(check_token(each.token, vocabulary, element(biased, i) + ".token"));
    if (std::isnan(each.bias)) {
      return Error{Code::invalid_argument, element(biased, i) + ".bias is not a number"};
    }
    PUMICE_CHECK(add(each.token, each.bias));
  }
  return biases;
}

Result<std::vector<uint32_t>> read_stop_tokens(const pumice_sampling& given, uint32_t vocabulary,
                                               std::vector<uint32_t> ends, const std::string& name) {
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  PUMICE_CHECK(
      check_array(given.stop_tokens, given.stop_token_count, sizeof(uint32_t), name + "->stop_tokens"));
  const size_t own = ends.size();
  for (size_t i = 0; i < given.stop_token_count; ++i) {
    const uint32_t token = given.stop_tokens[i];
    PUMICE_CHECK(check_token(token, vocabulary, element(name + "->stop_tokens", i)));
    if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
    if (ends.size() <= SAMPLING_STOPS) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{}->stop_token_count is {}: expected at most {}, because {} of the "
                             "{} tokens that can end a text are the model's own",
                             name, given.stop_token_count, SAMPLING_STOPS - own, own, SAMPLING_STOPS)};
  }
  return ends;
}

Result<std::vector<std::string>> read_stops(const pumice_request& given, const Tokenizer* tokenizer,
                                            const Model& model) {
  PUMICE_CHECK(check_count("request.stop_count", given.stop_count, most_stop_strings));
  PUMICE_CHECK(check_array(given.stops, given.stop_count, sizeof(char*), "request.stops"));
  if (given.stop_count) PUMICE_CHECK(require_tokenizer(tokenizer, model));
  std::vector<std::string> stops;
  for (size_t i = 0; i < given.stop_count; ++i) {
    if (!given.stops[i] || !*given.stops[i]) {
      return Error{Code::invalid_argument,
                   fmt::format("request.stops[{}] is {}", i, given.stops[i] ? "empty" : "NULL")};
    }
    stops.push_back(given.stops[i]);
  }
  return stops;
}

// The tokens that a request adds.
Result<std::vector<uint32_t>> read_tokens(const pumice_request& given, const Tokenizer* tokenizer,
                                          const Model& model, size_t conversation, uint32_t context) {
  using Special = Tokenizer::SpecialTokens;
  std::vector<Tokenizer::Part> parts;
  if (given.before) parts.push_back({given.before, Special::recognised});
  if (given.text) parts.push_back({given.text, Special::as_text});
  if (given.after) parts.push_back({given.after, Special::recognised});
  std::vector<uint32_t> tokens;
  if (!parts.empty()) {
    PUMICE_CHECK(require_tokenizer(tokenizer, model));
    tokens = tokenizer->encode(parts, conversation == 0);
  }
  PUMICE_CHECK(check_array(given.tokens, given.token_count, sizeof(uint32_t), "request.tokens"));
  const size_t room = context - std::min<size_t>(conversation + 1, context);
  if (tokens.size() + given.token_count > room) {
    return Error{Code::context_full,
                 fmt::format("the request has {} tokens, and a context of {} has room for {} more and one to "
                             "generate",
                             tokens.size() + given.token_count, context, room)};
  }
  for (size_t i = 0; i < given.token_count; ++i) {
    PUMICE_CHECK(
        check_token(given.tokens[i], model.shape().vocabulary, fmt::format("request.tokens[{}]", i)));
    tokens.push_back(given.tokens[i]);
  }
  if (conversation + tokens.size() == 0) {
    return Error{Code::invalid_argument,
                 "the conversation is empty, and the request adds neither text nor tokens to it"};
  }
  return tokens;
}

// The prompt of a chat, which has to have room for an answer.
Result<ModelChat::Prompt> chat_prompt(const pumice_request& given, const RequestReader& reader,
                                      ModelChat& talk) {
  Result<ModelChat::Prompt> made = talk.prompt();
  if (!made.ok() && made.error().code == Code::not_found)
    return Error{Code::not_found, made.error().message + ": give it with pumice_chat_add_picture"};
  PUMICE_TRY(ModelChat::Prompt prompt, std::move(made));
  if (prompt.text.ids.empty()) {
    return Error{Code::invalid_argument,
                 "the template makes nothing of the chat's messages: add a message first"};
  }
  Status room = talk.chat().check_room(prompt.tokens, reader.context, given.max_tokens);
  if (!room.ok() && given.forget) {
    const nlohmann::ordered_json before = talk.messages();
    PUMICE_TRY(ModelChat::Room left, talk.make_room(reader.context, given.max_tokens));
    talk.forget_pictures(before);
    prompt = std::move(left.prompt);
    room = std::move(left.now);
  }
  if (room.ok()) return prompt;
  return Error{room.error().code, room.error().message + ": forget the oldest turn (pumice_chat_forget)"};
}

Status read_chat(const pumice_request& given, const RequestReader& reader, TextRequest& request) {
  const bool adds = given.before || given.text || given.after || given.tokens || given.token_count;
  if (adds) {
    return Error{Code::invalid_argument,
                 "the request has a chat, and text or tokens: the chat's messages are "
                 "the whole prompt. Add a message to it"};
  }
  PUMICE_CHECK(request.chat->check_idle());
  if (request.chat->model != reader.model.identity()) {
    return Error{Code::invalid_argument,
                 fmt::format("request.chat was made for another model than {}", reader.model.file().path())};
  }
  PUMICE_TRY(request.prompt, chat_prompt(given, reader, request.chat->talk));
  request.generation.tokens = request.prompt.text.ids;
  request.generation.tokens.resize(request.prompt.tokens);
  request.generation.new_conversation = true;
  return {};
}

} // namespace

Result<SamplingParams> read_sampling(const pumice_sampling& given, uint32_t vocabulary,
                                     std::vector<uint32_t> ends, const std::string& name) {
  SamplingParams params;
#define OPTION(field, type, standard, least, most, ...)                                                      \
  if (given.field != 0) {                                                                                    \
    PUMICE_CHECK(check_range<type>(name + "->" #field, given.field, least, most));                           \
    params.field = given.field;                                                                              \
  }
#include "kernel/sampling_options.def"
  params.seed = given.seed;
  PUMICE_CHECK(check_count(name + "->log_probabilities", given.log_probabilities, SAMPLING_TOP));
  params.log_probabilities = static_cast<uint32_t>(given.log_probabilities);
  PUMICE_TRY(params.logit_biases, read_biases(given, vocabulary, name));
  PUMICE_TRY(params.stop_tokens, read_stop_tokens(given, vocabulary, std::move(ends), name));
  return params;
}

Status TextRequest::put_pictures() {
  if (prompt.pictures.empty()) return {};
  PUMICE_TRY(PicturePrompt made, chat->talk.with_rows(prompt));
  generation.tokens = std::move(made.tokens);
  generation.given = std::move(made.given);
  return {};
}

Result<TextRequest> read_request(const pumice_request& given, const RequestReader& reader,
                                 size_t conversation) {
  TextRequest request;
  GenerationRequest& generation = request.generation;
  std::vector<uint32_t> ends;
  if (given.chat) {
    request.chat = given.chat->shared;
    if (!given.ignore_end)
      ends.assign(request.chat->talk.chat().ends().begin(), request.chat->talk.chat().ends().end());
  } else {
    generation.new_conversation = given.new_conversation;
    PUMICE_TRY(generation.tokens, read_tokens(given, reader.tokenizer, reader.model,
                                              given.new_conversation ? 0 : conversation, reader.context));
    if (!given.ignore_end) ends = reader.ends;
  }
  if (given.max_tokens) generation.max_tokens = given.max_tokens;
  PUMICE_TRY(const pumice_sampling sampling, read(given.sampling, "request.sampling"));
  PUMICE_TRY(generation.sampling,
             read_sampling(sampling, reader.model.shape().vocabulary, std::move(ends), "request.sampling"));
  PUMICE_TRY(request.stops, read_stops(given, reader.tokenizer, reader.model));
  if (request.chat) PUMICE_CHECK(read_chat(given, reader, request)); // last: it may forget turns
  return request;
}

} // namespace pumice::api

extern "C" pumice_status pumice_sampling_usual(pumice_sampling* sampling, pumice_error* error) {
  using namespace pumice;
  return api::call(error, [&]() -> Status {
    PUMICE_REQUIRE(sampling);
    const SamplingParams usual = usual_sampling();
    pumice_sampling own = {sizeof own};
    own.temperature = usual.temperature;
    own.top_k = usual.top_k;
    own.top_p = usual.top_p;
    own.min_p = usual.min_p;
    return api::write(own, sampling, "sampling");
  });
}
