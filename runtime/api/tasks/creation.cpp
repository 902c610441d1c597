#include "api/tasks/creation.h"

#include <algorithm>
#include <cstring>

#include "api/background.h"

using namespace pumice;
using namespace pumice::api;

namespace {

Result<Maker> maker_of(const pumice_model& model, const pumice_creation_options& options) {
  size_t kinds = 0;
  Result<Maker> maker = Error{Code::invalid_argument, ""};
  const auto look_at = [&](const auto* of_kind, const char* kind) {
    if (!of_kind) return;
    ++kinds;
    maker = api::maker_of(model, of_kind);
    if (!maker.ok() && maker.error().code == Code::invalid_argument)
      maker = Error{Code::invalid_argument, std::string("options.") + kind + ": " + maker.error().text()};
  };
#define KIND(name) look_at(options.name, #name);
#include "api/tasks/kinds.def"
  if (kinds == 1) return maker;
  return Error{Code::invalid_argument, "options has the options of " + std::to_string(kinds) +
                                           " kinds of objects: expected those of one"};
}

// Adds up what is compiled for one model part after the other.
Progress added_up(Progress progress) {
  struct Sum {
    uint64_t before = 0, done = 0, total = 0;
  };
  return [progress = std::move(progress), sum = std::make_shared<Sum>()](uint64_t done, uint64_t total) {
    if (done < sum->done || total != sum->total) sum->before += sum->total;
    sum->done = done;
    sum->total = total;
    return progress(sum->before + done, sum->before + total);
  };
}

} // namespace

struct pumice_creation : Live<pumice_creation> {
  struct Created {
    pumice_created handles = {sizeof handles};

    ~Created() {
#define KIND(name) pumice_##name##_destroy(handles.name);
#include "api/tasks/kinds.def"
    }
  };

  Background<Created> starting;
};

extern "C" {

pumice_status pumice_creation_start(pumice_model* model, const pumice_creation_options* caller_options,
                                    pumice_creation** creation, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(model);
    PUMICE_REQUIRE(creation);
    *creation = nullptr;
    PUMICE_TRY(const pumice_creation_options options, read(caller_options, "options"));
    auto handle = std::make_unique<pumice_creation>();
    PUMICE_TRY(const Maker make, maker_of(*model, options));
    const uint32_t more = std::max(options.threads, 1u) - 1;
    const auto work = [make, more, asked = options.progress, user = options.progress_user](
                          const Progress& progress) -> Result<std::unique_ptr<pumice_creation::Created>> {
      const Compiling compiling = {more, added_up(both(asked, user, progress))};
      auto made = std::make_unique<pumice_creation::Created>();
      PUMICE_CHECK(make(&compiling, made->handles));
      return made;
    };
    PUMICE_CHECK(handle->starting.start(work, "it"));
    *creation = handle.release();
    return {};
  });
}

bool pumice_creation_poll(pumice_creation* creation, uint64_t* done, uint64_t* total) {
  return !is_live(creation) || creation->starting.poll(done, total);
}

void pumice_creation_cancel(pumice_creation* creation) {
  if (is_live(creation)) creation->starting.cancel();
}

pumice_status pumice_creation_finish(pumice_creation* creation, pumice_created* created,
                                     pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(creation);
    PUMICE_REQUIRE(created);
    PUMICE_CHECK(write(pumice_created{sizeof *created}, created, "created"));
    PUMICE_TRY(const std::unique_ptr<pumice_creation::Created> made, creation->starting.finish());
    PUMICE_CHECK(write(made->handles, created, "created"));
    // What fits into its structure is the application's.
    std::memset(static_cast<void*>(&made->handles), 0, std::min(created->struct_size, sizeof made->handles));
    return {};
  });
}

void pumice_creation_destroy(pumice_creation* creation) {
  destroy_live(creation);
}

} // extern "C"
