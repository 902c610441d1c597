#include <fmt/format.h>

#include "api/background.h"
#include "api/events.h"
#include "api/exclusive.h"
#include "api/handles.h"
#include "api/request.h"
#include "api/slice.h"
#include "api/tune.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_session {
  static constexpr const char* name = "session";
  static constexpr const char* callback = "on_event";

  std::unique_ptr<Session> session;
  std::shared_ptr<const Tokenizer> tokenizer;
  Events events;
  pumice_session_options options = {};
  std::vector<uint32_t> ends; // tokens that end a text of the model
  uint32_t context = 0;
  Use use;

  // Makes events of new tokens.
  void deliver() {
    while (const std::optional<BatchToken> token = session->take()) {
      if (!events.token(*token)) {
        session->end_at(events.position());
        events.end(PUMICE_FINISH_STOP);
      } else if (token->finish_reason != FinishReason::none) {
        events.end(static_cast<pumice_finish_reason>(token->finish_reason));
      }
    }
  }

  // Delivers the events of a call of the session, and then returns its result.
  Status after(Status status) {
    deliver();
    if (!status.ok() && status.error().code == Code::cancelled) events.end(PUMICE_FINISH_CANCELLED);
    if (!session->active()) events.abandon();
    return status;
  }

  // The same for a slice. A stop string may have ended the text.
  Result<SliceResult> after_slice(const Result<SliceResult>& result) {
    PUMICE_CHECK(after(result.ok() ? Status() : Status(result.error())));
    SliceResult own = *result;
    own.active = session->active();
    return own;
  }

  // The conversation is another one from now on.
  void begin_text(std::vector<std::string> stops = {}, std::unique_ptr<OpenAnswer> answer = nullptr) {
    events.begin(tokenizer, session->tokens(), std::move(stops), std::move(answer));
  }

  void close() {
    events.close();
    session->cancel();
  }
};

namespace {

Result<std::unique_ptr<pumice_session>>
make_session(const pumice_model& model, const pumice_session_options& given, const Progress& progress) {
  PUMICE_CHECK(check_decoder(model, "a session"));
  PUMICE_TRY(const SessionOptions options, session_options(given, model.model->shape()));
  auto handle = std::make_unique<pumice_session>();
  PUMICE_TRY(handle->session, Session::create(current_model(model), options, progress));
  handle->tokenizer = model.tokenizer;
  handle->ends = model.ends;
  handle->options = given;
  handle->context = handle->session->size().context;
  handle->events.set_function(given.on_event, given.user);
  return handle;
}

} // namespace

Result<CacheType> pumice::api::read_cache_type(const pumice_cache_type& given) {
  switch (number_in(given)) {
  case PUMICE_CACHE_F16:
    return CacheType::f16;
  case PUMICE_CACHE_F32:
    return CacheType::f32;
  case PUMICE_CACHE_Q8_0:
    return CacheType::q8_0;
  }
  return Error{Code::invalid_argument,
               fmt::format("options.cache is {}: expected one of pumice_cache_type", number_in(given))};
}

Result<SessionOptions> pumice::api::session_options(const pumice_session_options& given,
                                                    const ModelShape& shape) {
  if (given.context == 1) {
    return Error{Code::invalid_argument,
                 "options.context is 1: expected at least 2, for a token to read and one to generate"};
  }
  SessionOptions options;
  options.size.context = given.context;
  if (given.chunk) options.size.chunk = given.chunk;
  PUMICE_TRY(options.size.cache, read_cache_type(given.cache));
  PUMICE_CHECK(check_buffer(given.logits, uint64_t{shape.vocabulary} * 4, "options.logits"));
  options.logits = external_buffer(given.logits);
  options.preparation = given.warm_up ? Preparation::warmed_up : Preparation::compiled;
  options.interruptible = true;
  options.compiling_threads = given.threads ? given.threads - 1 : 0;
  return options;
}

struct pumice_start {
  pumice_model model; // shares what the caller's has
  pumice_session_options options = {};
  Background<pumice_session> starting; // uses those before it
};

extern "C" {

pumice_status pumice_session_create(pumice_model* model, const pumice_session_options* options,
                                    pumice_session** session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(session);
    *session = nullptr;
    PUMICE_TRY(const pumice_session_options given, read(options, "options"));
    PUMICE_TRY(std::unique_ptr<pumice_session> made,
               make_session(*model, given, both(given.progress, given.progress_user)));
    *session = made.release();
    return {};
  });
}

pumice_status pumice_session_start(pumice_model* model, const pumice_session_options* options,
                                   pumice_start** start, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(start);
    *start = nullptr;
    auto handle = std::make_unique<pumice_start>();
    handle->model = *model;
    PUMICE_TRY(handle->options, read(options, "options"));
    const auto work = [own = handle.get()](const Progress& progress) {
      return make_session(own->model, own->options,
                          both(own->options.progress, own->options.progress_user, progress));
    };
    PUMICE_CHECK(handle->starting.start(work, "the session"));
    *start = handle.release();
    return {};
  });
}

bool pumice_start_poll(pumice_start* start, uint64_t* done, uint64_t* total) {
  return !start || start->starting.poll(done, total);
}

void pumice_start_cancel(pumice_start* start) {
  if (start) start->starting.cancel();
}

pumice_status pumice_start_finish(pumice_start* start, pumice_session** session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(start);
    PUMICE_REQUIRE(session);
    *session = nullptr;
    PUMICE_TRY(std::unique_ptr<pumice_session> made, start->starting.finish());
    *session = made.release();
    return {};
  });
}

void pumice_start_destroy(pumice_start* start) {
  delete start;
}

pumice_status pumice_session_fork(pumice_session* session, const pumice_session_options* options,
                                  pumice_session** fork, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(fork);
    *fork = nullptr;
    PUMICE_TRY(pumice_session_options given, read(options, "options"));
    if (!options) {
      given = session->options;
      given.on_event = nullptr;
      given.progress = nullptr;
      given.logits = {};
    }
    if (number_in(given.cache) != session->options.cache) {
      return Error{Code::invalid_argument,
                   fmt::format("options.cache is {}: expected {}, as of the session that is forked",
                               number_in(given.cache), number_in(session->options.cache))};
    }
    const pumice_model model{session->session->model(), session->tokenizer,
                             session->session->model()->file().architecture(), nullptr, session->ends};
    PUMICE_TRY(std::unique_ptr<pumice_session> made,
               make_session(model, given, both(given.progress, given.progress_user)));
    if (const size_t tokens = session->session->tokens().size(); tokens > made->context) {
      return Error{Code::context_full, fmt::format("options.context is {}: the conversation has {} tokens",
                                                   made->context, tokens)};
    }
    PUMICE_CHECK(session->after(made->session->copy(*session->session)));
    made->begin_text();
    *fork = made.release();
    return {};
  });
}

void pumice_session_destroy(pumice_session* session) {
  destroy(session);
}

pumice_status pumice_generate(pumice_session* session, const pumice_request* request, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_TRY(const pumice_request given, read(request, "request"));
    Session& own = *session->session;
    const RequestReader reader{*own.model(), session->tokenizer.get(), session->ends, session->context};
    PUMICE_TRY(TextRequest wanted, read_request(given, reader, own.tokens().size()));
    PUMICE_CHECK(own.begin(std::move(wanted.generation)));
    session->begin_text(std::move(wanted.stops), wanted.open());
    return {};
  });
}

pumice_status pumice_run(pumice_session* session, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    do {
      PUMICE_CHECK(session->after(session->session->step()));
    } while (session->session->active());
    return {};
  });
}

const pumice_event* pumice_poll(pumice_session* session) {
  return session ? session->events.poll() : nullptr;
}

pumice_status pumice_advance(pumice_session* session, float budget_us, const pumice_sync* sync,
                             pumice_slice* slice, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    const auto after = [&](const Result<SliceResult>& result) { return session->after_slice(result); };
    return advance_slice(*session->session, budget_us, sync, slice, after);
  });
}

pumice_status pumice_record(pumice_session* session, VkCommandBuffer command_buffer, float budget_us,
                            pumice_slice* slice, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    const auto after = [&](const Result<SliceResult>& result) { return session->after_slice(result); };
    return record_slice(*session->session, command_buffer, budget_us, slice, after);
  });
}

pumice_status pumice_discard(pumice_session* session, pumice_error* error) {
  return call_exclusive(session, error,
                        [&]() -> Status { return session->after(session->session->discard()); });
}

void pumice_session_cancel(pumice_session* session) {
  if (session) session->session->cancel();
}

pumice_status pumice_session_tokens(const pumice_session* session, uint32_t* tokens, size_t capacity,
                                    size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(session);
    PUMICE_CHECK(check_array(tokens, capacity, sizeof *tokens, "tokens"));
    const std::span<const uint32_t> all = session->session->tokens();
    hand_out(all.data(), all.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_session_save(pumice_session* session, const char* path, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(path);
    return session->after(session->session->save(path_of(path)));
  });
}

pumice_status pumice_session_restore(pumice_session* session, const char* path, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(path);
    PUMICE_CHECK(session->session->restore(path_of(path)));
    session->begin_text();
    return {};
  });
}

pumice_status pumice_session_write(pumice_session* session, pumice_write_function write, void* user,
                                   pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(write);
    const StateSink sink = [&](std::span<const std::byte> bytes) -> Status {
      if (write(user, bytes.data(), bytes.size())) return {};
      return Error{Code::io, "the application's function did not take the bytes of the session"};
    };
    return session->after(session->session->save(sink));
  });
}

pumice_status pumice_session_read(pumice_session* session, const void* bytes, size_t count,
                                  pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(bytes);
    PUMICE_CHECK(check_array(bytes, count, 1, "bytes"));
    const std::span all(static_cast<const std::byte*>(bytes), count);
    PUMICE_CHECK(session->session->restore(MappedFile::from_memory(all, "the saved session")));
    session->begin_text();
    return {};
  });
}

pumice_status pumice_session_suspend(pumice_session* session, pumice_error* error) {
  return call_exclusive(session, error,
                        [&]() -> Status { return session->after(session->session->suspend()); });
}

pumice_status pumice_session_resume(pumice_session* session, pumice_model* model, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    return session->session->resume(current_model(*model));
  });
}

} // extern "C"
