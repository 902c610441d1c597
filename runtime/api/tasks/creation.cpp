#include "api/tasks/creation.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "api/background.h"

using namespace pumice;
using namespace pumice::api;

namespace {

// What is to be made, and where its handle ends in a pumice_created.
struct Kind {
  Maker maker;
  const char* name;
  size_t end;
};

Result<Kind> kind_of(const pumice_model& model, const pumice_creation_options& options) {
  size_t kinds = 0;
  Result<Kind> kind = Error{Code::invalid_argument, ""};
  const auto look_at = [&](const auto* of_kind, const char* name, size_t place) {
    if (!of_kind) return;
    ++kinds;
    Result<Maker> maker = maker_of(model, of_kind);
    if (maker.ok()) {
      kind = Kind{*std::move(maker), name, place + sizeof(void*)};
    } else if (maker.error().code == Code::invalid_argument) {
      kind = Error{Code::invalid_argument, std::string("options.") + name + ": " + maker.error().text()};
    } else {
      kind = maker.error();
    }
  };
#define KIND(name) look_at(options.name, #name, offsetof(pumice_created, name));
#include "api/tasks/kinds.def"
  if (kinds == 1) return kind;
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

  const char* kind = "";
  size_t end_of_handle = 0; // in a pumice_created
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
    PUMICE_TRY(const Kind kind, kind_of(*model, options));
    handle->kind = kind.name;
    handle->end_of_handle = kind.end;
    const uint32_t more = std::max(options.threads, 1u) - 1;
    const auto work = [make = kind.maker, more, options](
                          const Progress& progress) -> Result<std::unique_ptr<pumice_creation::Created>> {
      Making making;
      making.prepared = making.all = true;
      making.threads = more;
      making.progress = added_up(both(options.progress, options.progress_user, progress));
      making.chunk = options.chunk;
      making.warm_up = options.warm_up != 0;
      auto made = std::make_unique<pumice_creation::Created>();
      PUMICE_CHECK(make(making, made->handles));
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
    if (created->struct_size < creation->end_of_handle) {
      return Error{Code::invalid_argument,
                   fmt::format("created.struct_size is {}: expected at least {}, which has room for the {}",
                               created->struct_size, creation->end_of_handle, creation->kind)};
    }
    PUMICE_TRY(const std::unique_ptr<pumice_creation::Created> made, creation->starting.finish());
    PUMICE_CHECK(write(made->handles, created, "created"));
    made->handles = {sizeof made->handles}; // what was made is the application's
    return {};
  });
}

void pumice_creation_destroy(pumice_creation* creation) {
  destroy_live(creation);
}

} // extern "C"
