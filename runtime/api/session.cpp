#include <numeric>

#include <fmt/format.h>

#include "api/background.h"
#include "api/buffer.h"
#include "api/events.h"
#include "api/handles.h"
#include "api/request.h"
#include "api/tune.h"
#include "api/vision.h"
#include "api/work.h"
#include "recording/time_slicer.h"
#include "task/fitting.h"

using namespace pumice;
using namespace pumice::api;

namespace {

constexpr uint32_t most_pictures = 64; // of a step

} // namespace

struct pumice_session : pumice_work, Live<pumice_session> {
  static constexpr const char* name = "session";

  pumice_session() : pumice_work(name, "on_event") {}

  std::unique_ptr<Session> session;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<LazyFormVocabulary> forms;
  std::shared_ptr<AdapterList> adapters; // of its model
  Events events;
  pumice_session_options options = {};
  std::vector<uint32_t> ends; // tokens that end a text of the model
  uint32_t context = 0;
  std::shared_ptr<const Model> tower;     // of its model; null: none
  std::unique_ptr<Vision> vision;         // null: it sees no pictures
  std::optional<TextRequest> waiting;     // begins when its pictures are encoded
  uint64_t slices = 0, vision_slices = 0; // that have finished, of either

  bool active() const { return waiting || session->active(); }

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
    if (!active()) events.end();
    return status;
  }

  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override;
  Status begin(TextRequest request);
  Status begin_encoded(TextRequest& request);
  Status stop_pictures();
  Status after_pictures(Status status);
  Status run();

  // The conversation is another one from now on.
  void begin_text(std::vector<std::string> stops = {}, std::unique_ptr<OpenAnswer> answer = nullptr) {
    events.begin(tokenizer, session->tokens(), std::move(stops), std::move(answer));
  }

  void cancel() override {
    session->cancel();
    if (vision) vision->cancel();
  }
  void close() override {
    events.close();
    cancel();
  }
};

Status pumice_session::begin(TextRequest request) {
  if (request.encoded()) {
    PUMICE_CHECK(stop_pictures());
    PUMICE_CHECK(after(begin_encoded(request)));
    begin_text(request.stops, request.open());
    return {};
  }
  if (!vision) {
    return Error{
        Code::unsupported,
        "request.chat shows pictures: load the model with options.vision, and create the session with "
        "options.pictures"};
  }
  PUMICE_CHECK(session->end_text());
  PUMICE_CHECK(stop_pictures());
  // What is said of the text at its end, if it ends before it begins.
  events.begin(tokenizer, request.generation.tokens, request.stops, request.open());
  vision->begin(request.prompt.media);
  waiting = std::move(request);
  return {};
}

Status pumice_session::begin_encoded(TextRequest& request) {
  PUMICE_CHECK(request.put_pictures());
  return session->begin(request.generation); // a copy: it begins again after an error
}

Status pumice_session::stop_pictures() {
  if (!waiting) return {};
  PUMICE_CHECK(vision->stop());
  waiting.reset();
  return {};
}

// After some work on pictures: begins the text if that was all.
Status pumice_session::after_pictures(Status status) {
  if (!status.ok() && status.error().code == Code::cancelled) waiting.reset();
  if (!status.ok() || vision->active()) return status;
  PUMICE_CHECK(begin_encoded(*waiting));
  waiting.reset();
  if (vision->cancelled()) session->cancel(); // begin() forgets what was cancelled before it
  return {};
}

// A stop string may have ended the text. Slices of pictures and of text are counted together.
Result<SliceResult> pumice_session::slice(const SliceRequest& request) {
  const bool encodes = waiting.has_value();
  Result<SliceResult> result = encodes ? vision->slice(request) : session->slice(request);
  Status status = result.ok() ? Status() : Status(result.error());
  PUMICE_CHECK(after(encodes ? after_pictures(std::move(status)) : std::move(status)));
  uint64_t& finished = result->report.finished;
  (encodes ? vision_slices : slices) = finished;
  finished += encodes ? slices : vision_slices;
  result->active = active();
  return result;
}

Status pumice_session::discard() {
  if (vision) PUMICE_CHECK(vision->discard());
  return after(session->discard());
}

Status pumice_session::run() {
  if (waiting) PUMICE_CHECK(after(after_pictures(vision->run())));
  do {
    PUMICE_CHECK(after(session->step()));
  } while (session->active());
  return {};
}

namespace {

Result<std::shared_ptr<const Model>> tower_of(const pumice_model& model) {
  if (model.tower) return current_model(model.tower);
  return Error{Code::invalid_argument,
               fmt::format("options.pictures is set, and {} was loaded without options.vision",
                           model.model->file().path())};
}

Result<std::unique_ptr<pumice_session>> make_session(const pumice_model& model,
                                                     const pumice_session_options& options,
                                                     std::shared_ptr<const Model> draft_model,
                                                     const Progress& progress) {
  PUMICE_CHECK(check_decoder(model, "a session"));
  PUMICE_TRY(SessionOptions session_options, session_options(options, model.model->shape()));
  session_options.draft_model = std::move(draft_model);
  PUMICE_TRY(session_options.adapters, model.adapters->room(options.adapters, "options.adapters"));
  auto handle = std::make_unique<pumice_session>();
  if (options.pictures > 0) {
    PUMICE_TRY(const std::shared_ptr<const Model> tower, tower_of(model));
    PUMICE_TRY(handle->vision,
               Vision::create(tower, *model.model->shape().pictures, options.pictures, options.warm_up));
  }
  handle->tower = model.tower;
  const std::shared_ptr<const Model> current = current_model(model);
  PUMICE_TRY(const uint64_t slices, TimeSlicer::memory_needed(*current->context().device));
  PUMICE_TRY(session_options.size, fitted_size(options, *current, session_options.size, slices));
  PUMICE_TRY(handle->session, Session::create(current, session_options, progress));
  handle->tokenizer = model.tokenizer;
  handle->forms = model.forms;
  handle->adapters = model.adapters;
  handle->ends = model.ends;
  handle->options = options;
  handle->context = handle->session->size().context;
  handle->events.set_function(options.on_event, options.user);
  return handle;
}

} // namespace

Result<CacheType> pumice::api::read_cache_type(const pumice_cache_type& type) {
  for (const CacheType each : cache_types()) {
    if (number_in(to_cache_type(each)) == number_in(type)) return each;
  }
  return Error{Code::invalid_argument,
               fmt::format("options.cache is {}: expected one of pumice_cache_type", number_in(type))};
}

Result<std::shared_ptr<const Model>> pumice::api::read_draft_model(const pumice_model* model,
                                                                   uint32_t drafts) {
  if (!model) return std::shared_ptr<const Model>();
  PUMICE_CHECK(check_live(model, "options.draft_model"));
  if (drafts == 0) {
    return Error{Code::invalid_argument,
                 "options.draft_model is set, and options.drafts is 0: say how many tokens to guess at"};
  }
  PUMICE_CHECK(check_decoder(*model, "options.draft_model"));
  return current_model(*model);
}

Result<SessionOptions> pumice::api::session_options(const pumice_session_options& options,
                                                    const ModelShape& shape) {
  if (options.context == 1) {
    return Error{Code::invalid_argument,
                 "options.context is 1: expected at least 2, for a token to read and one to generate"};
  }
  SessionOptions result;
  result.size.context = options.context;
  if (options.chunk) result.size.chunk = options.chunk;
  if (options.drafts > most_drafts) {
    return Error{Code::invalid_argument,
                 fmt::format("options.drafts is {}: expected at most {}", options.drafts, most_drafts)};
  }
  result.size.drafts = options.drafts;
  if (options.shift > 1) {
    return Error{Code::invalid_argument, fmt::format("options.shift is {}: expected 0 or 1", options.shift)};
  }
  result.shift_positions = options.shift == 1;
  PUMICE_TRY(result.size.cache, read_cache_type(options.cache));
  PUMICE_CHECK(check_buffer(options.logits, uint64_t{shape.vocabulary} * 4, "options.logits"));
  result.logits = external_buffer(options.logits);
  if (options.pictures > most_pictures) {
    return Error{Code::invalid_argument,
                 fmt::format("options.pictures is {}: expected at most {}", options.pictures, most_pictures)};
  }
  result.preparation = options.warm_up ? Preparation::warmed_up : Preparation::compiled;
  result.interruptible = true;
  result.compiling_threads = options.threads ? options.threads - 1 : 0;
  return result;
}

Result<SessionSize> pumice::api::fitted_size(const pumice_session_options& options, const Model& model,
                                             SessionSize size, uint64_t others) {
  if (options.fit > 1) {
    return Error{Code::invalid_argument, fmt::format("options.fit is {}: expected 0 or 1", options.fit)};
  }
  const uint32_t longest = default_chunk(model.context().device->capabilities());
  if (!options.fit)
    return options.chunk || model.upstream() ? size : with_longest_chunk(model, size, longest, others);
  if (model.upstream()) return no_fit_in_stages();
  return require_fitting_size(model, {size, options.cache != PUMICE_CACHE_F16, options.chunk != 0, others});
}

Error pumice::api::no_fit_in_stages() {
  return {Code::invalid_argument, "options.fit is for a model on one device: leave it out"};
}

pumice_status pumice::api::with_conversation(pumice_session* session, pumice_error* error,
                                             const std::function<Status(Session&)>& body) {
  return call_exclusive(session, error, [&]() -> Status {
    const Status status = body(*session->session);
    PUMICE_CHECK(session->after({}));
    return status;
  });
}

StateSink pumice::api::sink_of(pumice_write_function write, void* user) {
  return [=](std::span<const std::byte> bytes) -> Status {
    if (write(user, bytes.data(), bytes.size())) return {};
    return Error{Code::io, "the application's function did not take the bytes"};
  };
}

pumice_cache_type pumice::api::to_cache_type(CacheType type) {
  switch (type) {
  case CacheType::f32:
    return PUMICE_CACHE_F32;
  case CacheType::f16:
    return PUMICE_CACHE_F16;
  case CacheType::q8_0:
    return PUMICE_CACHE_Q8_0;
  case CacheType::f16_q8_0:
    return PUMICE_CACHE_F16_Q8_0;
  case CacheType::q8_0_f16:
    return PUMICE_CACHE_Q8_0_F16;
  case CacheType::q4_0:
    return PUMICE_CACHE_Q4_0;
  case CacheType::q8_0_q4_0:
    return PUMICE_CACHE_Q8_0_Q4_0;
  }
  return PUMICE_CACHE_F16;
}

namespace {

Result<std::vector<uint32_t>> read_continuation(const pumice_continuation& continuation,
                                                const pumice_session& session, const std::string& name) {
  if (!continuation.text == !continuation.tokens) {
    return Error{Code::invalid_argument, fmt::format("{}: expected either text or tokens, found {}", name,
                                                     continuation.text ? "both" : "neither")};
  }
  std::vector<uint32_t> tokens;
  if (continuation.text) {
    PUMICE_CHECK(require_tokenizer(session.tokenizer.get(), *session.session->model()));
    const Tokenizer::Part part = {continuation.text, Tokenizer::SpecialTokens::as_text};
    tokens = session.tokenizer->encode(std::span(&part, 1), false);
  } else {
    PUMICE_CHECK(check_array(continuation.tokens, continuation.token_count, sizeof *continuation.tokens,
                             name + ".tokens"));
    tokens.assign(continuation.tokens, continuation.tokens + continuation.token_count);
  }
  if (tokens.empty())
    return Error{Code::invalid_argument, fmt::format("{} is empty: expected at least one token", name)};
  return tokens;
}

} // namespace

struct pumice_session_creation : Live<pumice_session_creation> {
  pumice_model model; // shares what the caller's has
  pumice_session_options options = {};
  std::shared_ptr<const Model> draft_model;
  Background<pumice_session> starting; // uses those before it
};

extern "C" {

pumice_status pumice_session_create(pumice_model* model, const pumice_session_options* caller_options,
                                    pumice_session** session, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(session);
    *session = nullptr;
    PUMICE_TRY(const pumice_session_options options, read(caller_options, "options"));
    PUMICE_TRY(std::shared_ptr<const Model> draft_model,
               read_draft_model(options.draft_model, options.drafts));
    PUMICE_TRY(
        std::unique_ptr<pumice_session> made,
        make_session(*model, options, std::move(draft_model), both(options.progress, options.progress_user)));
    *session = made.release();
    return {};
  });
}

pumice_status pumice_session_creation_start(pumice_model* model, const pumice_session_options* options,
                                            pumice_session_creation** creation, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(creation);
    *creation = nullptr;
    auto handle = std::make_unique<pumice_session_creation>();
    handle->model = *model;
    PUMICE_TRY(handle->options, read(options, "options"));
    PUMICE_TRY(handle->draft_model, read_draft_model(handle->options.draft_model, handle->options.drafts));
    const auto work = [started = handle.get()](const Progress& progress) {
      return make_session(started->model, started->options, started->draft_model,
                          both(started->options.progress, started->options.progress_user, progress));
    };
    PUMICE_CHECK(handle->starting.start(work, "the session"));
    *creation = handle.release();
    return {};
  });
}

bool pumice_session_creation_poll(pumice_session_creation* creation, uint64_t* done, uint64_t* total) {
  return !is_live(creation) || creation->starting.poll(done, total);
}

void pumice_session_creation_cancel(pumice_session_creation* creation) {
  if (is_live(creation)) creation->starting.cancel();
}

pumice_status pumice_session_creation_finish(pumice_session_creation* creation, pumice_session** session,
                                             pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(creation);
    PUMICE_REQUIRE(session);
    *session = nullptr;
    PUMICE_TRY(std::unique_ptr<pumice_session> made, creation->starting.finish());
    *session = made.release();
    return {};
  });
}

void pumice_session_creation_destroy(pumice_session_creation* creation) {
  destroy_live(creation);
}

pumice_status pumice_session_fork(pumice_session* session, const pumice_session_options* caller_options,
                                  pumice_session** fork, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(fork);
    *fork = nullptr;
    PUMICE_TRY(pumice_session_options options, read(caller_options, "options"));
    if (!caller_options) {
      options = session->options;
      options.on_event = nullptr;
      options.progress = nullptr;
      options.logits = {};
      if (!is_live(options.draft_model)) options.draft_model = nullptr;
    }
    if (number_in(options.cache) != session->options.cache) {
      return Error{Code::invalid_argument,
                   fmt::format("options.cache is {}: expected {}, as of the session that is forked",
                               number_in(options.cache), number_in(session->options.cache))};
    }
    const pumice_model model{{},
                             session->session->model(),
                             session->tokenizer,
                             session->forms,
                             session->session->model()->file().architecture(),
                             nullptr,
                             session->ends,
                             session->tower,
                             session->adapters};
    PUMICE_TRY(std::shared_ptr<const Model> draft_model,
               read_draft_model(options.draft_model, options.drafts));
    PUMICE_TRY(
        std::unique_ptr<pumice_session> made,
        make_session(model, options, std::move(draft_model), both(options.progress, options.progress_user)));
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

pumice_status pumice_session_generate(pumice_session* session, const pumice_request* caller_request,
                                      pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    Session& conversation = *session->session;
    const RequestReader reader{*conversation.model(), session->tokenizer.get(), session->forms.get(),
                               session->ends,         session->context,         session->adapters.get()};
    PUMICE_TRY(TextRequest text_request, read_request(request, reader, conversation.tokens().size()));
    return session->begin(std::move(text_request));
  });
}

pumice_status pumice_session_run(pumice_session* session, pumice_error* error) {
  return call_exclusive(session, error, [&] { return session->run(); });
}

const pumice_event* pumice_session_poll(pumice_session* session) {
  return is_live(session) ? session->events.poll() : nullptr;
}

pumice_work* pumice_session_work(pumice_session* session) {
  return is_live(session) ? session : nullptr;
}

pumice_status pumice_session_tokens(const pumice_session* session, uint32_t* tokens, size_t capacity,
                                    size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(session);
    PUMICE_CHECK(check_array(tokens, capacity, sizeof *tokens, "tokens"));
    const std::span<const uint32_t> all = session->session->tokens();
    hand_out(all.data(), all.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_session_score(pumice_session* session, const pumice_continuation* continuations,
                                   size_t count, pumice_continuation_score* scores, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_CHECK(check_array(continuations, count, sizeof *continuations, "continuations"));
    PUMICE_CHECK(check_array(scores, count, sizeof *scores, "scores"));
    std::vector<std::vector<uint32_t>> texts;
    for (size_t i = 0; i < count; ++i) {
      PUMICE_TRY(std::vector<uint32_t> tokens,
                 read_continuation(continuations[i], *session, fmt::format("continuations[{}]", i)));
      texts.push_back(std::move(tokens));
    }
    constexpr uint32_t together = 8;
    Result<ContinuationScores> found = session->session->score(texts, together);
    PUMICE_CHECK(session->after(found.ok() ? Status() : Status(found.error())));
    for (size_t i = 0; i < count; ++i) {
      const std::vector<float>& each = (*found)[i];
      const double sum = std::accumulate(each.begin(), each.end(), 0.0);
      scores[i] = {static_cast<float>(sum), static_cast<uint32_t>(each.size())};
    }
    return {};
  });
}

pumice_status pumice_session_save(pumice_session* session, const char* path, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(path);
    PUMICE_CHECK(session->stop_pictures());
    return session->after(session->session->save(path_of(path)));
  });
}

pumice_status pumice_session_restore(pumice_session* session, const char* path, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(path);
    PUMICE_CHECK(session->stop_pictures());
    PUMICE_CHECK(session->after(session->session->restore(path_of(path))));
    session->begin_text();
    return {};
  });
}

pumice_status pumice_session_write(pumice_session* session, pumice_write_function write, void* user,
                                   pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(write);
    PUMICE_CHECK(session->stop_pictures());
    return session->after(session->session->save(sink_of(write, user)));
  });
}

pumice_status pumice_session_read(pumice_session* session, const void* bytes, size_t count,
                                  pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE(bytes);
    PUMICE_CHECK(check_array(bytes, count, 1, "bytes"));
    const std::span all(static_cast<const std::byte*>(bytes), count);
    PUMICE_CHECK(session->stop_pictures());
    PUMICE_CHECK(
        session->after(session->session->restore(MappedFile::from_memory(all, "the saved session"))));
    session->begin_text();
    return {};
  });
}

pumice_status pumice_session_suspend(pumice_session* session, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    if (session->vision) PUMICE_CHECK(session->vision->pause());
    PUMICE_CHECK(session->after(session->session->suspend()));
    if (session->vision) session->vision->suspend();
    return {};
  });
}

pumice_status pumice_session_resume(pumice_session* session, pumice_model* model, pumice_error* error) {
  return call_exclusive(session, error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    if (session->vision) {
      PUMICE_TRY(const std::shared_ptr<const Model> tower, tower_of(*model));
      PUMICE_CHECK(session->vision->resume(tower));
    }
    const Status resumed = session->session->resume(current_model(*model));
    if (resumed.ok()) {
      session->tower = model->tower;
      session->slices = session->vision_slices = 0;
    }
    if (!resumed.ok() && session->vision) session->vision->suspend();
    return resumed;
  });
}

} // extern "C"
