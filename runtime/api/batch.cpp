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
    std::shared_ptr<std::vector<uint32_t>> tokens; // the prompt, then what was sampled
    size_t most = SIZE_MAX; // of those that count: a stop string came before the others
    SamplingParams sampling;
    SharedEmbeddings embeddings; // the rows of its pictures

    std::span<const uint32_t> said() const {
      return std::span(*tokens).first(std::min(most, tokens->size()));
    }
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
  Result<uint32_t> go_on(TextRequest request, std::span<const uint32_t> conversation,
                         const SharedEmbeddings& embeddings = {});
  Result<const Text*> find(uint32_t id) const;
  Result<Conversation> settled(uint32_t id);
  RequestReader reader() const {
    return {*model, tokenizer.get(), forms.get(), ends, context, adapters.get()};
  }
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
  text.tokens = std::make_shared<std::vector<uint32_t>>(std::move(request.generation.tokens));
  text.sampling = request.generation.sampling;
  text.embeddings = request.generation.embeddings;
  SequenceRequest sequence{{},
                           std::move(request.generation.sampling),
                           request.generation.max_tokens,
                           {},
                           std::move(request.generation.embeddings),
                           text.tokens,
                           std::move(request.generation.form),
                           form_begin,
                           request.generation.adapter.value_or(AdapterChoice())};
  PUMICE_TRY(text.sequence, batch->add(std::move(sequence)));
  texts.push_back(std::move(text));
  return next_id++;
}

// Adds a text that goes on with a conversation, unless the request brings the whole prompt.
Result<uint32_t> pumice_batch::go_on(TextRequest request, std::span<const uint32_t> conversation,
                                     const SharedEmbeddings& embeddings) {
  if (!request.encoded()) {
    return Error{Code::unsupported, "request.chat shows a picture that no session has looked at: a batch "
                                    "does not, so answer the chat with a session first"};
  }
  PUMICE_CHECK(request.put_pictures());
  GenerationRequest& generation = request.generation;
  if (!generation.new_conversation) {
    generation.tokens.insert(generation.tokens.begin(), conversation.begin(), conversation.end());
    generation.embeddings = joined(embeddings, generation.embeddings);
  }
  return add(std::move(request));
}

Result<const pumice_batch::Text*> pumice_batch::find(uint32_t id) const {
  for (const std::list<Text>* list : {&texts, &last}) {
    const auto found = std::ranges::find(*list, id, &Text::id);
    if (found != list->end()) return &*found;
  }
  return Error{Code::invalid_argument,
               fmt::format("text is {}: expected one that runs, or whose last event was not polled before "
                           "the latest call of pumice_batch_poll",
                           id)};
}

// What a text has come to, once the slices under way are done.
Result<Conversation> pumice_batch::settled(uint32_t id) {
  PUMICE_TRY(const Text* text, find(id));
  PUMICE_CHECK(after(batch->wait()));
  const std::span<const uint32_t> tokens = text->said();
  return Conversation{{tokens.begin(), tokens.end()}, text->sampling, text->embeddings};
}

void pumice_batch::take(const BatchToken& token) {
  const auto text = std::ranges::find_if(
      texts, [&](const Text& each) { return each.sequence == token.sequence && !each.ended; });
  if (text == texts.end()) return;
  const bool stopped = !text->events.token(token);
  if (stopped) {
    batch->stop(text->sequence);
    text->most = text->events.position();
  }
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
  result.size.pages = options.cache_tokens ? pages_for(options.cache_tokens) : all_pages;
  if (!(options.max_stall_us >= 0)) { // also of a NaN
    return Error{Code::invalid_argument,
                 fmt::format("options.max_stall_us is {}: expected at least 0", options.max_stall_us)};
  }
  result.max_stall_seconds = double{options.max_stall_us} * 1e-6;
  if (const uint32_t most = std::min(result.size.chunk, most_texts); options.texts > most) {
    return Error{
        Code::invalid_argument,
        fmt::format("options.texts is {}: expected at most {}, and no more than the tokens of a step "
                    "(options.chunk)",
                    options.texts, most)};
  }
  return result;
}

namespace {

Result<std::unique_ptr<pumice_batch>> make_batch(const pumice_model& model,
                                                 const pumice_batch_options& options,
                                                 std::shared_ptr<const Model> draft_model,
                                                 const Progress& progress) {
  PUMICE_CHECK(check_decoder(model, "a batch"));
  auto handle = std::make_unique<pumice_batch>();
  handle->model = current_model(model);
  handle->tokenizer = model.tokenizer;
  handle->forms = model.forms;
  handle->adapters = model.adapters;
  handle->ends = model.ends;
  PUMICE_TRY(SessionOptions session_options, batch_options(options, model.model->shape()));
  session_options.draft_model = std::move(draft_model);
  PUMICE_TRY(session_options.adapters, model.adapters->room(options.adapters, "options.adapters"));
  PUMICE_TRY(handle->batch, ResumableBatch::create(handle->model, session_options, progress));
  handle->context = handle->batch->size().context;
  return handle;
}

// Whether keys and values of a session are good for a batch.
Status check_same(Session& session, const pumice_batch& batch) {
  const Model &model = *session.model(), &own = *batch.model;
  if (model.identity() != own.identity() || model.context().device != own.context().device) {
    return Error{
        Code::invalid_argument,
        fmt::format("the batch was made with {}, and the session with {}: expected the same model, on "
                    "the same device",
                    own.file().path(), model.file().path())};
  }
  const CacheType type = session.size().cache, expected = batch.batch->size().cache;
  if (type == expected) return {};
  return Error{Code::invalid_argument,
               fmt::format("the session's options.cache is {}: expected {}, as of the batch",
                           static_cast<int>(to_cache_type(type)), static_cast<int>(to_cache_type(expected)))};
}

// Adds a text that goes on with a saved one.
Result<uint32_t> restore_text(pumice_batch& batch, MappedFile file, const pumice_request& request) {
  Result<Conversation> loaded = batch.batch->load(std::move(file));
  PUMICE_CHECK(batch.after(loaded.ok() ? Status() : Status(loaded.error())));
  PUMICE_TRY(TextRequest text, read_request(request, batch.reader(), loaded->tokens.size()));
  return batch.go_on(std::move(text), loaded->tokens, loaded->embeddings);
}

} // namespace

struct pumice_batch_creation : Live<pumice_batch_creation> {
  pumice_model model; // shares what the caller's has
  pumice_batch_options options = {};
  std::shared_ptr<const Model> draft_model;
  Background<pumice_batch> starting; // uses those before it
};

extern "C" {

pumice_status pumice_batch_create(pumice_model* model, const pumice_batch_options* caller_options,
                                  pumice_batch** batch, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(batch);
    *batch = nullptr;
    PUMICE_TRY(const pumice_batch_options options, read(caller_options, "options"));
    PUMICE_TRY(std::shared_ptr<const Model> draft_model,
               read_draft_model(options.draft_model, options.drafts));
    PUMICE_TRY(std::unique_ptr<pumice_batch> made, make_batch(*model, options, std::move(draft_model),
                                                              both(options.progress, options.progress_user)));
    *batch = made.release();
    return {};
  });
}

void pumice_batch_destroy(pumice_batch* batch) {
  destroy_live(batch);
}

pumice_status pumice_batch_creation_start(pumice_model* model, const pumice_batch_options* options,
                                          pumice_batch_creation** creation, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(creation);
    *creation = nullptr;
    auto handle = std::make_unique<pumice_batch_creation>();
    handle->model = *model;
    PUMICE_TRY(handle->options, read(options, "options"));
    PUMICE_TRY(handle->draft_model, read_draft_model(handle->options.draft_model, handle->options.drafts));
    const auto work = [started = handle.get()](const Progress& progress) {
      return make_batch(started->model, started->options, started->draft_model,
                        both(started->options.progress, started->options.progress_user, progress));
    };
    PUMICE_CHECK(handle->starting.start(work, "the batch"));
    *creation = handle.release();
    return {};
  });
}

bool pumice_batch_creation_poll(pumice_batch_creation* creation, uint64_t* done, uint64_t* total) {
  return !is_live(creation) || creation->starting.poll(done, total);
}

void pumice_batch_creation_cancel(pumice_batch_creation* creation) {
  if (is_live(creation)) creation->starting.cancel();
}

pumice_status pumice_batch_creation_finish(pumice_batch_creation* creation, pumice_batch** batch,
                                           pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(creation);
    PUMICE_REQUIRE(batch);
    *batch = nullptr;
    PUMICE_TRY(std::unique_ptr<pumice_batch> made, creation->starting.finish());
    *batch = made.release();
    return {};
  });
}

void pumice_batch_creation_destroy(pumice_batch_creation* creation) {
  destroy_live(creation);
}

pumice_status pumice_batch_add(pumice_batch* batch, const pumice_request* caller_request, uint32_t* text,
                               pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    PUMICE_TRY(TextRequest text_request, read_request(request, batch->reader(), 0));
    PUMICE_TRY(*text, batch->go_on(std::move(text_request), {}));
    return {};
  });
}

pumice_status pumice_batch_fork(pumice_batch* batch, pumice_session* session,
                                const pumice_request* caller_request, uint32_t* text, pumice_error* error) {
  return with_conversation(session, error, [&](Session& conversation) -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    PUMICE_CHECK(conversation.ready());
    PUMICE_CHECK(batch->batch->ready());
    PUMICE_CHECK(check_same(conversation, *batch));
    PUMICE_TRY(TextRequest text_request,
               read_request(request, batch->reader(), conversation.tokens().size()));
    PUMICE_CHECK(batch->after(conversation.copy_to(*batch->batch)));
    PUMICE_TRY(*text,
               batch->go_on(std::move(text_request), conversation.tokens(), conversation.embeddings()));
    return {};
  });
}

pumice_status pumice_batch_tokens(const pumice_batch* batch, uint32_t text, uint32_t* tokens, size_t capacity,
                                  size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_CHECK(check_array(tokens, capacity, sizeof *tokens, "tokens"));
    PUMICE_TRY(const pumice_batch::Text* found, batch->find(text));
    const std::span<const uint32_t> all = found->said();
    hand_out(all.data(), all.size(), tokens, capacity, count);
    return {};
  });
}

pumice_status pumice_batch_save(pumice_batch* batch, uint32_t text, const char* path, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(path);
    PUMICE_TRY(const Conversation conversation, batch->settled(text));
    return batch->after(batch->batch->save(path_of(path), conversation));
  });
}

pumice_status pumice_batch_write(pumice_batch* batch, uint32_t text, pumice_write_function write, void* user,
                                 pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(write);
    PUMICE_TRY(const Conversation conversation, batch->settled(text));
    return batch->after(batch->batch->save(sink_of(write, user), conversation));
  });
}

pumice_status pumice_batch_restore(pumice_batch* batch, const char* path,
                                   const pumice_request* caller_request, uint32_t* text,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(path);
    PUMICE_REQUIRE(text);
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    PUMICE_TRY(MappedFile file, MappedFile::open(path_of(path)));
    PUMICE_TRY(*text, restore_text(*batch, std::move(file), request));
    return {};
  });
}

pumice_status pumice_batch_read(pumice_batch* batch, const void* bytes, size_t count,
                                const pumice_request* caller_request, uint32_t* text, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(batch);
    PUMICE_REQUIRE(bytes);
    PUMICE_REQUIRE(text);
    PUMICE_CHECK(check_array(bytes, count, 1, "bytes"));
    PUMICE_TRY(const pumice_request request, read(caller_request, "request"));
    const std::span all(static_cast<const std::byte*>(bytes), count);
    PUMICE_TRY(*text, restore_text(*batch, MappedFile::from_memory(all, "the saved text"), request));
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
