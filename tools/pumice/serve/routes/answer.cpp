#include <random>

#include <fmt/format.h>

#include "base/guarded.h"
#include "serve/routes/service.h"
#include "terminal/terminal.h"

namespace pumice::serve {

namespace {

struct Route {
  const char *method, *path;
  Status (*function)(Service&, Exchange&);
};

constexpr Route routes[] = {
    {"GET", "/", page},
    {"GET", "/health", health},
    {"GET", "/metrics", metrics},
    {"GET", "/slots", slots},
    {"GET", "/openapi.json", document},
    {"GET", "/v1/models", list_models},
    {"GET", "/v1/models/", show_model}, // and all below
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/v1/completions", completions},
    {"POST", "/v1/responses", responses},
    {"POST", "/v1/embeddings", embeddings},
    {"POST", "/v1/rerank", rerank}, // as Jina has it
    {"POST", "/v2/rerank", rerank}, // as Cohere has it
    {"POST", "/search", search},
    {"POST", "/v1/messages", anthropic_messages},
    {"POST", "/v1/messages/count_tokens", anthropic_count},
    {"POST", "/v1/audio/transcriptions", audio_transcriptions},
    {"POST", "/v1/audio/translations", audio_translations},
    {"POST", "/v1/audio/speech", audio_speech},
    {"POST", "/translate", translate},
    {"POST", "/classify", classify},
    {"POST", "/caption", caption},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/api/chat", ollama_chat},
    {"POST", "/api/generate", ollama_generate},
    {"POST", "/api/embed", ollama_embed},
    {"GET", "/api/tags", ollama_tags},
    {"GET", "/api/ps", ollama_ps},
    {"POST", "/api/show", ollama_show},
    {"GET", "/api/version", ollama_version},
};

bool has_path(const Route& route, std::string_view path) {
  const std::string_view own = route.path;
  return path == own || (own.size() > 1 && own.ends_with('/') && path.starts_with(own));
}

// Remembers the status of an answer.
class CountedExchange : public Exchange {
public:
  explicit CountedExchange(Exchange& exchange) : exchange_(exchange) {}

  const HttpRequest& request() const override { return exchange_.request(); }
  bool gone() const override { return exchange_.gone(); }
  void when_gone(std::function<void()> call) override { exchange_.when_gone(std::move(call)); }
  void answer(int code, std::string_view type, std::string body, const HttpHeaders& headers = {}) override {
    status = code;
    exchange_.answer(code, type, std::move(body), headers);
  }
  void begin(int code, std::string_view type) override {
    status = code;
    exchange_.begin(code, type);
  }
  bool write(std::string_view piece) override { return exchange_.write(piece); }
  bool begun() const override { return exchange_.begun(); }
  void show_life(std::string_view type, std::string sign) override {
    exchange_.show_life(type, std::move(sign));
  }
  void show_no_life() override {
    exchange_.show_no_life();
    if (status == 0 && begun()) status = 200;
  }
  void cut() override { exchange_.cut(); }
  void failed(const Error& error) override {
    if (!gone()) status = status_of(error);
  }

  int status = 0;

private:
  Exchange& exchange_;
};

void answer_error_as_asked(Exchange& exchange, const Error& error) {
  exchange.show_no_life();
  const int status = status_of(error);
  const bool lines = exchange.request().path.starts_with("/api/");
  const std::string line = lines ? text_of({{"error", error.text()}}) + "\n" : "";
  if (exchange.begun()) { // a stream, such as one that waited for its model
    exchange.failed(error);
    exchange.write(lines ? line : fmt::format("event: error\ndata: {}\n", error_body(status, error.text())));
  } else if (lines) {
    exchange.answer(status, "application/json", line);
  } else {
    answer_error(exchange, error);
  }
}

} // namespace

void answer(Service& service, Exchange& exchange) {
  const command::Stopwatch watch;
  CountedExchange counted(exchange);
  const HttpRequest& request = exchange.request();
  const Route* found = nullptr;
  std::string allowed; // methods of the path
  for (const Route& each : routes) {
    if (!has_path(each, request.path)) continue;
    const bool head = request.method == "HEAD" && each.method == std::string_view("GET");
    if (request.method == each.method || head) found = &each;
    allowed = each.method == std::string_view("GET") ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  }
  if (request.method == "OPTIONS") {
    counted.answer(200, "", "",
                   {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                    {"Access-Control-Allow-Headers",
                     "authorization, *"}, // clients' libraries have many; the first one is not in *
                    {"Access-Control-Max-Age", "600"}});
  } else if (!found) {
    const bool there = !allowed.empty();
    const int status = there ? 405 : 404;
    HttpHeaders headers;
    if (there) headers.emplace_back("Allow", allowed);
    counted.answer(status, "application/json",
                   error_body(status, there ? "the path is there with another method"
                                            : "there is no such path on this server"),
                   headers);
  } else {
    const Status status = guarded([&] { return found->function(service, counted); });
    if (!status.ok()) answer_error_as_asked(counted, status.error());
  }
  service.count(found ? found->path : "other", counted.status);
  command::print_detail(fmt::format("{} {} {} {:.3f} s{}", found ? request.method : "-",
                                    found ? found->path : "unknown path", counted.status, watch.seconds(),
                                    exchange.gone() ? ", the client was gone" : ""));
}

void count_tokens(const Exchange& exchange, uint64_t tokens) {
  if (exchange.request().key) exchange.request().key->add_tokens(tokens);
}

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void answer_json(Exchange& exchange, const Json& value) {
  exchange.answer(200, "application/json", text_of(value) + "\n");
}

std::string new_id(const char* beginning) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", beginning, random(), random(), random());
}

void show_events_live(Exchange& exchange) {
  const bool pings = exchange.request().path == "/v1/messages"; // as its clients expect it
  exchange.show_life("text/event-stream",
                     pings ? "event: ping\ndata: {\"type\": \"ping\"}\n\n" : ": still there\n\n");
}

Result<UsedModel> find_model(Service& service, Exchange& exchange, const RequestBody& body,
                             ServedKind::Use use) {
  PUMICE_TRY(const std::string name, body.string_or("model", ""));
  const std::string& path = exchange.request().path;
  const bool events = path == "/v1/chat/completions" || path == "/v1/completions" ||
                      path == "/v1/responses" || path == "/v1/messages";
  if (events && body["stream"] == true) show_events_live(exchange);
  return find_model(service, exchange, name, use);
}

Result<UsedModel> find_model(Service& service, Exchange& exchange, const std::string& name,
                             ServedKind::Use use) {
  return service.models.find(name, use, [&] { return !exchange.gone(); });
}

} // namespace pumice::serve
