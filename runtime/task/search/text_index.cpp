#include "task/search/text_index.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace pumice {

namespace {

namespace fs = std::filesystem;

constexpr size_t texts_at_a_time = 1024; // that are tokenized before they are encoded

bool same_file(const IndexedFile& a, const IndexedFile& b) {
  return a.same_as(b);
}

// The first row of each file.
std::vector<size_t> first_rows(const IndexHead& head) {
  std::vector<size_t> rows;
  size_t sum = 0;
  for (const IndexedFile& file : head.files) {
    rows.push_back(sum);
    sum += file.passages;
  }
  return rows;
}

// Brings an index up to date with its folder.
class IndexUpdate {
public:
  IndexUpdate(const fs::path& folder, const fs::path& index, Embedder& embedder, std::vector<Error>& left_out)
      : folder_(folder), index_(index), embedder_(embedder), left_out_(left_out) {}

  Status run(const std::string& settings, bool rebuild, const TextIndex::OnPassages& on_passages,
             const Progress& progress) {
    if (is_index(folder_)) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: it is an index of pumice search: give the folder with the texts that it was "
                      "made of",
                      path_text(folder_))};
    }
    PUMICE_TRY(IndexHead old, read_index_head(index_));
    new_.model = fmt::format("{:016x}", embedder_.runner().model().identity());
    new_.settings = settings;
    new_.dimensions = embedder_.columns();
    if (!old.files.empty() && !rebuild) PUMICE_CHECK(check_same(old));
    if (rebuild) old = {};
    PUMICE_TRY(new_.files, find_text_files(folder_, index_));
    if (!old.files.empty() && std::ranges::equal(old.files, new_.files, same_file)) return {};
    return write(old, on_passages, progress);
  }

private:
  Status check_same(const IndexHead& old) const {
    if (old.model == new_.model && old.settings == new_.settings) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{}: it was made with {}: give that model and these options, or --rebuild",
                             path_text(index_),
                             old.model == new_.model ? "other options (" + old.settings + ")"
                                                     : std::string("another model"))};
  }

  Status write(const IndexHead& old, const TextIndex::OnPassages& on_passages, const Progress& progress) {
    std::vector<Passage> kept;
    IndexVectors vectors(index_, embedder_.plan().sparse, new_.dimensions);
    if (!old.files.empty()) {
      PUMICE_TRY(kept, read_passages(index_));
      PUMICE_CHECK(vectors.read(old.passages()));
      if (kept.size() != old.passages()) return vectors.not_together();
    }
    collect(old, kept);
    if (passages_.empty() && !left_out_.empty()) return left_out_.front();
    if (passages_.empty()) {
      return Error{Code::not_found, fmt::format("{}: there is no text in it", path_text(folder_))};
    }
    std::error_code error;
    fs::create_directories(index_, error);
    const auto added = static_cast<size_t>(std::ranges::count(from_, SIZE_MAX));
    if (on_passages) on_passages(passages_.size(), added);
    const Status encoded = write_vectors(vectors, added, progress);
    if (!passages_.empty()) {
      PUMICE_CHECK(write_passages(index_, passages_));
      PUMICE_CHECK(write_index_head(index_, new_));
    }
    return encoded;
  }

  // The passages of the new index; from_ says where each one's vector is in the old index.
  void collect(const IndexHead& old, const std::vector<Passage>& kept) {
    const std::vector<size_t> first = first_rows(old);
    for (size_t i = 0; i < new_.files.size(); ++i) {
      IndexedFile& file = new_.files[i];
      const auto number = static_cast<uint32_t>(i);
      const auto same =
          std::ranges::find_if(old.files, [&](const IndexedFile& other) { return other.same_as(file); });
      if (same != old.files.end()) {
        const size_t row = first[static_cast<size_t>(same - old.files.begin())];
        file.passages = same->passages;
        for (size_t at = row; at < row + same->passages; ++at) {
          passages_.push_back({number, kept[at].line, kept[at].text});
          from_.push_back(at);
        }
        continue;
      }
      Result<std::vector<Passage>> cut = cut_file(folder_, file, number);
      if (!cut.ok()) {
        file.time = -1; // it is tried again
        left_out_.push_back(std::move(cut).error());
        continue;
      }
      file.passages = cut->size();
      for (Passage& passage : *cut) {
        passages_.push_back(std::move(passage));
        from_.push_back(SIZE_MAX);
      }
    }
  }

  // In the order of the passages, whether their vectors are kept or new. Where encoding them does not come to
  // its end, the new ones that are left go from the index, and the next update goes on there.
  Status write_vectors(IndexVectors& vectors, size_t added, const Progress& progress) {
    PUMICE_CHECK(vectors.open());
    size_t next = 0, done = 0;
    const auto write_kept = [&]() -> Status {
      for (; next < from_.size() && from_[next] != SIZE_MAX; ++next) PUMICE_CHECK(vectors.keep(from_[next]));
      return {};
    };
    const auto write_new = [&](size_t, std::vector<float> row) -> Status {
      PUMICE_CHECK(vectors.add(embedder_.vector(std::move(row))));
      ++next;
      ++done;
      return write_kept();
    };
    const Progress of_all = [&](uint64_t, uint64_t) { return !progress || progress(done, added); };
    PUMICE_CHECK(write_kept());
    Status status;
    while (status.ok() && done < added) {
      const std::vector<EncoderInput> inputs = read_new(next, added);
      status = embedder_.runner().run(inputs, write_new, of_all);
      if (status.ok()) status = write_kept(); // behind one that was left out
    }
    while (next < from_.size()) {
      leave_out(next);
      PUMICE_CHECK(write_kept());
    }
    if (passages_.empty()) return status.ok() ? Status(left_out_.front()) : status; // an older index stays
    std::error_code none;
    fs::remove(index_ / "config.json", none); // from here on there is no index until the new one is whole
    PUMICE_CHECK(vectors.finish());
    return status;
  }

  // Leaves out the passages without a vector from one on. Their file is then one to be read again.
  void leave_out(size_t at) {
    size_t end = at;
    for (; end < from_.size() && from_[end] == SIZE_MAX; ++end) {
      IndexedFile& file = new_.files[passages_[end].file];
      file.time = -1;
      --file.passages;
    }
    const auto first = static_cast<ptrdiff_t>(at), last = static_cast<ptrdiff_t>(end);
    passages_.erase(passages_.begin() + first, passages_.begin() + last);
    from_.erase(from_.begin() + first, from_.begin() + last);
  }

  // Those of the new passages from one on that come next. One that the model cannot read goes from the index,
  // and `added` counts it no more.
  std::vector<EncoderInput> read_new(size_t at, size_t& added) {
    std::vector<EncoderInput> inputs;
    while (at < passages_.size() && inputs.size() < texts_at_a_time) {
      IndexedFile& file = new_.files[passages_[at].file];
      Result<EncoderInput> input =
          from_[at] == SIZE_MAX
              ? embedder_.read(passages_[at].text, fmt::format("{}: line {}", file.path, passages_[at].line))
              : Result<EncoderInput>(EncoderInput());
      if (!input.ok()) {
        left_out_.push_back(std::move(input).error());
        passages_.erase(passages_.begin() + static_cast<ptrdiff_t>(at));
        from_.erase(from_.begin() + static_cast<ptrdiff_t>(at));
        --file.passages;
        --added;
        continue;
      }
      if (from_[at++] == SIZE_MAX) inputs.push_back(*std::move(input));
    }
    return inputs;
  }

  const fs::path &folder_, &index_;
  Embedder& embedder_;
  IndexHead new_;
  std::vector<Passage> passages_;
  std::vector<size_t> from_; // the row of the old index; SIZE_MAX: a new passage
  std::vector<Error>& left_out_;
};

} // namespace

Result<TextIndexPlan> TextIndexPlan::of(const ModelFile& file, const TextIndexOptions& options,
                                        std::shared_ptr<const Tokenizer> loaded) {
  TextIndexPlan plan;
  EmbedderPlan& embedder = plan.embedder;
  EmbedderOptions as_embedder;
  as_embedder.pooling = options.pooling;
  as_embedder.dimensions = options.dimensions;
  as_embedder.sparse = options.sparse;
  as_embedder.run = options.run;
  PUMICE_TRY(embedder, EmbedderPlan::of_texts(file, as_embedder, std::move(loaded)));
  const EncoderShape shape = embedder.model.shape();
  const SentenceSettings& settings = embedder.settings;
  if (!embedder.sparse) {
    embedder.model.output = pooled_tensor(settings, shape);
    embedder.normalize = true;
    if (!embedder.dimensions) embedder.dimensions = settings.columns(shape.hidden);
  }
  plan.before_query = options.query_prefix.empty()
                          ? settings.first_prompt({"query", "search_query", "Retrieval-query"})
                          : options.query_prefix;
  embedder.before =
      options.text_prefix.empty()
          ? settings.first_prompt({"document", "passage", "search_document", "Retrieval-document"})
          : options.text_prefix;
  return plan;
}

std::string TextIndexPlan::settings() const {
  if (embedder.sparse) return fmt::format("sparse vectors, before a text '{}'", embedder.before);
  return fmt::format("pooling {}, {} dimensions, before a text '{}'",
                     embedder.model.output.substr(std::string_view("pooled_").size()), embedder.dimensions,
                     embedder.before);
}

Result<std::unique_ptr<TextIndex>> TextIndex::create(std::shared_ptr<const Model> model, TextIndexPlan plan,
                                                     fs::path folder, fs::path index) {
  std::unique_ptr<TextIndex> result(
      new TextIndex(plan.before_query, plan.settings(), std::move(folder), std::move(index)));
  PUMICE_TRY(result->embedder_, Embedder::create(std::move(model), std::move(plan.embedder)));
  return result;
}

Status TextIndex::update(bool rebuild, const OnPassages& on_passages, const Progress& progress) {
  scores_.reset(); // reads the index's files
  sparse_.reset();
  left_out_.clear();
  PUMICE_CHECK(
      IndexUpdate(folder_, index_, *embedder_, left_out_).run(settings_, rebuild, on_passages, progress));
  return open();
}

Status TextIndex::open() {
  PUMICE_TRY(head_, read_index_head(index_));
  PUMICE_TRY(passages_, read_passages(index_));
  if (embedder_->plan().sparse) {
    PUMICE_TRY(sparse_, SparseVectors::read(index_ / index_vectors_file, embedder_->columns()));
    if (sparse_->count() == passages_.size()) return {};
    return IndexVectors(index_, true, embedder_->columns()).not_together();
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(index_));
  LoadOptions load;
  load.threads = runner().model().options().threads;
  PUMICE_TRY(std::shared_ptr<const Model> vectors,
             Model::load(std::move(file), runner().model().context(), {}, load));
  EncoderOptions options;
  options.readable = {"scores"};
  PUMICE_TRY(scores_, Encoder::create(std::move(vectors), std::move(options)));
  return {};
}

Result<EncoderInput> TextIndex::read(const std::string& query, const std::string& name) {
  return runner().read(before_query_ + query, name);
}

// Of all passages.
Result<std::vector<float>> TextIndex::scores(const std::vector<float>& query) {
  if (sparse_) {
    std::vector<float> scores(passages_.size());
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = sparse_->product(i, query);
    return scores;
  }
  EncoderInput input;
  input.values = query;
  PUMICE_CHECK(scores_->encode(std::span(&input, 1)));
  return scores_->read("scores", 0);
}

Result<std::vector<TextIndex::Found>> TextIndex::find(std::vector<float> row, size_t most) {
  if (!scores_ && !sparse_) {
    return Error{Code::not_ready, fmt::format("{}: bring the index up to date first", path_text(index_))};
  }
  PUMICE_TRY(const std::vector<float> scores, this->scores(embedder_->vector(std::move(row))));
  std::vector<size_t> order(passages_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(most, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  std::vector<Found> found;
  for (size_t i = 0; i < count; ++i) {
    if (sparse_ && scores[order[i]] <= 0) break;
    const Passage& passage = passages_[order[i]];
    found.push_back({scores[order[i]], &passage, &head_.files[passage.file].path});
  }
  return found;
}

} // namespace pumice
