#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "text/model.h"

namespace pumice::text {

// A model that few programs need: it is made when it is first asked for, once for all threads.
class LazyModel {
public:
  using Make = std::function<Result<ModelPtr>()>;
  explicit LazyModel(Make make) : make_(std::move(make)) {}

  // Errors: what making it reports, each time.
  Result<const Model*> get() const {
    std::call_once(once_, [&] { made_ = make_(); });
    if (!made_->ok()) return made_->error();
    return made_->value().get();
  }

private:
  Make make_;
  mutable std::once_flag once_;
  mutable std::optional<Result<ModelPtr>> made_;
};

} // namespace pumice::text
