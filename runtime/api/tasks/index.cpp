#include <fmt/format.h>

#include "api/background.h"
#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/task.h"
#include "api/tune.h"
#include "base/path.h"
#include "task/search/text_index.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_index : Live<pumice_index> {
  std::unique_ptr<TextIndex> index;
  bool rebuild = false;
  std::vector<pumice_passage> found; // of the last search
};

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_index_options* asked) {
  PUMICE_TRY(const pumice_index_options options, read(asked, "options"));
  if (!options.folder) return null_argument("options.folder");
  PUMICE_CHECK(check_purpose(model, PUMICE_FOR_VECTORS));
  TextIndexOptions index_options;
  PUMICE_TRY(index_options.pooling, read_pooling(options.pooling));
  index_options.dimensions = options.dimensions;
  index_options.query_prefix = text_or_empty(options.query_prefix);
  index_options.text_prefix = text_or_empty(options.text_prefix);
  index_options.run = {options.max_tokens, options.batch_tokens};
  if (options.sparse > 1)
    return Error{Code::invalid_argument,
                 fmt::format("options.sparse is {}: expected 0 or 1", options.sparse)};
  index_options.sparse = options.sparse;
  const std::string folder = options.folder, kept = options.index ? options.index : folder + ".index";
  const bool rebuild = options.rebuild;
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    PUMICE_TRY(TextIndexPlan plan, TextIndexPlan::of(model.model->file(), index_options, model.tokenizer));
    if (plan.embedder.sparse) PUMICE_CHECK(check_head(model));
    auto handle = std::make_unique<pumice_index>();
    handle->rebuild = rebuild;
    PUMICE_TRY(handle->index, TextIndex::create(current_model(model), std::move(plan), path_of(folder),
                                                path_of(kept), making));
    created.index = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_index_create(pumice_model* model, const pumice_index_options* options,
                                  pumice_index** index, pumice_error* error) {
  return create(model, options, index, "index", &pumice_created::index, error);
}

void pumice_index_destroy(pumice_index* index) {
  destroy_live(index);
}

pumice_status pumice_index_update(pumice_index* index,
                                  bool (*progress)(void* user, uint64_t done, uint64_t total), void* user,
                                  pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(index);
    index->found.clear();
    PUMICE_CHECK(index->index->update(index->rebuild, {}, both(progress, user)));
    index->rebuild = false;
    return {};
  });
}

pumice_status pumice_index_search(pumice_index* index, const char* query, size_t top,
                                  const pumice_passage** passages, size_t* count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(index);
    PUMICE_REQUIRE(query);
    PUMICE_REQUIRE(passages);
    PUMICE_REQUIRE(count);
    TextIndex& text_index = *index->index;
    PUMICE_TRY(const EncoderInput input, text_index.read(query, "query"));
    PUMICE_TRY(std::vector<std::vector<float>> rows, text_index.runner().run(std::span(&input, 1)));
    PUMICE_TRY(const std::vector<TextIndex::Found> found, text_index.find(std::move(rows[0]), top));
    index->found.clear();
    for (const TextIndex::Found& each : found) {
      index->found.push_back(
          {each.score, 0, each.passage->line, each.file->c_str(), each.passage->text.c_str()});
    }
    *passages = index->found.data();
    *count = index->found.size();
    return {};
  });
}

void pumice_index_cancel(pumice_index* index) {
  if (is_live(index)) index->index->runner().cancel();
}

} // extern "C"
