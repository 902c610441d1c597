#include "step/drafts/model_drafter.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "step/batch.h"

namespace pumice {

namespace {

constexpr uint32_t most_padding = 128; // tokens by which vocabularies of one family differ

} // namespace

ModelDrafter::ModelDrafter(std::unique_ptr<Batch> batch, uint32_t vocabulary, double guessed_seconds)
    : Drafter(guessed_seconds), batch_(std::move(batch)), vocabulary_(vocabulary) {}
ModelDrafter::~ModelDrafter() = default;

Result<std::unique_ptr<Drafter>> ModelDrafter::create(std::shared_ptr<const Model> model, const Model& target,
                                                      const SessionSize& size) {
  const std::string& path = model->file().path();
  const uint32_t vocabulary = model->shape().vocabulary, wanted = target.shape().vocabulary;
  if (std::max(vocabulary, wanted) - std::min(vocabulary, wanted) > most_padding) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: it has {} tokens, and {} has {}: a model whose tokens are guesses must have the "
                    "same vocabulary",
                    path, vocabulary, target.file().path(), wanted)};
  }
  if (model->context().device != target.context().device || model->upstream()) {
    return Error{
        Code::invalid_argument,
        path + ": a model whose tokens are guesses must be loaded on the one device of the other model"};
  }
  SessionOptions options;
  options.size = size;
  options.size.drafts = 0;
  options.size.pages = 0;
  options.size.context = std::min(size.context, model->shape().context);
  PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(std::move(model), options));
  PUMICE_TRY(const double guess, batch->runner().guessed_step_seconds(1));
  return std::unique_ptr<Drafter>(new ModelDrafter(std::move(batch), wanted, guess));
}

Result<std::vector<std::vector<uint32_t>>> ModelDrafter::draft(std::span<const Text> texts) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::vector<uint32_t>> drafts(texts.size());
  std::map<uint32_t, size_t> places; // in the list of texts, by the sequence
  uint32_t longest = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Text& text = texts[i];
    if (text.tokens.size() + text.most > batch_->size().context) continue;
    const auto known = [&](uint32_t token) { return token < batch_->runner().model().shape().vocabulary; };
    if (!std::ranges::all_of(text.tokens, known)) continue;
    SequenceRequest request;
    request.prompt.assign(text.tokens.begin(), text.tokens.end());
    request.sampling = *text.sampling;
    request.sampling.log_probabilities = 0;
    request.max_tokens = text.most;
    PUMICE_TRY(const uint32_t id, batch_->add(std::move(request)));
    places[id] = i;
    longest = std::max(longest, text.most);
  }
  while (batch_->sequences() > 0) {
    const Result<std::span<const BatchToken>> tokens = batch_->step();
    if (!tokens.ok()) {
      (void)batch_->stop_all();
      return tokens.error();
    }
    for (const BatchToken& each : *tokens) drafts[places.at(each.sequence)].push_back(each.token);
  }
  for (std::vector<uint32_t>& draft : drafts) {
    const auto unknown = std::ranges::find_if(draft, [&](uint32_t token) { return token >= vocabulary_; });
    draft.erase(unknown, draft.end());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Drafter::took(took.count(), longest);
  return drafts;
}

} // namespace pumice
