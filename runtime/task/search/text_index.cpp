#include "task/search/text_index.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "io/formats/safetensors.h"
#include "io/formats/vector_file.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;

constexpr const char* vectors_file = "model.safetensors";
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
  IndexUpdate(const fs::path& folder, const fs::path& index, Embedder& embedder)
      : folder_(folder), index_(index), embedder_(embedder) {}

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
    SafetensorsFile vectors;
    if (!old.files.empty()) {
      PUMICE_TRY(kept, read_passages(index_));
      PUMICE_TRY(vectors, SafetensorsFile::open(index_ / vectors_file));
    }
    PUMICE_TRY(const std::vector<float> rows, old_rows(old, vectors, kept.size()));
    PUMICE_CHECK(collect(old, kept));
    if (passages_.empty()) {
      return Error{Code::not_found, fmt::format("{}: there is no text in it", path_text(folder_))};
    }
    std::error_code error;
    fs::create_directories(index_, error);
    const auto added = static_cast<size_t>(std::ranges::count(from_, SIZE_MAX));
    if (on_passages) on_passages(passages_.size(), added);
    const Status encoded = write_vectors(rows, added, progress);
    if (!passages_.empty()) {
      PUMICE_CHECK(write_passages(index_, passages_));
      PUMICE_CHECK(write_index_head(index_, new_));
    }
    return encoded;
  }

  Result<std::vector<float>> old_rows(const IndexHead& old, const SafetensorsFile& vectors,
                                      size_t passages) const {
    if (old.files.empty()) return std::vector<float>();
    const SafetensorsFile::Entry* entry = vectors.find("embeddings");
    const std::vector<uint64_t> shape = {old.passages(), old.dimensions};
    if (!entry || entry->shape != shape || passages != old.passages()) {
      return Error{Code::invalid_file,
                   fmt::format("{}: its files do not belong together: make it again with --rebuild",
                               path_text(index_))};
    }
    return SafetensorsFile::floats(*entry);
  }

  // The passages of the new index; from_ says where each one's vector is in the old index.
  Status collect(const IndexHead& old, const std::vector<Passage>& kept) {
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
      PUMICE_TRY(std::vector<Passage> cut, cut_file(folder_, file, number));
      file.passages = cut.size();
      for (Passage& passage : cut) {
        passages_.push_back(std::move(passage));
        from_.push_back(SIZE_MAX);
      }
    }
    return {};
  }

  // In the order of the passages, whether their vectors are kept or new. Where encoding them does not come to
  // its end, the new ones that are left go from the index, and the next update goes on there.
  Status write_vectors(const std::vector<float>& rows, size_t added, const Progress& progress) {
    VectorFile file;
    PUMICE_CHECK(file.open(index_ / vectors_file, new_.dimensions));
    size_t next = 0, done = 0;
    const auto write_kept = [&]() -> Status {
      for (; next < from_.size() && from_[next] != SIZE_MAX; ++next) {
        const auto begin = rows.begin() + static_cast<ptrdiff_t>(from_[next] * new_.dimensions);
        PUMICE_CHECK(file.write({begin, begin + new_.dimensions}));
      }
      return {};
    };
    const auto write_new = [&](size_t, std::vector<float> row) -> Status {
      PUMICE_CHECK(file.write(embedder_.vector(std::move(row))));
      ++next;
      ++done;
      return write_kept();
    };
    const Progress of_all = [&](uint64_t, uint64_t) { return !progress || progress(done, added); };
    PUMICE_CHECK(write_kept());
    Status status;
    while (status.ok() && done < added) {
      const Result<std::vector<EncoderInput>> inputs = read_new(next);
      status = inputs.ok() ? embedder_.runner().run(*inputs, write_new, of_all) : Status(inputs.error());
    }
    while (next < from_.size()) {
      leave_out(next);
      PUMICE_CHECK(write_kept());
    }
    if (passages_.empty()) return status; // an older index stays
    std::error_code none;
    fs::remove(index_ / "config.json", none); // from here on there is no index until the new one is whole
    PUMICE_CHECK(file.finish());
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

  // Those of the new passages from one on that come next.
  Result<std::vector<EncoderInput>> read_new(size_t at) {
    std::vector<EncoderInput> inputs;
    for (; at < passages_.size() && inputs.size() < texts_at_a_time; ++at) {
      if (from_[at] != SIZE_MAX) continue;
      const Passage& passage = passages_[at];
      const std::string name = fmt::format("{}: line {}", new_.files[passage.file].path, passage.line);
      PUMICE_TRY(EncoderInput input, embedder_.read(passage.text, name));
      inputs.push_back(std::move(input));
    }
    return inputs;
  }

  const fs::path &folder_, &index_;
  Embedder& embedder_;
  IndexHead new_;
  std::vector<Passage> passages_;
  std::vector<size_t> from_; // the row of the old index; SIZE_MAX: a new passage
};

} // namespace

Result<TextIndexPlan> TextIndexPlan::of(const ModelFile& file, const TextIndexOptions& options,
                                        std::shared_ptr<const Tokenizer> loaded) {
  TextIndexPlan plan;
  EmbedderPlan& embedder = plan.embedder;
  EmbedderOptions as_embedder;
  as_embedder.pooling = options.pooling;
  as_embedder.dimensions = options.dimensions;
  as_embedder.run = options.run;
  PUMICE_TRY(embedder, EmbedderPlan::of_texts(file, as_embedder, std::move(loaded)));
  const EncoderShape shape = embedder.model.shape();
  const SentenceSettings& settings = embedder.settings;
  embedder.model.output = pooled_tensor(settings, shape);
  embedder.normalize = true;
  if (!embedder.dimensions) embedder.dimensions = settings.columns(shape.hidden);
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
  PUMICE_CHECK(IndexUpdate(folder_, index_, *embedder_).run(settings_, rebuild, on_passages, progress));
  return open();
}

Status TextIndex::open() {
  PUMICE_TRY(head_, read_index_head(index_));
  PUMICE_TRY(passages_, read_passages(index_));
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

Result<std::vector<TextIndex::Found>> TextIndex::find(std::vector<float> row, size_t most) {
  if (!scores_) {
    return Error{Code::not_ready, fmt::format("{}: bring the index up to date first", path_text(index_))};
  }
  EncoderInput input;
  input.values = embedder_->vector(std::move(row));
  PUMICE_CHECK(scores_->encode(std::span(&input, 1)));
  PUMICE_TRY(const std::vector<float> scores, scores_->read("scores", 0));
  std::vector<size_t> order(passages_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(most, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  std::vector<Found> found;
  for (size_t i = 0; i < count; ++i) {
    const Passage& passage = passages_[order[i]];
    found.push_back({scores[order[i]], &passage, &head_.files[passage.file].path});
  }
  return found;
}

} // namespace pumice
