#include "task/filler.h"
#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/task.h"
#include "api/tune.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_filler : Live<pumice_filler> {
  std::unique_ptr<Filler> filler;
  std::vector<std::vector<std::vector<Filler::Fill>>> texts; // of the last call: the fills of each gap
  std::vector<pumice_fill> fills;                            // which refer to their words
};

namespace {

FillerOptions filler_options(const pumice_filler_options& asked) {
  FillerOptions options;
  if (asked.top) options.top = asked.top;
  options.run.max_tokens = asked.max_tokens;
  options.run.batch_tokens = asked.batch_tokens;
  return options;
}

Result<std::unique_ptr<Filler>> make_filler(const pumice_model& model, const FillerOptions& options,
                                            const Making& making) {
  PUMICE_TRY(FillerPlan plan, FillerPlan::of(model.model->file(), options, model.tokenizer));
  PUMICE_CHECK(check_head(model));
  return Filler::create(current_model(model), std::move(plan), making);
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_filler_options* asked) {
  PUMICE_TRY(const pumice_filler_options given, read(asked, "options"));
  const FillerOptions options = filler_options(given);
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_filler>();
    PUMICE_TRY(handle->filler, make_filler(model, options, making));
    created.filler = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_filler_create(pumice_model* model, const pumice_filler_options* options,
                                   pumice_filler** filler, pumice_error* error) {
  return create(model, options, filler, "filler", &pumice_created::filler, error);
}

void pumice_filler_destroy(pumice_filler* filler) {
  destroy_live(filler);
}

pumice_status pumice_filler_fill(pumice_filler* filler, const char* const* texts, size_t count,
                                 const pumice_fill** fills, size_t* fill_count, size_t* cut,
                                 pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(filler);
    PUMICE_REQUIRE(fills);
    PUMICE_REQUIRE(fill_count);
    Filler& task = *filler->filler;
    filler->fills.clear();
    filler->texts.clear();
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return task.read(text, name);
    };
    PUMICE_CHECK(run_texts(task.runner(), texts, count, cut, read_text,
                           [&](size_t, std::vector<float> rows) -> Status {
                             filler->texts.push_back(task.fills(rows));
                             return {};
                           }));
    for (size_t text = 0; text < filler->texts.size(); ++text) {
      for (size_t gap = 0; gap < filler->texts[text].size(); ++gap) {
        for (const Filler::Fill& fill : filler->texts[text][gap]) {
          filler->fills.push_back(
              {text, static_cast<uint32_t>(gap), fill.token, fill.probability, 0, fill.word.c_str()});
        }
      }
    }
    *fills = filler->fills.data();
    *fill_count = filler->fills.size();
    return {};
  });
}

void pumice_filler_cancel(pumice_filler* filler) {
  if (is_live(filler)) filler->filler->runner().cancel();
}

} // extern "C"
