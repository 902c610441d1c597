#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "serve/http/error.h"
#include "serve/http/exchange.h"
#include "serve/models/served_models.h"
#include "serve/routes/request_body.h"
#include "serve/routes/slots.h"

namespace pumice::serve {

// What the routes answer from.
struct Service {
  Service(const command::OpenedDevice& device, const ModelOptions& options, ServedModels::Limits limits)
      : models(device, options, limits) {}

  ServedModels models;
  Slots slots;
  std::atomic<bool> draining = false;
  std::function<uint32_t()> connections = [] { return 0u; };

  // Answers by route and status, for /metrics.
  void count(const std::string& route, int status) {
    const std::lock_guard lock(mutex);
    ++answers[{route, status}];
  }
  std::mutex mutex;
  std::map<std::pair<std::string, int>, uint64_t> answers;
};

// Each answers one route, and returns what is wrong with the request.
Status chat_completions(Service& service, Exchange& exchange);
Status responses(Service& service, Exchange& exchange);
Status completions(Service& service, Exchange& exchange);
Status list_models(Service& service, Exchange& exchange);
Status show_model(Service& service, Exchange& exchange);
Status embeddings(Service& service, Exchange& exchange);
Status rerank(Service& service, Exchange& exchange);
Status search(Service& service, Exchange& exchange);
Status translate(Service& service, Exchange& exchange);
Status classify(Service& service, Exchange& exchange);
Status caption(Service& service, Exchange& exchange);
Status audio_transcriptions(Service& service, Exchange& exchange);
Status audio_translations(Service& service, Exchange& exchange);
Status audio_speech(Service& service, Exchange& exchange);
Status tokenize(Service& service, Exchange& exchange);
Status detokenize(Service& service, Exchange& exchange);
Status slots(Service& service, Exchange& exchange);
Status health(Service& service, Exchange& exchange);
Status metrics(Service& service, Exchange& exchange);
Status page(Service& service, Exchange& exchange);
Status document(Service& service, Exchange& exchange);
Status anthropic_messages(Service& service, Exchange& exchange);
Status anthropic_count(Service& service, Exchange& exchange);
Status ollama_chat(Service& service, Exchange& exchange);
Status ollama_generate(Service& service, Exchange& exchange);
Status ollama_embed(Service& service, Exchange& exchange);
Status ollama_tags(Service& service, Exchange& exchange);
Status ollama_ps(Service& service, Exchange& exchange);
Status ollama_show(Service& service, Exchange& exchange);
Status ollama_version(Service& service, Exchange& exchange);

// Answers a request by its route.
void answer(Service& service, Exchange& exchange);

// Counts the tokens of a request for its key.
void count_tokens(const Exchange& exchange, uint64_t tokens);
// The JSON of an answer. What is no UTF-8 is replaced.
std::string text_of(const Json& value);
void answer_json(Exchange& exchange, const Json& value);
// An id of an answer: "chatcmpl-" and random digits.
std::string new_id(const char* beginning);
// A stream of events hears from now on that the server is there, whatever it waits for.
void show_events_live(Exchange& exchange);
// The model that a request names, once it is loaded. Streams of OpenAI's and Anthropic's interfaces of texts
// then show life.
Result<UsedModel> find_model(Service& service, Exchange& exchange, const RequestBody& body,
                             ServedKind::Use use);
Result<UsedModel> find_model(Service& service, Exchange& exchange, const std::string& name,
                             ServedKind::Use use);
// Whether Ollama's "keep_alive" lets the model go after the answer: 0, "0", "0s". Other times are the
// server's.
bool lets_go(const RequestBody& body);

} // namespace pumice::serve
