#include <list>

#include <fmt/format.h>

#include "api/background.h"
#include "api/events.h"
#include "api/handles.h"
#include "api/request.h"
#include "api/tune.h"
#include "api/work.h"
#include "step/work/resumable_batch.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_batch : pumice_work, Live<pumice_batch> {
  struct Text {
    uint32_t id = 0;
    uint32_t sequence = 0; // in the ResumableBatch
    bool ended = false;
    Events events;
  };

  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<LazyFormVocabulary> forms;
  std::shared_ptr<AdapterList> adapters; // of the model
  std::vector<uint32_t> ends;            // tokens that end a text of the model
  std::unique_ptr<ResumableBatch> batch;
  std::list<Text> texts; // until their last event has been polled
  uint32_t next_id = 1;
  uint32_t context = 0;
  std::list<Text> last; // whose last event was polled, and must stay valid

  pumice_batch() : pumice_work("batch") {}
  Result<uint32_t> add(TextRequest request);
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return after(batch->discard()); }
  void cancel() override { batch->cancel(); }
  Status after(Status status);
  void take(const BatchToken& token);
};

Result<uint32_t> pumice_batch::add(TextRequest request) {
  Text text;
  text.id = next_id;
  text.events.begin(tokenizer, request.generation.tokens, request.stops, request.open(), text.id);
  const size_t form_begin = request.generation.tokens.size();
  SequenceRequest sequence{std::move(request.generation.tokens),
                           std::move(request.generation.sampling),
                           request.generation.max_tokens,
                           {},
                           std::move(request.generation.embeddings),
                           {},
                           std::move(request.generation.form),
                           form_begin,
                           request.generation.adapter.value_or(AdapterChoice())};
  PUMICE_TRY(text.sequence, batch->add(std::move(sequence)));
  texts.push_back(std::move(text));
  return next_id++;
}

void pumice_batch::take(const BatchToken& token) {
  const auto text = std::ranges::find_if(
      texts, [&](const Text& each) { return each.sequence == token.sequence && !each.ended; });
  if (text == texts.end()) return;
  const bool stopped = !text->events.token(token);
  if (stopped) batch->stop(text->sequence);
  text->ended = stopped || token.finish_reason != FinishReason::none;
  if (!text->ended) return;
  text->events.end(stopped ? PUMICE_FINISH_STOP : static_cast<pumice_finish_reason>(token.finish_reason));
}

// Makes events of what has come, and then returns the result of the call that it came with. Where nothing
// runs any more, cancelling or an error of the device has ended the other texts.
Status pumice_batch::after(Status status) {
  while (const std::optional<BatchToken> token = batch->take()) take(*token);
  for (Text& text : texts) {
    if (text.ended || batch->active()) continue;
    text.ended = true;
    text.events.end(PUMICE_FINISH_CANCELLED);
  }
  return status;
}

// Stop strings may have ended texts.
Result<SliceResult> pumice_batch::slice(const SliceRequest& request) {
  Result<SliceResult> result = batch->slice(request);
  PUMICE_CHECK(after(result.ok() ? Status() : Status(result.error())));
  result->active = batch->active();
  return result;
}

Result<SessionOptions> pumice::api::batch_options(const pumice_batch_options& options,
                                                  const ModelShape& shape) {
  constexpr uint32_t most_texts = 1024;
  pumice_session_options session = {sizeof session};
  session.context = options.context;
  session.chunk = options.chunk;
  session.drafts = options.drafts;
  session.threads = options.threads;
  session.warm_up = options.warm_up;
  PUMICE_TRY(SessionOptions result, session_options(session, shape));
  PUMICE_TRY(result.size.cache, read_cache_type(options.cache));
  result.size.sequences = std::max(options.texts, 1u);
  if (const uint32_t most = std::min(result.size.chunk, most_texts); options.texts > most) {
    return Error{
        Code::invalid_argument,
        fmt::format("options.texts is {}: expected at most {}, and no more than the tokens of a step "
                    "(options.chunk)",
                    options.texts, most)};
  }
  return result;
}

extern "C" {

pumice_status pumice_batch_create(pumice_model* model, const pumice_batch_options* caller_options,
                                  pumice_batch** batch, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(batch);
    *batch = nullptr;
    PUMICE_CHECK(check_decoder(*model, "a batch"));
    PUMICE_TRY(const pumice_batch_options options, read(caller_options, "options"));
    auto handle = std::make_unique<pumice_batch>();
    handle->model = current_model(*model);
    handle->tokenizer = model->tokenizer;
    handle->forms = model->forms;
    handle->adapters = model->adapters;
    handle->ends = model->ends;
    PUMICE_TRY(SessionOptions session_options, batch_options(options, model->model->shape()));
    PUMICE_TRY(session_options.draft_model, read_draft_model(options.draft_model, options.drafts));
    PUMICE_TRY(session_options.adapters, model->adapters->room(options.adapters, "options.adapters"));
    PUMICE_TRY(handle->batch, ResumableBatch::create(handle->model, session_options,
                                                     both(options.progress, options.progress_user)));
    handle->context = handle->batch->size().context;
    *batch = handle.release();
    return {};
  });
}

void pumice_batch_destroy(pumice_batch* batch) {
  destroy_live(batch);
}

pumice_status pumice_batch_add(pumice_batch* batch, const pumice_request* caller_request, uint32_t* text,
                               pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    const RequestReader reader{*batch->model, batch->tokenizer.get(), batch->forms.get(),
                               batch->ends,   batch->context,         batch->adapters.get()};
    PUMICE_TRY(TextRequest text_request, read_request(request, reader, 0));
    if (!text_request.encoded()) {
      return Error{Code::unsupported, "request.chat shows a picture that no session has looked at: a batch "
                                      "does not, so answer the chat with a session first"};
    }
    PUMICE_CHECK(text_request.put_pictures());
    PUMICE_TRY(*text, batch->add(std::move(text_request)));
    return {};
  });
}

pumice_status pumice_batch_drop(pumice_batch* batch, uint32_t text, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    const auto found = std::ranges::find(batch->texts, text, &pumice_batch::Text::id);
    if (found == batch->texts.end()) return {};
    if (!found->ended) batch->batch->stop(found->sequence);
    batch->texts.erase(found);
    return {};
  });
}

pumice_status pumice_batch_step(pumice_batch* batch, bool* active, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    const Status status = batch->after(batch->batch->step());
    if (active) *active = batch->batch->active();
    return status;
  });
}

const pumice_event* pumice_batch_poll(pumice_batch* batch) {
  if (!is_live(batch)) return nullptr;
  batch->last.clear();
  for (auto text = batch->texts.begin(); text != batch->texts.end(); ++text) {
    const pumice_event* event = text->events.poll();
    if (!event) continue;
    if (event->type == PUMICE_EVENT_END) batch->last.splice(batch->last.end(), batch->texts, text);
    return event;
  }
  return nullptr;
}

pumice_work* pumice_batch_work(pumice_batch* batch) {
  return is_live(batch) ? batch : nullptr;
}

} // extern "C"
