#include "api/request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "form/form.h"
#include "kernel/sampling/filter_order.h"
#include "task/generated_text.h"
#include "text/unicode/unicode.h"

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

Result<std::vector<LogitBias>> read_biases(const pumice_sampling& sampling, uint32_t vocabulary,
                                           const std::string& name) {
  const std::string banned = name + "->banned_tokens", biased = name + "->logit_biases";
  PUMICE_CHECK(check_array(sampling.banned_tokens, sampling.banned_token_count, sizeof(uint32_t), banned));
  PUMICE_CHECK(
      check_array(sampling.logit_biases, sampling.logit_bias_count, sizeof(pumice_logit_bias), biased));
  std::vector<LogitBias> biases;
  std::set<uint32_t> different;
  const auto add = [&](uint32_t token, float bias) -> Status {
    different.insert(token);
    biases.push_back({token, bias});
    if (different.size() <= SAMPLING_BIASES) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{} bans and biases more than {} different tokens", name, SAMPLING_BIASES)};
  };
  for (size_t i = 0; i < sampling.banned_token_count; ++i) {
    PUMICE_CHECK(check_token(sampling.banned_tokens[i], vocabulary, element(banned, i)));
    PUMICE_CHECK(add(sampling.banned_tokens[i], -std::numeric_limits<float>::infinity()));
  }
  for (size_t i = 0; i < sampling.logit_bias_count; ++i) {
    const pumice_logit_bias& each = sampling.logit_biases[i];
    PUMICE_CHECK(check_token(each.token, vocabulary, element(biased, i) + ".token"));
    if (std::isnan(each.bias)) {
      return Error{Code::invalid_argument, element(biased, i) + ".bias is not a number"};
    }
    PUMICE_CHECK(add(each.token, each.bias));
  }
  return biases;
}

Result<std::vector<uint32_t>> read_stop_tokens(const pumice_sampling& sampling, uint32_t vocabulary,
                                               std::vector<uint32_t> ends, const std::string& name) {
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  PUMICE_CHECK(
      check_array(sampling.stop_tokens, sampling.stop_token_count, sizeof(uint32_t), name + "->stop_tokens"));
  const size_t model_ends = ends.size();
  for (size_t i = 0; i < sampling.stop_token_count; ++i) {
    const uint32_t token = sampling.stop_tokens[i];
    PUMICE_CHECK(check_token(token, vocabulary, element(name + "->stop_tokens", i)));
    if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
    if (ends.size() <= SAMPLING_STOPS) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{}->stop_token_count is {}: expected at most {}, because {} of the "
                             "{} tokens that can end a text are the model's own",
                             name, sampling.stop_token_count, SAMPLING_STOPS - model_ends, model_ends,
                             SAMPLING_STOPS)};
  }
  return ends;
}

Result<std::vector<std::string>> read_breakers(const pumice_sampling& sampling, const std::string& name) {
  const auto given = std::span(sampling.dry_sequence_breakers, sampling.dry_sequence_breaker_count);
  PUMICE_CHECK(check_array(given.data(), given.size(), sizeof(char*), name + "->dry_sequence_breakers"));
  std::vector<std::string> breakers;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) return null_argument(element(name + "->dry_sequence_breakers", i).c_str());
    breakers.push_back(given[i]);
  }
  return breakers;
}

Result<std::vector<std::string>> read_stops(const pumice_request& request, const Tokenizer* tokenizer,
                                            const Model& model) {
  PUMICE_CHECK(check_count("request.stop_count", request.stop_count, most_stop_strings));
  PUMICE_CHECK(check_array(request.stops, request.stop_count, sizeof(char*), "request.stops"));
  if (request.stop_count) PUMICE_CHECK(require_tokenizer(tokenizer, model));
  std::vector<std::string> stops;
  for (size_t i = 0; i < request.stop_count; ++i) {
    if (!request.stops[i] || !*request.stops[i]) {
      return Error{Code::invalid_argument,
                   fmt::format("request.stops[{}] is {}", i, request.stops[i] ? "empty" : "NULL")};
    }
    stops.push_back(request.stops[i]);
  }
  return stops;
}

Result<TextForm> make_form(const FormSource& source, const RequestReader& reader) {
  if (!has_form(source)) return TextForm();
  Result<std::shared_ptr<Form>> made = Form::create(source, reader.forms->get());
  if (!made.ok()) return Error{made.error().code, "request.form: " + made.error().message};
  return TextForm{*std::move(made)};
}

Status check_chat_fields(const pumice_request& request) {
  for (const auto& [value, name] :
       {std::pair(request.tool_choice, "tool_choice"), {request.prefill, "prefill"}}) {
    if (!value) continue;
    if (!request.chat)
      return Error{Code::invalid_argument,
                   fmt::format("request.{} is for a chat, and request.chat is NULL", name)};
    if (!text::is_valid_utf8(value))
      return Error{Code::invalid_argument, fmt::format("request.{} is not UTF-8", name)};
  }
  return {};
}

// The tokens that a request adds.
Result<std::vector<uint32_t>> read_tokens(const pumice_request& request, const Tokenizer* tokenizer,
                                          const Model& model, size_t conversation, uint32_t context) {
  using Special = Tokenizer::SpecialTokens;
  std::vector<Tokenizer::Part> parts;
  if (request.before) parts.push_back({request.before, Special::recognised});
  if (request.text) parts.push_back({request.text, Special::as_text});
  if (request.after) parts.push_back({request.after, Special::recognised});
  std::vector<uint32_t> tokens;
  if (!parts.empty()) {
    PUMICE_CHECK(require_tokenizer(tokenizer, model));
    tokens = tokenizer->encode(parts, conversation == 0);
  }
  PUMICE_CHECK(check_array(request.tokens, request.token_count, sizeof(uint32_t), "request.tokens"));
  const size_t room = context - std::min<size_t>(conversation + 1, context);
  if (tokens.size() + request.token_count > room) {
    return Error{Code::context_full,
                 fmt::format("the request has {} tokens, and a context of {} has room for {} more and one to "
                             "generate",
                             tokens.size() + request.token_count, context, room)};
  }
  for (size_t i = 0; i < request.token_count; ++i) {
    PUMICE_CHECK(
        check_token(request.tokens[i], model.shape().vocabulary, fmt::format("request.tokens[{}]", i)));
    tokens.push_back(request.tokens[i]);
  }
  if (conversation + tokens.size() == 0) {
    return Error{Code::invalid_argument,
                 "the conversation is empty, and the request adds neither text nor tokens to it"};
  }
  return tokens;
}

// The prompt of a chat, which has to have room for an answer.
Result<ModelChat::Prompt> chat_prompt(const pumice_request& request, const RequestReader& reader,
                                      ModelChat& talk) {
  const std::string prefill = request.prefill ? request.prefill : "";
  Result<ModelChat::Prompt> made = talk.prompt(prefill);
  if (!made.ok() && made.error().code == Code::not_found)
    return Error{Code::not_found,
                 made.error().message + ": give it with pumice_chat_add_picture or pumice_chat_add_sound"};
  PUMICE_TRY(ModelChat::Prompt prompt, std::move(made));
  if (prompt.text.ids.empty()) {
    return Error{Code::invalid_argument,
                 "the template makes nothing of the chat's messages: add a message first"};
  }
  Status room = talk.chat().check_room(prompt.tokens, reader.context, request.max_tokens);
  if (!room.ok() && request.forget) {
    const nlohmann::ordered_json before = talk.messages();
    PUMICE_TRY(ModelChat::Room left, talk.make_room(reader.context, request.max_tokens, prefill));
    talk.forget_media(before);
    prompt = std::move(left.prompt);
    room = std::move(left.now);
  }
  if (room.ok()) return prompt;
  return Error{room.error().code, room.error().message + ": forget the oldest turn (pumice_chat_forget)"};
}

Status read_chat(const pumice_request& request, const RequestReader& reader, TextRequest& result) {
  const bool adds = request.before || request.text || request.after || request.tokens || request.token_count;
  if (adds) {
    return Error{Code::invalid_argument,
                 "the request has a chat, and text or tokens: the chat's messages are "
                 "the whole prompt. Add a message to it"};
  }
  PUMICE_CHECK(result.chat->check_idle());
  if (result.chat->model != reader.model.identity()) {
    return Error{Code::invalid_argument,
                 fmt::format("request.chat was made for another model than {}", reader.model.file().path())};
  }
  PUMICE_TRY(result.prompt, chat_prompt(request, reader, result.chat->talk));
  result.generation.tokens = result.prompt.text.ids;
  result.generation.tokens.resize(result.prompt.tokens);
  result.generation.new_conversation = true;
  return {};
}

} // namespace

Result<SamplingParams> read_sampling(const pumice_sampling& sampling, uint32_t vocabulary,
                                     const Tokenizer* tokenizer, std::vector<uint32_t> ends,
                                     const std::string& name) {
  SamplingParams params;
#define OPTION(field, type, standard, least, most, ...)                                                      \
  if (sampling.field != 0) {                                                                                 \
    PUMICE_CHECK(check_range<type>(name + "->" #field, sampling.field, least, most));                        \
    params.field = sampling.field;                                                                           \
  }
#include "kernel/sampling_options.def"
  params.seed = sampling.seed;
  PUMICE_CHECK(check_count(name + "->log_probabilities", sampling.log_probabilities, SAMPLING_TOP));
  params.log_probabilities = static_cast<uint32_t>(sampling.log_probabilities);
  PUMICE_TRY(params.logit_biases, read_biases(sampling, vocabulary, name));
  PUMICE_TRY(params.stop_tokens, read_stop_tokens(sampling, vocabulary, std::move(ends), name));
  PUMICE_TRY(const std::vector<std::string> breakers, read_breakers(sampling, name));
  PUMICE_CHECK(set_dry_breakers(params, breakers, tokenizer));
  if (sampling.samplers) {
    const Result<uint32_t> order = filter_order(std::string(sampling.samplers));
    if (!order.ok())
      return Error{order.error().code, fmt::format("{}->samplers: {}", name, order.error().message)};
    params.order = *order;
  }
  return params;
}

Result<FormSource> read_form(const pumice_form* given, const std::string& name) {
  FormSource source;
  if (!given) return source;
  PUMICE_TRY(const pumice_form form, read(given, name.c_str()));
  PUMICE_CHECK(check_array(form.choices, form.choice_count, sizeof(char*), name + "->choices"));
  for (size_t i = 0; i < form.choice_count; ++i) {
    if (!form.choices[i])
      return Error{Code::invalid_argument, fmt::format("{}->choices[{}] is NULL", name, i)};
    source.choices.emplace_back(form.choices[i]);
  }
  if (form.regex) source.regex = form.regex;
  if (form.json_schema) source.json_schema = form.json_schema;
  if (form.grammar) source.grammar = form.grammar;
  if (const Result<form::Grammar> parsed = parse_form(source); !parsed.ok())
    return Error{parsed.error().code, name + ": " + parsed.error().message};
  return source;
}

Status TextRequest::put_pictures() {
  if (prompt.media.empty()) return {};
  PUMICE_TRY(PicturePrompt made, chat->talk.with_rows(prompt));
  generation.tokens = std::move(made.tokens);
  generation.embeddings = std::move(made.embeddings);
  return {};
}

namespace {

Result<AdapterChoice> read_adapter(const pumice_request& request, const RequestReader& reader) {
  if (!request.adapter) return AdapterChoice();
  PUMICE_CHECK(check_live(request.adapter, "request.adapter"));
  if (request.adapter->list.get() != reader.adapters)
    return Error{Code::invalid_argument, "request.adapter is another model's"};
  const float scale = request.adapter_scale == 0 ? 1 : request.adapter_scale;
  if (const Status status = check_scale(scale); !status.ok())
    return Error{Code::invalid_argument, "request.adapter_scale: " + status.error().message};
  return AdapterChoice{request.adapter->adapter, scale * request.adapter->scale};
}

} // namespace

Result<TextRequest> read_request(const pumice_request& request, const RequestReader& reader,
                                 size_t conversation) {
  TextRequest result;
  GenerationRequest& generation = result.generation;
  std::vector<uint32_t> ends;
  if (request.chat) {
    PUMICE_CHECK(check_live(request.chat, "request.chat"));
    result.chat = request.chat->shared;
    if (!request.ignore_end)
      ends.assign(result.chat->talk.chat().ends().begin(), result.chat->talk.chat().ends().end());
  } else {
    generation.new_conversation = request.new_conversation;
    PUMICE_TRY(generation.tokens, read_tokens(request, reader.tokenizer, reader.model,
                                              request.new_conversation ? 0 : conversation, reader.context));
    if (!request.ignore_end) ends = reader.ends;
  }
  if (request.max_tokens) generation.max_tokens = request.max_tokens;
  PUMICE_TRY(const pumice_sampling sampling, read(request.sampling, "request.sampling"));
  PUMICE_TRY(generation.sampling, read_sampling(sampling, reader.model.shape().vocabulary, reader.tokenizer,
                                                std::move(ends), "request.sampling"));
  PUMICE_TRY(result.stops, read_stops(request, reader.tokenizer, reader.model));
  PUMICE_CHECK(check_chat_fields(request));
  PUMICE_TRY(generation.adapter, read_adapter(request, reader));
  if (request.form) PUMICE_CHECK(require_tokenizer(reader.tokenizer, reader.model));
  PUMICE_TRY(FormSource form, read_form(request.form, "request.form"));
  if (result.chat) {
    PUMICE_CHECK(read_chat(request, reader, result)); // last: it may forget turns
    const AnswerOptions answer{std::move(form), request.tool_choice ? request.tool_choice : "auto"};
    Result<TextForm> made = result.chat->talk.form_of_answer(answer, result.prompt, *reader.forms);
    if (!made.ok()) return Error{made.error().code, "request: " + made.error().message};
    generation.form = *std::move(made);
  } else {
    PUMICE_TRY(generation.form, make_form(form, reader));
  }
  return result;
}

} // namespace pumice::api

extern "C" pumice_status pumice_sampling_usual(pumice_sampling* sampling, pumice_error* error) {
  using namespace pumice;
  return api::call(error, [&]() -> Status {
    PUMICE_REQUIRE(sampling);
    const SamplingParams usual = usual_sampling();
    pumice_sampling result = {sizeof result};
    result.temperature = usual.temperature;
    result.top_k = usual.top_k;
    result.top_p = usual.top_p;
    result.min_p = usual.min_p;
    return api::write(result, sampling, "sampling");
  });
}
