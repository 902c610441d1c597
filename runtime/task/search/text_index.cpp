#include "task/search/text_index.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace pumice {

namespace {

namespace fs = std::filesystem;

constexpr size_t texts_at_a_time = 1024;        // that are tokenized before they are encoded
constexpr uint32_t query_vectors_at_a_time = 8; // of late interaction: each has a product with all vectors

bool same_file(const IndexedFile& a, const IndexedFile& b) {
  return a.same_as(b);
}

// The first passage of each file.
std::vector<size_t> first_passages(const IndexHead& head) {
  std::vector<size_t> passages;
  size_t sum = 0;
  for (const IndexedFile& file : head.files) {
    passages.push_back(sum);
    sum += file.passages;
  }
  return passages;
}

// Brings an index up to date with its folder.
class IndexUpdate {
public:
  IndexUpdate(const fs::path& folder, const fs::path& index, IndexEncoder& encoder,
              std::vector<Error>& left_out)
      : folder_(folder), index_(index), encoder_(encoder), left_out_(left_out) {}

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
    new_.model = fmt::format("{:016x}", encoder_.runner().model().identity());
    new_.settings = settings;
    new_.dimensions = encoder_.columns();
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
    IndexVectors vectors(index_, encoder_.sparse(), new_.dimensions);
    if (!old.files.empty()) {
      PUMICE_TRY(kept, read_passages(index_));
      PUMICE_CHECK(vectors.read(vectors_of(kept)));
      if (kept.size() != old.passages()) return vectors.not_together();
    }
    collect(old, kept);
    if (passages_.empty() && !left_out_.empty()) return left_out_.front();
    if (passages_.empty()) {
      return Error{Code::not_found, fmt::format("{}: there is no text in it", path_text(folder_))};
    }
    std::error_code error;
    fs::create_directories(index_, error);
    const auto added = static_cast<size_t>(std::ranges::count(from_, is_new));
    if (on_passages) on_passages(passages_.size(), added);
    Status encoded;
    PUMICE_CHECK(write_vectors(vectors, added, progress, encoded));
    if (!passages_.empty()) PUMICE_CHECK(replace(vectors));
    return encoded;
  }

  // Puts the new files in the place of the older ones, once nothing is left to write: the older index stays
  // where the disk is full.
  Status replace(IndexVectors& vectors) {
    new_.vectors = vectors_of(passages_);
    OutputFile passages, head;
    PUMICE_CHECK(write_passages(passages, index_, passages_));
    PUMICE_CHECK(write_index_head(head, index_, new_));
    PUMICE_CHECK(vectors.flush());
    std::error_code none;
    fs::remove(index_ / "config.json", none); // from here on there is no index until the new one is whole
    PUMICE_CHECK(vectors.finish());
    PUMICE_CHECK(passages.finish());
    return head.finish();
  }

  // The passages of the new index; from_ says where each one's vectors are in the old index.
  void collect(const IndexHead& old, const std::vector<Passage>& kept) {
    const std::vector<size_t> first = first_passages(old);
    std::vector<uint64_t> vectors = {0}; // before each of the old passages
    for (const Passage& passage : kept) vectors.push_back(vectors.back() + passage.vectors);
    for (size_t i = 0; i < new_.files.size(); ++i) {
      IndexedFile& file = new_.files[i];
      const auto number = static_cast<uint32_t>(i);
      const auto same =
          std::ranges::find_if(old.files, [&](const IndexedFile& other) { return other.same_as(file); });
      if (same != old.files.end()) {
        const size_t passage = first[static_cast<size_t>(same - old.files.begin())];
        file.passages = same->passages;
        for (size_t at = passage; at < passage + same->passages; ++at) {
          passages_.push_back({number, kept[at].line, kept[at].text, kept[at].vectors});
          from_.push_back(vectors[at]);
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
        from_.push_back(is_new);
      }
    }
  }

  // In the order of the passages, whether their vectors are kept or new. Where encoding them does not come to
  // its end, the new ones that are left go from the index, and the next update goes on there.
  // `encoded`: how that ended.
  Status write_vectors(IndexVectors& vectors, size_t added, const Progress& progress, Status& encoded) {
    PUMICE_CHECK(vectors.open());
    size_t next = 0, done = 0;
    const auto write_kept = [&]() -> Status {
      for (; next < from_.size() && from_[next] != is_new; ++next)
        PUMICE_CHECK(vectors.keep(from_[next], passages_[next].vectors));
      return {};
    };
    const auto write_new = [&](size_t, std::vector<float> row) -> Status {
      Passage& passage = passages_[next];
      const std::vector<float> values = encoder_.passage(passage.text, std::move(row));
      passage.vectors = static_cast<uint32_t>(values.size() / encoder_.columns());
      PUMICE_CHECK(vectors.add(values));
      ++next;
      ++done;
      return write_kept();
    };
    const Progress of_all = [&](uint64_t, uint64_t) { return !progress || progress(done, added); };
    PUMICE_CHECK(write_kept());
    while (encoded.ok() && done < added) {
      const std::vector<EncoderInput> inputs = read_new(next, added);
      encoded = encoder_.runner().run(inputs, write_new, of_all);
      if (encoded.ok()) encoded = write_kept(); // behind one that was left out
    }
    while (next < from_.size()) {
      leave_out(next);
      PUMICE_CHECK(write_kept());
    }
    if (passages_.empty() && encoded.ok()) encoded = left_out_.front(); // an older index stays
    return {};
  }

  // Leaves out the passages without a vector from one on. Their file is then one to be read again.
  void leave_out(size_t at) {
    size_t end = at;
    for (; end < from_.size() && from_[end] == is_new; ++end) {
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
          from_[at] == is_new
              ? encoder_.read_passage(passages_[at].text,
                                      fmt::format("{}: line {}", file.path, passages_[at].line))
              : Result<EncoderInput>(EncoderInput());
      if (!input.ok()) {
        left_out_.push_back(std::move(input).error());
        passages_.erase(passages_.begin() + static_cast<ptrdiff_t>(at));
        from_.erase(from_.begin() + static_cast<ptrdiff_t>(at));
        --file.passages;
        --added;
        continue;
      }
      if (from_[at++] == is_new) inputs.push_back(*std::move(input));
    }
    return inputs;
  }

  const fs::path &folder_, &index_;
  IndexEncoder& encoder_;
  IndexHead new_;
  std::vector<Passage> passages_;
  static constexpr uint64_t is_new = UINT64_MAX;
  std::vector<uint64_t> from_; // the first vector in the old index, or is_new
  std::vector<Error>& left_out_;
};

} // namespace

Result<std::unique_ptr<TextIndex>> TextIndex::create(std::shared_ptr<const Model> model, TextIndexPlan plan,
                                                     fs::path folder, fs::path index, const Making& making) {
  std::unique_ptr<TextIndex> result(new TextIndex(plan.settings(), std::move(folder), std::move(index)));
  PUMICE_TRY(result->encoder_, IndexEncoder::create(std::move(model), std::move(plan), making));
  return result;
}

Status TextIndex::update(bool rebuild, const OnPassages& on_passages, const Progress& progress) {
  scores_.reset(); // reads the index's files
  sparse_.reset();
  left_out_.clear();
  PUMICE_CHECK(
      IndexUpdate(folder_, index_, *encoder_, left_out_).run(settings_, rebuild, on_passages, progress));
  return open();
}

Status TextIndex::open() {
  PUMICE_TRY(head_, read_index_head(index_));
  PUMICE_TRY(passages_, read_passages(index_));
  const Error apart = IndexVectors(index_, encoder_->sparse(), encoder_->columns()).not_together();
  const auto in_a_file = [&](const Passage& passage) { return passage.file < head_.files.size(); };
  if (vectors_of(passages_) != head_.vectors || !std::ranges::all_of(passages_, in_a_file)) return apart;
  if (encoder_->sparse()) {
    PUMICE_TRY(sparse_, SparseVectors::read(index_ / index_vectors_file, encoder_->columns()));
    return sparse_->count() == passages_.size() ? Status() : Status(apart);
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(index_));
  LoadOptions load;
  load.threads = runner().model().options().threads;
  PUMICE_TRY(std::shared_ptr<const Model> vectors,
             Model::load(std::move(file), runner().model().context(), {}, load));
  EncoderOptions options;
  options.readable = {"scores"};
  options.inputs = options.tokens = encoder_->late() ? query_vectors_at_a_time : 1;
  PUMICE_TRY(scores_, Encoder::create(std::move(vectors), std::move(options)));
  return {};
}

Result<EncoderInput> TextIndex::read(const std::string& query, const std::string& name) {
  return encoder_->read_query(query, name);
}

Status TextIndex::add_best(std::span<const EncoderInput> query, std::vector<float>& scores) {
  PUMICE_CHECK(scores_->encode(query));
  for (size_t i = 0; i < query.size(); ++i) {
    PUMICE_TRY(const std::vector<float> products, scores_->read("scores", i));
    auto product = products.begin();
    for (size_t at = 0; at < scores.size(); ++at) {
      const auto end = product + passages_[at].vectors;
      if (product != end) scores[at] += *std::max_element(product, end);
      product = end;
    }
  }
  return {};
}

// Of all passages.
Result<std::vector<float>> TextIndex::scores(const std::vector<float>& query) {
  std::vector<float> scores(passages_.size());
  if (sparse_) {
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = sparse_->product(i, query);
    return scores;
  }
  std::vector<EncoderInput> inputs;
  for (size_t at = 0; at < query.size(); at += encoder_->columns()) {
    const auto begin = query.begin() + static_cast<ptrdiff_t>(at);
    inputs.emplace_back().values.assign(begin, begin + encoder_->columns());
  }
  for (size_t at = 0; at < inputs.size(); at += query_vectors_at_a_time) {
    const size_t count = std::min<size_t>(query_vectors_at_a_time, inputs.size() - at);
    PUMICE_CHECK(add_best(std::span(inputs).subspan(at, count), scores));
  }
  return scores;
}

Result<std::vector<TextIndex::Found>> TextIndex::find(std::vector<float> row, size_t most) {
  if (!scores_ && !sparse_) {
    return Error{Code::not_ready, fmt::format("{}: bring the index up to date first", path_text(index_))};
  }
  PUMICE_TRY(const std::vector<float> scores, this->scores(encoder_->query(std::move(row))));
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
