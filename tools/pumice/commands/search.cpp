#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "io/formats/safetensors.h"
#include "loading/line_encoder.h"
#include "loading/sentence_settings.h"
#include "loading/text_index.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "output/vector_file.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

namespace fs = std::filesystem;

struct SearchOptions {
  LineOptions lines;
  std::string folder, index;
  TextOptions queries;
  std::string pooling, query_prefix, text_prefix;
  uint32_t dimensions = 0;
  uint32_t top = 5;
  bool rebuild = false;
  bool json = false;
};

// How a query and a text become vectors.
struct Embedding {
  SentenceSettings settings;
  std::string before_query, before_text;
  uint32_t dimensions = 0;

  // All that changes a text's vector, as the index keeps it.
  std::string text() const {
    return fmt::format("pooling {}, {} dimensions, before a text '{}'", settings.pooling, dimensions,
                       before_text);
  }
};

Result<Embedding> read_embedding(const SearchOptions& options, const TextEncoder& model) {
  Embedding embedding;
  PUMICE_TRY(embedding.settings, read_sentence_settings(model.file, options.pooling));
  const EncoderShape shape = *model.definition->shape().encoder;
  embedding.settings.pooling =
      pooled_tensor(embedding.settings, shape).substr(std::string_view("pooled_").size());
  const SentenceSettings& settings = embedding.settings;
  embedding.before_query = options.query_prefix.empty()
                               ? settings.first_prompt({"query", "search_query", "Retrieval-query"})
                               : options.query_prefix;
  embedding.before_text =
      options.text_prefix.empty()
          ? settings.first_prompt({"document", "passage", "search_document", "Retrieval-document"})
          : options.text_prefix;
  const uint32_t columns = settings.columns(shape.hidden);
  embedding.dimensions = options.dimensions ? options.dimensions : columns;
  if (embedding.dimensions <= columns) return embedding;
  return Error{Code::invalid_argument,
               fmt::format("--dimensions {}: the model's vectors have {}", options.dimensions, columns)};
}

// The model that makes vectors.
class Embedder {
public:
  static Result<std::unique_ptr<Embedder>> create(const SearchOptions& options) {
    PUMICE_TRY(TextEncoder model, open_text_encoder(options.lines.model));
    std::unique_ptr<Embedder> made(new Embedder());
    made->tokenizer_ = model.tokenizer;
    PUMICE_TRY(made->embedding_, read_embedding(options, model));
    const EncoderShape shape = *model.definition->shape().encoder;
    PUMICE_TRY(made->encoder_, LineEncoder::create(std::move(model), options.lines,
                                                   pooled_tensor(made->embedding_.settings, shape),
                                                   made->embedding_.settings.max_tokens));
    return made;
  }

  const Embedding& embedding() const { return embedding_; }
  LineEncoder& encoder() { return *encoder_; }

  // Vectors of length 1, in order.
  using Take = std::function<Status(const Line& line, std::vector<float> vector)>;
  Status run(WaitingLines& lines, const std::string& before, const Take& take) {
    return encoder_->run(
        lines,
        [&](const std::string& line, size_t limit) {
          return tokenizer_->encode_limited(before + line, limit);
        },
        [&](const Line& line, std::vector<float> pooled) {
          return take(line,
                      finish_vector(embedding_.settings, std::move(pooled), embedding_.dimensions, true));
        });
  }

private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  Embedding embedding_;
  std::unique_ptr<LineEncoder> encoder_;
};

// Brings an index up to date with its folder: vectors of unchanged files are kept.
class IndexUpdate {
public:
  IndexUpdate(const SearchOptions& options, fs::path index, Embedder& embedder)
      : options_(options), folder_(path_of(options.folder)), index_(std::move(index)), embedder_(embedder) {}

  Status run() {
    PUMICE_TRY(IndexHead old, read_index_head(index_));
    new_.model = fmt::format("{:016x}", embedder_.encoder().model_identity());
    new_.settings = embedder_.embedding().text();
    new_.dimensions = embedder_.embedding().dimensions;
    if (!old.files.empty()) PUMICE_CHECK(check_same(old));
    if (options_.rebuild) old = {};
    PUMICE_TRY(new_.files, find_text_files(folder_, index_));
    if (!old.files.empty() && is_same(old)) return {};
    return write(old);
  }

private:
  Status check_same(const IndexHead& old) const {
    if (options_.rebuild || (old.model == new_.model && old.settings == new_.settings)) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{}: it was made with {}: give that model and these options, or --rebuild",
                             path_text(index_),
                             old.model == new_.model ? "other options (" + old.settings + ")"
                                                     : std::string("another model"))};
  }

  bool is_same(const IndexHead& old) const {
    const auto same = [](const IndexedFile& a, const IndexedFile& b) { return a.same_as(b); };
    return std::ranges::equal(old.files, new_.files, same);
  }

  // The first row of each file.
  static std::vector<size_t> first_rows(const IndexHead& head) {
    std::vector<size_t> rows;
    size_t sum = 0;
    for (const IndexedFile& file : head.files) {
      rows.push_back(sum);
      sum += file.passages;
    }
    return rows;
  }

  Status write(const IndexHead& old) {
    std::vector<Passage> kept;
    SafetensorsFile vectors;
    if (!old.files.empty()) {
      PUMICE_TRY(kept, read_passages(index_));
      PUMICE_TRY(vectors, SafetensorsFile::open(index_ / "model.safetensors"));
    }
    PUMICE_TRY(const std::vector<float> rows, old_rows(old, vectors, kept.size()));
    PUMICE_CHECK(collect(old, kept));
    if (passages_.empty()) {
      return Error{Code::not_found, fmt::format("{}: there is no text in it", path_text(folder_))};
    }
    std::error_code error;
    fs::create_directories(index_, error);
    fs::remove(index_ / "config.json", error); // from here on there is no index until the new one is whole
    PUMICE_CHECK(write_vectors(rows));
    PUMICE_CHECK(write_passages(index_, passages_));
    return write_index_head(index_, new_);
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

  Status write_vectors(const std::vector<float>& rows) {
    TextOptions texts;
    for (size_t i = 0; i < passages_.size(); ++i)
      if (from_[i] == SIZE_MAX) texts.texts.push_back(passages_[i].text);
    print_note(fmt::format("{}: {}, of which {} new", path_text(index_), counted(passages_.size(), "passage"),
                           texts.texts.size()));
    VectorFile file;
    PUMICE_CHECK(file.open(index_ / "model.safetensors", new_.dimensions));
    size_t next = 0;
    const auto write_kept = [&]() -> Status {
      for (; next < from_.size() && from_[next] != SIZE_MAX; ++next) {
        const auto begin = rows.begin() + static_cast<ptrdiff_t>(from_[next] * new_.dimensions);
        PUMICE_CHECK(file.write({begin, begin + new_.dimensions}));
      }
      return {};
    };
    PUMICE_CHECK(write_kept());
    if (!texts.texts.empty()) {
      WaitingLines lines(texts);
      PUMICE_CHECK(embedder_.run(lines, embedder_.embedding().before_text,
                                 [&](const Line&, std::vector<float> vector) -> Status {
                                   PUMICE_CHECK(file.write(vector));
                                   ++next;
                                   return write_kept();
                                 }));
    }
    return file.finish();
  }

  const SearchOptions& options_;
  const fs::path folder_, index_;
  Embedder& embedder_;
  IndexHead new_;
  std::vector<Passage> passages_;
  std::vector<size_t> from_; // the row of the old index; SIZE_MAX: a new passage
};

// Finds the best passages of an index on the device: the product of a query with every vector.
class Searcher {
public:
  static Result<std::unique_ptr<Searcher>> open(const fs::path& index, const OpenedDevice& device) {
    std::unique_ptr<Searcher> made(new Searcher());
    PUMICE_TRY(made->head_, read_index_head(index));
    PUMICE_TRY(made->passages_, read_passages(index));
    PUMICE_TRY(ModelFile file, ModelFile::open(index));
    OpenedDevice same = device;
    same.tunes = false; // one product is not worth measuring
    PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), same, {}));
    EncoderOptions options;
    options.readable = {"scores"};
    PUMICE_TRY(made->encoder_, Encoder::create(std::move(model), std::move(options)));
    return made;
  }

  struct Found {
    float score = 0;
    const Passage* passage = nullptr;
    const std::string* file = nullptr;
  };
  // Best first; of equal scores, the earlier passage comes first.
  Result<std::vector<Found>> find(std::vector<float> query, size_t most) {
    EncoderInput input;
    input.values = std::move(query);
    PUMICE_CHECK(encoder_->encode(std::span(&input, 1)));
    PUMICE_TRY(const std::vector<float> scores, encoder_->read("scores", 0));
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

private:
  IndexHead head_;
  std::vector<Passage> passages_;
  std::unique_ptr<Encoder> encoder_;
};

void print(const SearchOptions& options, const std::string& query,
           const std::vector<Searcher::Found>& found) {
  for (const Searcher::Found& each : found) {
    if (options.json) {
      print_json({{"query", query},
                  {"score", each.score},
                  {"file", *each.file},
                  {"line", each.passage->line},
                  {"text", each.passage->text}});
    } else {
      print_result(
          fmt::format("{:.4f}\t{}:{}\t{}\n", each.score, *each.file, each.passage->line, each.passage->text));
    }
  }
}

Status search(const SearchOptions& options) {
  PUMICE_CHECK(check_utf8(options.query_prefix, "--query-prefix"));
  PUMICE_CHECK(check_utf8(options.text_prefix, "--text-prefix"));
  const fs::path index = path_of(options.index.empty() ? options.folder + ".index" : options.index);
  PUMICE_TRY(std::unique_ptr<Embedder> embedder, Embedder::create(options));
  PUMICE_CHECK(IndexUpdate(options, index, *embedder).run());
  PUMICE_TRY(std::unique_ptr<Searcher> searcher, Searcher::open(index, embedder->encoder().device()));
  WaitingLines queries(options.queries);
  PUMICE_CHECK(embedder->run(queries, embedder->embedding().before_query,
                             [&](const Line& line, std::vector<float> vector) -> Status {
                               PUMICE_TRY(const std::vector<Searcher::Found> found,
                                          searcher->find(std::move(vector), options.top));
                               print(options, line.text, found);
                               return {};
                             }));
  return embedder->encoder().finish();
}

} // namespace

Subcommand add_search(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("search", "Find the passages of texts that fit a query best.");
  auto options = std::make_shared<SearchOptions>();
  add_line_options(*sub, options->lines);
  sub->add_option("FOLDER", options->folder, "A folder with text files: all below it that are UTF-8")
      ->required()
      ->type_name("");
  add_text_options(*sub, options->queries, "QUERY",
                   "The queries; without QUERY, the lines of standard input");
  sub->add_option("--index", options->index,
                  "Keep the texts' vectors in this folder (default: FOLDER.index). Only files that have "
                  "changed since are read again")
      ->type_name("FOLDER")
      ->group("Index");
  sub->add_flag("--rebuild", options->rebuild, "Make the index again, of all files")->group("Index");
  sub->add_option("--pooling", options->pooling, "As of pumice embed")
      ->type_name("HOW")
      ->transform(one_of({"mean", "cls", "last"}))
      ->group(more_of("Vectors"));
  sub->add_option("--dimensions", options->dimensions, "As of pumice embed")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group(more_of("Vectors"));
  sub->add_option("--query-prefix", options->query_prefix,
                  "Put this before each query (default: the model's prompt 'query')")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--text-prefix", options->text_prefix,
                  "Put this before each passage (default: the model's prompt 'document' or 'passage')")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--top", options->top, "Number of passages to print for each query, best first")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag("--json", options->json,
                "Print one JSON object for each passage. Its fields: query, score, file, line, text")
      ->group("Output");
  sub->footer(
      "Prints 'SCORE<tab>FILE:LINE<tab>TEXT'. A passage is a paragraph, or 1200 bytes of a long one; the "
      "score "
      "is the cosine. The search is exact and reads every vector: beyond some millions of passages an "
      "approximate index, which Pumice does not have, would answer faster.\n\n" +
      example("pumice search all-MiniLM-L6-v2 notes 'how do I reset the router?'"));
  return {sub, [options] { return search(*options); }, {{"MODEL", "--file"}, {}}};
}

} // namespace pumice::command
