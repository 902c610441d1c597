#include <deque>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "api/handles.h"
#include "api/slice.h"
#include "model/vocabulary.h"
#include "text/continued_text.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_session {
  std::unique_ptr<Session> session;
  std::shared_ptr<const Tokenizer> tokenizer;
  pumice_event_function on_event = nullptr;
  void* user = nullptr;

  struct Event {
    pumice_event event;
    std::string text;
  };
  std::optional<ContinuedText> text; // of what is being generated
  uint32_t position = 0;             // of the next token
  std::deque<Event> events;          // not polled yet
  Event polled = {};                 // its text must stay valid for the caller

  // Delivers new tokens as events.
  void deliver() {
    while (const std::optional<BatchToken> token = session->take()) {
      if (token->finish_reason != FinishReason::stop) {
        emit(PUMICE_EVENT_TOKEN, token->token, PUMICE_FINISH_NONE, text ? text->push(token->token) : "");
      }
      ++position;
      if (token->finish_reason != FinishReason::none)
        end(static_cast<pumice_finish_reason>(token->finish_reason));
    }
  }
  void end(pumice_finish_reason finish_reason) {
    emit(PUMICE_EVENT_END, 0, finish_reason, text ? text->flush() : "");
  }

  // Delivers the events of a call of the session, and then returns its result.
  Status after(Status status) {
    deliver();
    if (!status.ok() && status.error().code == Code::cancelled) end(PUMICE_FINISH_CANCELLED);
    return status;
  }

private:
  void emit(pumice_event_type type, uint32_t token, pumice_finish_reason finish_reason, std::string added) {
    Event event{{type, token, position, finish_reason, ""}, std::move(added)};
    if (!on_event) {
      events.push_back(std::move(event));
      return;
    }
    event.event.text = event.text.c_str();
    on_event(user, &event.event);
  }
};

static_assert(static_cast<int>(FinishReason::stop) == PUMICE_FINISH_STOP &&
              static_cast<int>(FinishReason::length) == PUMICE_FINISH_LENGTH &&
              static_cast<int>(FinishReason::context) == PUMICE_FINISH_CONTEXT);

namespace {

SamplingParams sampling_of(const pumice_sampling& given) {
  SamplingParams params;
#define OPTION(field, ...)                                                                                   \
  if (given.field != 0) params.field = given.field;
#include "kernel/sampling_options.def"
  params.seed = given.seed;
  if (given.stop_tokens) {
    params.stop_tokens.assign(given.stop_tokens, given.stop_tokens + given.stop_token_count);
  }
  for (size_t i = 0; i < given.banned_token_count && given.banned_tokens; ++i) {
    params.logit_biases.push_back({given.banned_tokens[i], -std::numeric_limits<float>::infinity()});
  }
  return params;
}

Result<GenerationRequest> request_of(const pumice_session& session, const pumice_request& given) {
  const Model& model = *session.session->model();
  GenerationRequest request;
  request.anew = given.anew;
  if (given.text) {
    PUMICE_TRY(const Tokenizer* tokenizer, require_tokenizer(session.tokenizer, model));
    request.tokens = tokenizer->encode(given.text, given.anew || session.session->tokens().empty());
  }
  if (given.token_count && !given.tokens) return null_argument("request.tokens");
  request.tokens.insert(request.tokens.end(), given.tokens, given.tokens + given.token_count);
  if (given.max_tokens) request.max_tokens = given.max_tokens;
  PUMICE_TRY(const pumice_sampling sampling, read(given.sampling, "request.sampling"));
  request.sampling = sampling_of(sampling);
  if (!given.ignore_end) {
    const std::vector<uint32_t> ends = end_tokens(model.file(), session.tokenizer.get());
    std::vector<uint32_t>& stops = request.sampling.stop_tokens;
    stops.insert(stops.end(), ends.begin(), ends.end());
  }
  return request;
}

// The text that continues the conversation.
void begin_text(pumice_session& session) {
  const std::span<const uint32_t> tokens = session.session->tokens();
  session.position = static_cast<uint32_t>(tokens.size());
  session.text.reset();
  if (session.tokenizer) session.text.emplace(session.tokenizer, tokens);
}

} // namespace

Result<SessionOptions> pumice::api::session_options(const pumice_session_options& given,
                                                    const ModelShape& shape) {
  SessionOptions options;
  options.size.context = given.context;
  if (given.chunk) options.size.chunk = given.chunk;
  switch (given.cache) {
  case PUMICE_CACHE_F16:
    options.size.cache = CacheType::f16;
    break;
  case PUMICE_CACHE_F32:
    options.size.cache = CacheType::f32;
    break;
  case PUMICE_CACHE_Q8_0:
    options.size.cache = CacheType::q8_0;
    break;
  default:
    return Error{Code::invalid_argument,
                 fmt::format("options.cache: expected one of pumice_cache_type, found {}",
                             static_cast<int>(given.cache))};
  }
  PUMICE_CHECK(check_buffer(given.logits, uint64_t{shape.vocabulary} * 4, "options.logits"));
  options.logits = external_buffer(given.logits);
  options.preparation = given.warm_up ? Preparation::warmed_up : Preparation::compiled;
  options.interruptible = true;
  return options;
}

extern "C" {

pumice_status pumice_session_create(pumice_model* model, const pumice_session_options* options,
                                    pumice_session** session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(session);
    *session = nullptr;
    const Model& own = *model->model;
    if (!own.shape().has_decoder() || own.shape().encoder) {
      return Error{Code::unsupported,
                   fmt::format("{}: a model of the architecture '{}' has {}: expected a decoder alone",
                               own.file().path(), model->architecture,
                               own.shape().has_decoder() ? "an encoder beside its decoder" : "no decoder")};
    }
    PUMICE_TRY(const pumice_session_options given, read(options, "options"));
    PUMICE_TRY(const SessionOptions made, session_options(given, own.shape()));
    auto handle = std::make_unique<pumice_session>();
    PUMICE_TRY(handle->session, Session::create(model->model, made));
    handle->tokenizer = model->tokenizer;
    handle->on_event = given.on_event;
    handle->user = given.user;
    *session = handle.release();
    return {};
  });
}

void pumice_session_destroy(pumice_session* session) {
  delete session;
}

pumice_status pumice_generate(pumice_session* session, const pumice_request* request, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_TRY(const pumice_request given, read(request, "request"));
    PUMICE_TRY(GenerationRequest own, request_of(*session, given));
    PUMICE_CHECK(session->session->begin(std::move(own)));
    session->events.clear();
    begin_text(*session);
    return {};
  });
}

pumice_status pumice_run(pumice_session* session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    do {
      PUMICE_CHECK(session->after(session->session->step()));
    } while (session->session->active());
    return {};
  });
}

bool pumice_poll(pumice_session* session, pumice_event* event) {
  if (!session || !event || session->events.empty()) return false;
  session->polled = std::move(session->events.front());
  session->events.pop_front();
  *event = session->polled.event;
  event->text = session->polled.text.c_str();
  return true;
}

pumice_status pumice_advance(pumice_session* session, float budget_us, const pumice_sync* sync,
                             pumice_slice* slice, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_TRY(const double budget, read_budget(budget_us));
    PUMICE_TRY(const Sync semaphores, Sync::read(sync));
    const Result<SliceResult> result = session->session->advance(budget, semaphores.spans());
    PUMICE_CHECK(session->after(result.ok() ? Status() : Status(result.error())));
    return write_slice(*result, slice);
  });
}

pumice_status pumice_record(pumice_session* session, VkCommandBuffer command_buffer, float budget_us,
                            pumice_slice* slice, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_REQUIRE(command_buffer);
    PUMICE_TRY(const double budget, read_budget(budget_us));
    const Result<SliceResult> result = session->session->record(command_buffer, budget);
    PUMICE_CHECK(session->after(result.ok() ? Status() : Status(result.error())));
    return write_slice(*result, slice);
  });
}

pumice_status pumice_discard(pumice_session* session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    return session->after(session->session->discard());
  });
}

void pumice_session_cancel(pumice_session* session) {
  if (session) session->session->cancel();
}

pumice_status pumice_session_tokens(const pumice_session* session, uint32_t* tokens, size_t capacity,
                                    size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    const std::span<const uint32_t> all = session->session->tokens();
    hand_out(all.data(), all.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_session_save(pumice_session* session, const char* path, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_REQUIRE(path);
    return session->after(session->session->save(path_of(path)));
  });
}

pumice_status pumice_session_restore(pumice_session* session, const char* path, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_REQUIRE(path);
    PUMICE_CHECK(session->session->restore(path_of(path)));
    session->events.clear();
    begin_text(*session);
    return {};
  });
}

pumice_status pumice_session_suspend(pumice_session* session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    return session->after(session->session->suspend());
  });
}

pumice_status pumice_session_resume(pumice_session* session, pumice_model* model, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_REQUIRE(model);
    return session->session->resume(model->model);
  });
}

} // extern "C"
