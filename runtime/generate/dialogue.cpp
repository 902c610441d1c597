#include "generate/dialogue.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/guarded.h"

namespace pumice {

namespace {

constexpr int warm_up_rounds = 3;
constexpr uint32_t warm_up_tokens = 3;
// Slices as small as those that will be asked for, or what they cost to begin would not show.
constexpr double warm_up_slice_seconds = 1e-3;
// A step that may take longer is not rehearsed.
constexpr double longest_warm_up_seconds = 0.1;

} // namespace

Result<std::unique_ptr<Dialogue>> Dialogue::create(std::shared_ptr<const Model> model, SessionOptions options,
                                                   bool warm_up) {
  options.size.sequences = 1;
  std::unique_ptr<Dialogue> dialogue(new Dialogue(std::move(model), options, warm_up));
  PUMICE_CHECK(dialogue->make());
  return dialogue;
}

Dialogue::Dialogue(std::shared_ptr<const Model> model, SessionOptions options, bool warm_up)
    : model_(std::move(model)), options_(options), warm_up_(warm_up) {}

// Slices under way use the batch's memory, and their recordings.
Dialogue::~Dialogue() {
  if (slicer_) slicer_->discard();
  if (batch_ && sequence_) (void)guarded([&] { return batch_->drop(*sequence_); });
  if (slicer_) (void)guarded([&] { return slicer_->wait(); });
  batch_.reset();
}

// Everything on the device. What a driver does when it first sees a kernel happens here, and not in a frame.
Status Dialogue::make() {
  broken_ = true; // until all is done
  if (slicer_) PUMICE_CHECK(slicer_->wait_before_end());
  sequence_.reset();
  batch_.reset();
  slicer_ = std::make_unique<TimeSlicer>(model_->context().device);
  sliced_ = false;
  PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(model_, options_));
  PUMICE_CHECK(batch->runner().prepare_all());
  batch_ = std::move(batch);
  batch_->runner().set_interrupt(&cancelled_);
  if (warm_up_) PUMICE_CHECK(warm_up());
  broken_ = false;
  return {};
}

// Texts that need steps of each size, a token of nothing, until every dispatch has been timed often enough.
Status Dialogue::warm_up() {
  PUMICE_CHECK(use_slices(true));
  const uint32_t most = batch_->size().context - warm_up_tokens;
  for (uint32_t prompt : {batch_->size().chunk, small_chunk, 1u}) {
    if (prompt > batch_->size().chunk || prompt >= most) continue;
    PUMICE_TRY(const double guess, batch_->runner().guessed_step_seconds(prompt));
    if (guess > longest_warm_up_seconds) continue;
    for (int round = 0; round < warm_up_rounds; ++round) {
      PUMICE_TRY(sequence_, batch_->add({std::vector<uint32_t>(prompt), {}, warm_up_tokens, {}}));
      while (sequence_) {
        PUMICE_CHECK(slicer_->run([this] { return batch_->fill(*slicer_); }, warm_up_slice_seconds));
        PUMICE_CHECK(slicer_->wait());
        PUMICE_CHECK(collect());
      }
      batch_->forget(0);
    }
  }
  return {};
}

Status Dialogue::ready() {
  if (suspended_) return Error{Code::not_ready, "the session is suspended: resume it first"};
  return broken_ ? make() : Status();
}

// After an error from the device nobody knows what is in the caches.
template <class T>
T Dialogue::failed(T result) {
  if (result.ok()) return result;
  const Code code = result.error().code;
  if (code == Code::cancelled || code == Code::not_ready || code == Code::invalid_argument) return result;
  sequence_.reset();
  broken_ = true;
  return result;
}

Status Dialogue::begin(DialogueRequest request) {
  PUMICE_CHECK(ready());
  Conversation conversation;
  if (!request.anew) conversation.tokens = conversation_.tokens;
  conversation.tokens.insert(conversation.tokens.end(), request.tokens.begin(), request.tokens.end());
  conversation.sampling = std::move(request.sampling);
  PUMICE_CHECK(batch_->check({conversation.tokens, conversation.sampling, request.max_tokens, {}}));
  PUMICE_CHECK(failed(stop()));
  cancelled_ = false;
  received_.clear();
  conversation_ = std::move(conversation);
  limit_ = conversation_.tokens.size() +
           std::min<size_t>(request.max_tokens, std::numeric_limits<size_t>::max() / 2);
  active_ = true;
  return {};
}

// The sequence that the conversation is in the batch, begun anew where it was dropped: its keys and values
// are still there.
Status Dialogue::go_on() {
  if (sequence_) return {};
  SequenceRequest request{conversation_.tokens, conversation_.sampling, UINT32_MAX, {}};
  request.max_tokens =
      static_cast<uint32_t>(std::min<size_t>(limit_ - conversation_.tokens.size(), UINT32_MAX));
  PUMICE_TRY(sequence_, batch_->add(std::move(request)));
  return {};
}

// Takes the sequence out of the batch, once what is under way has finished.
Status Dialogue::stop() {
  if (!sequence_ && !batch_->in_flight()) return {};
  if (sliced_) {
    PUMICE_CHECK(slicer_->wait());
    PUMICE_CHECK(collect());
  }
  if (!sequence_) return batch_->drop_in_flight();
  return batch_->drop(*std::exchange(sequence_, std::nullopt));
}

Status Dialogue::use_slices(bool wanted) {
  if (sliced_ == wanted) return {};
  PUMICE_CHECK(stop());
  sliced_ = wanted;
  return {};
}

Status Dialogue::check_cancelled() {
  if (!cancelled_) return {};
  PUMICE_CHECK(stop());
  cancelled_ = false;
  if (!active_) return {};
  active_ = false;
  return Error{Code::cancelled, "generating was cancelled"};
}

void Dialogue::received(std::span<const BatchToken> tokens) {
  for (const BatchToken& token : tokens) {
    if (!sequence_ || token.sequence != *sequence_) continue;
    conversation_.tokens.push_back(token.token);
    received_.push_back(token);
    if (token.finish_reason == FinishReason::none) continue;
    active_ = false;
    sequence_.reset();
  }
}

Status Dialogue::collect() {
  for (;;) {
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch_->collect());
    if (tokens.empty()) return {};
    received(tokens);
  }
}

std::optional<BatchToken> Dialogue::take() {
  if (received_.empty()) return {};
  const BatchToken token = received_.front();
  received_.pop_front();
  return token;
}

Status Dialogue::step() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(check_cancelled()));
  if (!active_) return {};
  PUMICE_CHECK(failed(use_slices(false)));
  PUMICE_CHECK(go_on());
  const Result<std::span<const BatchToken>> tokens = batch_->step();
  if (!tokens.ok() && tokens.error().code == Code::cancelled) return failed(check_cancelled());
  PUMICE_CHECK(failed(tokens.ok() ? Status() : Status(tokens.error())));
  received(*tokens);
  return {};
}

Result<SliceResult> Dialogue::advance(double budget, const SubmitSync& sync) {
  return failed(slice(VK_NULL_HANDLE, budget, sync));
}

Result<SliceResult> Dialogue::record(VkCommandBuffer into, double budget) {
  if (!into) return Error{Code::invalid_argument, "a command buffer: expected one, found a null"};
  return failed(slice(into, budget, {}));
}

Result<SliceResult> Dialogue::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(use_slices(true));
  PUMICE_CHECK(slicer_->look());
  PUMICE_CHECK(collect());
  PUMICE_CHECK(check_cancelled());
  if (active_) PUMICE_CHECK(go_on());
  const auto fill = [this] { return batch_->fill(*slicer_); };
  SliceResult result;
  PUMICE_TRY(result.report, slicer_->run(active_ ? fill : std::function<Status()>(), budget, sync, into));
  if (active_) result.largest = batch_->runner().largest_dispatch(*slicer_);
  result.active = active_;
  return result;
}

Status Dialogue::discard() {
  if (broken_) PUMICE_CHECK(slicer_->discard_and_wait());
  PUMICE_CHECK(ready());
  if (!sliced_) return {};
  PUMICE_CHECK(failed(slicer_->look()));
  PUMICE_CHECK(failed(collect()));
  slicer_->discard();
  if (sequence_) batch_->abandon(*std::exchange(sequence_, std::nullopt));
  return {};
}

Status Dialogue::save(const std::filesystem::path& path) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(stop()));
  PUMICE_CHECK(failed(batch_->save(path, 0, conversation_)));
  active_ = false;
  return {};
}

Status Dialogue::restore(const std::filesystem::path& path) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(stop()));
  PUMICE_TRY(Conversation conversation, batch_->load(path, 0));
  conversation_ = std::move(conversation);
  active_ = false;
  received_.clear();
  return {};
}

Status Dialogue::suspend() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(stop()));
  PUMICE_TRY(saved_, failed(batch_->save(0, conversation_)));
  batch_.reset();
  slicer_.reset();
  suspended_ = true;
  return {};
}

Status Dialogue::resume(std::shared_ptr<const Model> model) {
  if (model->identity() != model_->identity()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected the model that the session was made with, {}",
                             model->file().path(), model_->file().path())};
  }
  if (slicer_) PUMICE_CHECK(slicer_->wait_before_end());
  model_ = std::move(model);
  PUMICE_CHECK(make());
  suspended_ = false;
  if (saved_.empty()) return {};
  const std::vector<std::byte> saved = std::move(saved_);
  saved_.clear();
  const Result<Conversation> loaded =
      batch_->load(MappedFile::from_memory(saved, "the suspended session"), 0);
  return loaded.ok() ? Status() : failed(Status(loaded.error()));
}

} // namespace pumice
