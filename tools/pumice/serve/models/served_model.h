#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loading/open_device.h"
#include "options/adapter_options.h"
#include "options/options.h"
#include "serve/models/scheduler.h"
#include "serve/models/served_kind.h"
#include "serve/models/task_models.h"
#include "step/picture_rows.h"
#include "task/chat.h"
#include "task/embedder.h"
#include "task/reranker.h"
#include "task/search/text_index.h"

namespace pumice::serve {

struct ModelOptions {
  command::SizeOptions size;
  command::SamplingOptions sampling; // where requests do not say
  uint32_t sequences = 0;            // texts that run at a time; 0: as the device has it
  uint32_t most_waiting = 512;
  std::vector<std::string> adapters;         // of the first model that continues texts, see NamedAdapters
  bool own_context = false;                  // of a model that has less than the context that was asked for
  std::map<std::string, std::string> voices; // of models that speak: profiles by their names
  std::string search; // a folder with texts, which the first model for vectors finds passages in; empty: none
};

// A model that continues texts, and what its requests are read with.
class TextModel {
public:
  static Result<std::unique_ptr<TextModel>> load(OpenedModel opened, const command::OpenedDevice& device,
                                                 const ModelOptions& options);

  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const ModelShape& shape() const { return model_->shape(); }
  const ModelFile& file() const { return model_->file(); }
  const std::vector<uint32_t>& ends() const { return ends_; }
  Scheduler& scheduler() { return *scheduler_; }
  LazyFormVocabulary& forms() { return forms_; }
  const command::SamplingOptions& sampling() const { return sampling_; }
  bool has_chat() const { return !templates_.empty(); }
  // A chat without messages. not_found for a model without a template.
  Result<ModelChat> chat(bool with_tools);
  // Runs the tower for those parts that have no rows yet, one request at a time, until the client is gone.
  Status encode(const MediumParts& parts, Exchange& exchange);
  // What writes down speech, of a model that does that beside its chats.
  Result<std::unique_ptr<SpeechModel>> speech() const { return SpeechModel::create(model_, tower_model_); }
  // Those that requests choose from, by their numbers there.
  const std::vector<command::NamedAdapters::Use>& adapters() const { return adapters_.uses(); }
  const AdapterChoice& usual_adapter() const { return adapters_.usual(); }
  AdapterChoice adapter(const std::vector<float>& scales) {
    const std::lock_guard lock(mutex_);
    return adapters_.choose(scales);
  }
  // Whether and how a token is text.
  std::string spelled(uint32_t token) { return tokenizer_->decode(std::span(&token, 1), true); }
  std::string bytes(uint32_t token);

private:
  TextModel(std::shared_ptr<const Model> model, std::shared_ptr<const Tokenizer> tokenizer,
            ChatTemplates templates, const command::SamplingOptions& sampling)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), templates_(std::move(templates)),
        sampling_(sampling), forms_(tokenizer_) {}

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ChatTemplates templates_;
  const command::SamplingOptions sampling_;
  std::vector<uint32_t> ends_;
  LazyFormVocabulary forms_;
  std::unique_ptr<Scheduler> scheduler_;

  // Reading a template takes longer than copying what was read. Templates write the date.
  std::mutex mutex_;
  int day_ = -1;
  std::optional<ModelChat> chats_[2]; // without and with tools
  command::NamedAdapters adapters_;

  std::mutex tower_mutex_;
  std::shared_ptr<const Model> tower_model_; // of a model that sees or hears; otherwise null
  std::optional<PictureRows> tower_;
  std::atomic<bool> left_ = false; // the client whose parts it runs for
};

// A model that turns texts into vectors.
class VectorModel {
public:
  // `search`: a folder of texts, or empty.
  static Result<std::unique_ptr<VectorModel>> load(ModelFile file, const command::OpenedDevice& device,
                                                   const LoadOptions& options, const std::string& search);

  struct Vectors {
    std::vector<std::vector<float>> vectors;
    uint64_t tokens = 0;
  };
  // One request at a time. `dimensions`: the first so many; 0: all. `input`: the field that has the texts.
  Result<Vectors> embed(const std::vector<std::string>& texts, uint32_t dimensions, const std::string& input,
                        const Progress& progress);
  struct Found {
    float score = 0;        // the cosine
    std::string text, file; // the file is empty for a text of the request
    uint64_t place = 0;     // a text's index, or a file's line
  };
  // The best texts for a query, of these or, if there are none, of the folder's passages.
  Result<std::vector<Found>> search(const std::string& query, const std::vector<std::string>& texts,
                                    size_t most, const Progress& progress, uint64_t& tokens);
  bool searches() const { return index_ != nullptr; }
  const Tokenizer& tokenizer() const { return *embedder_->plan().model.tokenizer; }
  uint32_t columns() const { return embedder_->columns(); }
  uint32_t limit() const { return embedder_->runner().limit(); }
  // Of a model of texts and pictures in one space: finds labels of pictures, see ClassModel.
  Result<std::unique_ptr<ClassModel>> classes(const command::OpenedDevice& device,
                                              const LoadOptions& options) const {
    return ClassModel::of_space(model_, device, options);
  }

private:
  VectorModel(std::shared_ptr<const Model> model, std::unique_ptr<Embedder> embedder)
      : model_(std::move(model)), embedder_(std::move(embedder)) {}

  const std::shared_ptr<const Model> model_;
  std::unique_ptr<Embedder> embedder_;
  std::string before_query_, before_text_; // where texts are searched
  std::unique_ptr<TextIndex> index_;
  std::mutex mutex_;
};

// A model that scores how well texts answer a query.
class RankModel {
public:
  static Result<std::unique_ptr<RankModel>> load(ModelFile file, const command::OpenedDevice& device,
                                                 const LoadOptions& options);

  struct Scores {
    std::vector<float> scores;
    uint64_t tokens = 0;
  };
  // One request at a time.
  Result<Scores> score(const std::string& query, const std::vector<std::string>& texts,
                       const std::string& input, const Progress& progress);
  const Tokenizer& tokenizer() const { return *reranker_->runner().source().tokenizer; }

private:
  explicit RankModel(std::unique_ptr<Reranker> reranker) : reranker_(std::move(reranker)) {}

  std::unique_ptr<Reranker> reranker_;
  std::mutex mutex_;
};

// A model by the name that requests have. One of its kinds is there, or two: text and
// speech, or vectors and classes.
struct ServedModel {
  std::string name;
  ServedKind kind;
  std::unique_ptr<TextModel> text;
  std::unique_ptr<VectorModel> vectors;
  std::unique_ptr<RankModel> ranks;
  std::unique_ptr<ClassModel> classes;
  std::unique_ptr<TranslationModel> translation;
  std::unique_ptr<CaptionModel> captions;
  std::unique_ptr<SpeechModel> speech;
  std::unique_ptr<VoiceModel> voice;

  // `search`: a folder of texts for a model that makes vectors, or empty.
  static Result<std::unique_ptr<ServedModel>> load(const std::string& path, std::string name,
                                                   const command::OpenedDevice& device,
                                                   const ModelOptions& options, const std::string& search);
  const Tokenizer* tokenizer() const; // null where it has none
};

} // namespace pumice::serve
