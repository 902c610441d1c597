#include "serve/models/served_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guarded.h"
#include "base/path.h"
#include "loading/draft_model.h"
#include "loading/fitting_size.h"
#include "loading/picture_tower.h"
#include "model/session_memory.h"
#include "model/vocabulary.h"
#include "process/processes.h"
#include "serve/http/error.h"
#include "task/load_model.h"
#include "task/model_kind.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::serve {

using command::OpenedDevice;

namespace {

command::SizeOptions size_for(const ModelOptions& options, const ModelShape& shape) {
  command::SizeOptions size = options.size;
  if (options.own_context && shape.context > 0) size.context = std::min(size.context, shape.context);
  return size;
}

} // namespace

Result<std::unique_ptr<TextModel>> TextModel::load(OpenedModel opened, const OpenedDevice& device,
                                                   const ModelOptions& options) {
  PUMICE_CHECK(command::check_biases(options.sampling, opened.definition->shape().vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  PUMICE_TRY(ChatTemplates templates, ChatTemplates::of(opened.file));
  PUMICE_TRY(command::NamedAdapters adapters, command::NamedAdapters::load(options.adapters, opened));
  command::SizeOptions size = size_for(options, opened.definition->shape());
  std::shared_ptr<const Model> tower_model;
  std::optional<PictureRows> tower;
  PUMICE_TRY(const ChatMedia media, ChatMedia::open(opened.file, opened.definition->shape()));
  const bool in_stages = command::others() || !device.before.empty();
  if (media.has_vision() || media.hears()) {
    if (in_stages) {
      return wrong_kind(opened.file.path(), opened.definition->shape(),
                        "it reads pictures or sounds in its prompt, which takes one device");
    }
    PUMICE_TRY(tower_model, command::load_tower(tower_path(opened.file), device, size.load));
    PUMICE_TRY(tower, PictureRows::create(tower_model, *opened.definition->shape().pictures));
  }
  PUMICE_TRY(std::shared_ptr<const Model> model,
             command::load_model(std::move(opened), device, size.load, &size));
  SessionOptions session;
  session.size = command::session_size(size, model->shape());
  // Where texts share pages, many run in the memory of eight that fill their contexts: most are shorter.
  constexpr uint32_t full_texts = 8, many_texts = 32;
  session.size.sequences = options.sequences ? options.sequences : in_stages ? full_texts : many_texts;
  session.size.pages = options.sequences || size.cache_tokens ? command::cache_pages(size)
                                                              : full_texts * pages_for(session.size.context);
  const uint64_t binding = device.context.capabilities().max_storage_range_bytes;
  const bool too_large = std::ranges::any_of(model->shape().layers, [&](const LayerCache& layer) {
    const CacheLayout layout = cache_layout(layer, session.size);
    return layout.pages > 0 && layout.longer_bytes() > binding;
  });
  if (!options.sequences && too_large) session.size.sequences = full_texts; // there is room for all of them
  session.size.chunk = std::max(session.size.chunk, session.size.sequences);
  session.adapters = adapters.room(session.size.sequences, true);
  session.max_stall_seconds = size.max_stall_ms * 1e-3;
  PUMICE_TRY(session.draft_model, command::load_draft_model(size, device, *model));
  std::unique_ptr<TextModel> text(
      new TextModel(model, std::move(tokenizer), std::move(templates), options.sampling));
  text->adapters_ = std::move(adapters);
  text->tower_model_ = std::move(tower_model);
  text->tower_ = std::move(tower);
  text->ends_ = end_tokens(model->file(), text->tokenizer_.get());
  Result<std::unique_ptr<Scheduler>> scheduler = Scheduler::create(model, session, options.most_waiting);
  if (!scheduler.ok()) {
    Error error = scheduler.error();
    if (error.code == Code::out_of_memory)
      error.message += ": choose a shorter --context, fewer --sequences or --cache-tokens";
    return error;
  }
  text->scheduler_ = *std::move(scheduler);
  return text;
}

Result<ModelChat> TextModel::chat(bool with_tools) {
  if (!has_chat()) {
    return Error{Code::unsupported,
                 fmt::format("{}: it has no chat template: continue a text with /v1/completions",
                             path_text(path_of(file().path())))};
  }
  const std::tm now = fmt::localtime(std::time(nullptr));
  const std::lock_guard lock(mutex_);
  if (std::exchange(day_, now.tm_yday) != now.tm_yday) {
    for (std::optional<ModelChat>& each : chats_) each.reset();
  }
  std::optional<ModelChat>& known = chats_[with_tools];
  if (!known) {
    PUMICE_TRY(ChatTemplate chosen, templates_.choose("", with_tools));
    PUMICE_TRY(known, ModelChat::open(file(), shape(), std::move(chosen), tokenizer_,
                                      {now, 0, "this server takes the model's own template"}));
    (void)known->chat().written_call(); // found once for all copies
  }
  return *known;
}

Status TextModel::encode(const MediumParts& parts, Exchange& exchange) {
  constexpr std::chrono::milliseconds between_looks(50);
  const std::lock_guard lock(tower_mutex_);
  left_ = false;
  exchange.when_gone([this] { left_ = true; });
  const auto work = [&]() -> Status {
    for (const std::shared_ptr<MediumPart>& each : parts) {
      if (each->encoded()) continue;
      do {
        if (left_) return Error{Code::cancelled, "the client is gone"};
      } while (!each->prepare(std::chrono::steady_clock::now() + between_looks));
      PUMICE_TRY(std::vector<std::vector<float>> rows, tower_->rows(std::span(&each->input, 1), &left_));
      each->rows = std::move(rows.front());
      each->input = {};
    }
    return {};
  };
  const Status status = guarded(work);
  exchange.when_gone({});
  return status;
}

std::string TextModel::bytes(uint32_t token) {
  return tokenizer_->is_special(token) ? spelled(token) : std::string(forms_.get()->bytes(token));
}

Result<std::unique_ptr<VectorModel>> VectorModel::load(ModelFile file, const OpenedDevice& device,
                                                       const LoadOptions& options,
                                                       const std::string& search) {
  PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_texts(file, {}));
  PUMICE_TRY(TextIndexPlan index, TextIndexPlan::of(file, {}, plan.model.tokenizer));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             command::load_model(std::move(file), device, plan.model.load(options)));
  PUMICE_TRY(std::unique_ptr<Embedder> embedder, Embedder::create(model, std::move(plan)));
  std::unique_ptr<VectorModel> made(new VectorModel(model, std::move(embedder)));
  made->before_query_ = index.before_query;
  made->before_text_ = index.embedder.before;
  if (search.empty()) return made;
  PUMICE_TRY(made->index_, TextIndex::create(std::move(model), std::move(index), path_of(search),
                                             path_of(search + ".index")));
  PUMICE_CHECK(made->index_->update(false, [&](size_t passages, size_t added) {
    command::print_note(
        fmt::format("{}: {}, of which {} new", search, command::counted(passages, "passage"), added));
  }));
  for (const Error& error : made->index_->left_out()) command::print_note(error.text());
  return made;
}

Result<std::vector<VectorModel::Found>> VectorModel::search(const std::string& query,
                                                            const std::vector<std::string>& texts,
                                                            size_t most, const Progress& progress,
                                                            uint64_t& tokens) {
  const std::lock_guard lock(mutex_);
  InputRunner& runner = texts.empty() ? index_->runner() : embedder_->runner();
  std::vector<EncoderInput> inputs;
  const auto read = [&](const std::string& text, const std::string& name) -> Status {
    PUMICE_TRY(EncoderInput input, runner.read(text, name));
    tokens += input.tokens.size();
    inputs.push_back(std::move(input));
    return {};
  };
  PUMICE_CHECK(read(before_query_ + query, request_field("query")));
  for (size_t i = 0; i < texts.size(); ++i)
    PUMICE_CHECK(read(before_text_ + texts[i], request_field(fmt::format("documents[{}]", i))));
  std::vector<std::vector<float>> rows(inputs.size());
  const auto take = [&](size_t index, std::vector<float> row) -> Status {
    rows[index] = std::move(row);
    return {};
  };
  PUMICE_CHECK(runner.run(inputs, take, progress));
  std::vector<Found> all;
  if (texts.empty()) {
    PUMICE_TRY(const std::vector<TextIndex::Found> found, index_->find(std::move(rows[0]), most));
    for (const TextIndex::Found& each : found)
      all.push_back({each.score, each.passage->text, *each.file, each.passage->line});
    return all;
  }
  for (std::vector<float>& row : rows) {
    row = embedder_->vector(std::move(row));
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (float& each : row) each = static_cast<float>(length > 0 ? each / length : 0);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const double cosine = std::inner_product(rows[0].begin(), rows[0].end(), rows[i + 1].begin(), 0.0);
    all.push_back({static_cast<float>(cosine), texts[i], "", i});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Found::score);
  all.resize(std::min(all.size(), most));
  return all;
}

Result<VectorModel::Vectors> VectorModel::embed(const std::vector<std::string>& texts, uint32_t dimensions,
                                                const std::string& input, const Progress& progress) {
  if (dimensions > columns()) {
    return Error{Code::invalid_argument, fmt::format("{} is {}: expected at most {}, as this model has",
                                                     request_field("dimensions"), dimensions, columns())};
  }
  Vectors result;
  const std::lock_guard lock(mutex_);
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < texts.size(); ++i) {
    PUMICE_TRY(EncoderInput read, embedder_->read(texts[i], request_field(fmt::format("{}[{}]", input, i))));
    result.tokens += read.tokens.size();
    inputs.push_back(std::move(read));
  }
  result.vectors.resize(texts.size());
  const auto take = [&](size_t index, std::vector<float> row) -> Status {
    std::vector<float>& vector = result.vectors[index];
    vector = embedder_->vector(std::move(row));
    if (dimensions == 0 || dimensions == vector.size()) return {};
    vector.resize(dimensions);
    double sum = 0;
    for (const float each : vector) sum += double{each} * each;
    const auto scale = static_cast<float>(sum > 0 ? 1 / std::sqrt(sum) : 0);
    if (embedder_->plan().normalize)
      for (float& each : vector) each *= scale;
    return {};
  };
  PUMICE_CHECK(embedder_->runner().run(inputs, take, progress));
  return result;
}

Result<std::unique_ptr<RankModel>> RankModel::load(ModelFile file, const OpenedDevice& device,
                                                   const LoadOptions& options) {
  PUMICE_TRY(RerankerPlan plan, RerankerPlan::of(file, {}));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             command::load_model(std::move(file), device, plan.model.load(options)));
  PUMICE_TRY(std::unique_ptr<Reranker> reranker, Reranker::create(std::move(model), std::move(plan)));
  return std::unique_ptr<RankModel>(new RankModel(std::move(reranker)));
}

Result<RankModel::Scores> RankModel::score(const std::string& query, const std::vector<std::string>& texts,
                                           const std::string& input, const Progress& progress) {
  Scores result;
  const std::lock_guard lock(mutex_);
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < texts.size(); ++i) {
    PUMICE_TRY(EncoderInput read,
               reranker_->read(query, texts[i], request_field(fmt::format("{}[{}]", input, i))));
    result.tokens += read.tokens.size();
    inputs.push_back(std::move(read));
  }
  result.scores.resize(texts.size());
  const auto take = [&](size_t index, const std::vector<float>& row) -> Status {
    result.scores[index] = reranker_->score(texts[index], row);
    return {};
  };
  PUMICE_CHECK(reranker_->runner().run(inputs, take, progress));
  return result;
}

const Tokenizer* ServedModel::tokenizer() const {
  if (text) return text->tokenizer().get();
  if (vectors) return &vectors->tokenizer();
  if (ranks) return &ranks->tokenizer();
  if (classes) return classes->tokenizer();
  if (translation) return &translation->tokenizer();
  if (voice) return &voice->tokenizer();
  return captions ? &captions->tokenizer() : speech->tokenizer();
}

Result<std::unique_ptr<ServedModel>> ServedModel::load(const std::string& path, std::string name,
                                                       const OpenedDevice& device,
                                                       const ModelOptions& options,
                                                       const std::string& search) {
  auto served = std::make_unique<ServedModel>();
  served->name = std::move(name);
  PUMICE_TRY(ModelFile file, command::open_with_mmproj(path, ""));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(std::move(file), options.size.load.settings));
  PUMICE_TRY(served->kind, ServedKind::read(opened));
  const LoadOptions& load = options.size.load;
  switch (served->kind.of) {
  case ServedKind::Of::text: {
    PUMICE_TRY(served->text, TextModel::load(std::move(opened), device, options));
    if (served->kind.transcribes) {
      PUMICE_TRY(served->speech, served->text->speech());
    }
    break;
  }
  case ServedKind::Of::vectors: {
    PUMICE_TRY(served->vectors, VectorModel::load(std::move(opened.file), device, load, search));
    if (served->kind.takes_labels) {
      PUMICE_TRY(served->classes, served->vectors->classes(device, load));
    }
    break;
  }
  case ServedKind::Of::ranks: {
    PUMICE_TRY(served->ranks, RankModel::load(std::move(opened.file), device, load));
    break;
  }
  case ServedKind::Of::classes:
  case ServedKind::Of::spans: {
    PUMICE_TRY(served->classes, ClassModel::load(std::move(opened.file), device, load));
    break;
  }
  case ServedKind::Of::translation: {
    PUMICE_TRY(served->translation, TranslationModel::load(std::move(opened), device, load));
    break;
  }
  case ServedKind::Of::captions: {
    PUMICE_TRY(served->captions, CaptionModel::load(std::move(opened), device, load));
    break;
  }
  case ServedKind::Of::speech: {
    PUMICE_TRY(served->speech, SpeechModel::load(std::move(opened), device, load));
    break;
  }
  case ServedKind::Of::voice: {
    PUMICE_TRY(served->voice,
               VoiceModel::load(std::move(opened), device, size_for(options, opened.definition->shape()),
                                options.voices));
    break;
  }
  }
  return served;
}

} // namespace pumice::serve
