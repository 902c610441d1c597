#include <atomic>
#include <list>

#include <fmt/format.h>

#include "api/background.h"
#include "api/events.h"
#include "api/handles.h"
#include "api/request.h"
#include "step/batch.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_batch {
  struct Text {
    uint32_t id = 0;
    uint32_t sequence = 0; // in the Batch
    bool ended = false;
    Events events;
  };

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  SessionOptions options;
  std::atomic<bool> cancelled = false; // which the batch reads
  std::unique_ptr<Batch> batch;        // none after an error of the device, until the next text
  std::list<Text> texts;               // until their last event has been polled
  uint32_t next_id = 1;
  uint32_t context = 0;
  std::list<Text> last; // whose last event was polled, and must stay valid

  Status make(const Progress& progress);
  Result<uint32_t> add(TextRequest request);
  Status step();
  void take(const BatchToken& token);
  void end(Text& text, pumice_finish_reason reason);
  Status checked(Status status);
  Status stop_if_cancelled();
  bool active() const {
    return std::ranges::any_of(texts, [](const Text& text) { return !text.ended; });
  }
};

Status pumice_batch::make(const Progress& progress) {
  PUMICE_TRY(std::unique_ptr<Batch> made, Batch::create(model, options));
  PUMICE_CHECK(made->runner().prepare_all(options.compiling_threads, progress));
  made->runner().set_interrupt(&cancelled);
  context = made->size().context;
  batch = std::move(made);
  return {};
}

Result<uint32_t> pumice_batch::add(TextRequest request) {
  if (!batch) PUMICE_CHECK(make({}));
  if (!active()) cancelled = false; // there was nothing to cancel
  Text text;
  text.id = next_id;
  text.events.begin(tokenizer, request.generation.tokens, std::move(request.stops), text.id);
  SequenceRequest sequence{std::move(request.generation.tokens),
                           std::move(request.generation.sampling),
                           request.generation.max_tokens,
                           {}};
  PUMICE_TRY(text.sequence, batch->add(std::move(sequence)));
  texts.push_back(std::move(text));
  return next_id++;
}

Status pumice_batch::step() {
  PUMICE_CHECK(stop_if_cancelled());
  if (!active()) return {};
  const Result<std::span<const BatchToken>> tokens = batch->step();
  if (!tokens.ok()) {
    if (tokens.error().code == Code::cancelled) return stop_if_cancelled();
    return checked(tokens.error());
  }
  for (const BatchToken& token : *tokens) take(token);
  return {};
}

void pumice_batch::take(const BatchToken& token) {
  const auto text = std::ranges::find_if(
      texts, [&](const Text& each) { return each.sequence == token.sequence && !each.ended; });
  if (text == texts.end()) return;
  if (!text->events.token(token)) {
    batch->finish(text->sequence);
    end(*text, PUMICE_FINISH_STOP);
  } else if (token.finish_reason != FinishReason::none) {
    end(*text, static_cast<pumice_finish_reason>(token.finish_reason));
  }
}

void pumice_batch::end(Text& text, pumice_finish_reason reason) {
  text.ended = true;
  text.events.end(reason);
}

// After an error of the device, its memory holds nothing that can be gone on with.
Status pumice_batch::checked(Status status) {
  if (status.ok() || status.error().code == Code::invalid_argument) return status;
  for (Text& text : texts) {
    if (!text.ended) end(text, PUMICE_FINISH_CANCELLED);
  }
  batch.reset();
  return status;
}

Status pumice_batch::stop_if_cancelled() {
  if (!cancelled.exchange(false) || !active()) return {};
  for (Text& text : texts) {
    if (text.ended) continue;
    PUMICE_CHECK(checked(batch->drop(text.sequence)));
    end(text, PUMICE_FINISH_CANCELLED);
  }
  return Error{Code::cancelled, "generating was cancelled"};
}

namespace {

constexpr uint32_t most_texts = 1024;

Result<SessionOptions> batch_options(const pumice_batch_options& given, const ModelShape& shape) {
  pumice_session_options session = {sizeof session};
  session.context = given.context;
  session.chunk = given.chunk;
  session.cache = given.cache;
  session.threads = given.threads;
  PUMICE_TRY(SessionOptions options, session_options(session, shape));
  options.size.sequences = std::max(given.texts, 1u);
  if (const uint32_t most = std::min(options.size.chunk, most_texts); given.texts > most) {
    return Error{
        Code::invalid_argument,
        fmt::format("options.texts is {}: expected at most {}, and no more than the tokens of a step "
                    "(options.chunk)",
                    given.texts, most)};
  }
  return options;
}

} // namespace

extern "C" {

pumice_status pumice_batch_create(pumice_model* model, const pumice_batch_options* options,
                                  pumice_batch** batch, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(batch);
    *batch = nullptr;
    PUMICE_CHECK(check_decoder(*model, "a batch"));
    PUMICE_TRY(const pumice_batch_options given, read(options, "options"));
    auto handle = std::make_unique<pumice_batch>();
    handle->model = model->model;
    handle->tokenizer = model->tokenizer;
    PUMICE_TRY(handle->options, batch_options(given, model->model->shape()));
    PUMICE_CHECK(handle->make(both(given.progress, given.progress_user)));
    *batch = handle.release();
    return {};
  });
}

void pumice_batch_destroy(pumice_batch* batch) {
  delete batch;
}

pumice_status pumice_batch_add(pumice_batch* batch, const pumice_request* request, uint32_t* text,
                               pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(batch);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const pumice_request given, read(request, "request"));
    PUMICE_TRY(TextRequest wanted,
               read_request(given, *batch->model, batch->tokenizer.get(), 0, batch->context));
    PUMICE_TRY(*text, batch->add(std::move(wanted)));
    return {};
  });
}

pumice_status pumice_batch_drop(pumice_batch* batch, uint32_t text, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(batch);
    const auto found = std::ranges::find(batch->texts, text, &pumice_batch::Text::id);
    if (found == batch->texts.end()) return {};
    if (!found->ended) PUMICE_CHECK(batch->checked(batch->batch->drop(found->sequence)));
    batch->texts.erase(found);
    return {};
  });
}

pumice_status pumice_batch_step(pumice_batch* batch, bool* active, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(batch);
    const Status status = batch->step();
    if (active) *active = batch->active();
    return status;
  });
}

const pumice_event* pumice_batch_poll(pumice_batch* batch) {
  if (!batch) return nullptr;
  batch->last.clear();
  for (auto text = batch->texts.begin(); text != batch->texts.end(); ++text) {
    const pumice_event* event = text->events.poll();
    if (!event) continue;
    if (event->type == PUMICE_EVENT_END) batch->last.splice(batch->last.end(), batch->texts, text);
    return event;
  }
  return nullptr;
}

void pumice_batch_cancel(pumice_batch* batch) {
  if (batch) batch->cancelled = true;
}

} // extern "C"
