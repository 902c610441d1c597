#include "step/work/batch_work.h"

#include <utility>

#include "model/upstream.h"
#include "step/warm_up.h"

namespace pumice {

bool has_slices(const Model& model) {
  return !model.upstream() || !model.upstream()->devices().empty();
}

std::optional<BatchToken> BatchWork::take() {
  if (received_.empty()) return {};
  BatchToken token = std::move(received_.front());
  received_.pop_front();
  return token;
}

Status BatchWork::make_object(const Progress& progress) {
  sliced_ = false;
  PUMICE_TRY(object_, Batch::create(model_, options_));
  Runner& runner = object_->runner();
  if (options_.preparation != Preparation::none) {
    PUMICE_CHECK(runner.prepare_all(options_.compiling_threads, progress));
  }
  if (options_.interruptible) runner.set_interrupt(interrupt());
  const bool warms_up = options_.preparation == Preparation::warmed_up && has_slices(*model_);
  return warms_up ? warm_up(*object_, *slicer_) : Status();
}

Status BatchWork::use_slices() {
  if (!has_slices(*model_)) {
    return Error{Code::unsupported,
                 fmt::format("{}: the model is in stages, whose steps cannot be divided into time slices: {}",
                             model_->file().path(), instead_)};
  }
  if (std::exchange(sliced_, true)) return {};
  PUMICE_CHECK(object_->wait());
  return collect();
}

Status BatchWork::use_whole_steps() {
  if (!sliced_) return {};
  PUMICE_CHECK(slicer_->wait());
  PUMICE_CHECK(restart());
  sliced_ = false;
  return {};
}

Status BatchWork::run_whole_step() {
  const Result<std::span<const BatchToken>> tokens = object_->step();
  if (!tokens.ok()) return ended(tokens.error());
  for (const BatchToken& token : *tokens) receive(token);
  return {};
}

Status BatchWork::ended(Status status) {
  const bool by_cancel = !status.ok() && status.error().code == Code::cancelled && cancelled();
  return checked(by_cancel ? check_cancelled() : std::move(status));
}

Result<bool> BatchWork::collect_step() {
  PUMICE_TRY(const auto tokens, object_->collect());
  if (!tokens) return false;
  for (const BatchToken& token : *tokens) receive(token);
  return true;
}

Status BatchWork::collect() {
  for (bool more = true; more;) {
    PUMICE_TRY(more, collect_step());
  }
  return {};
}

Status BatchWork::wait_for_slices() {
  if (!sliced_) return {};
  Status waited = slicer_->wait();
  PUMICE_CHECK(collect());
  return waited;
}

Status BatchWork::restart() {
  if (!sliced_) return {};
  PUMICE_CHECK(slicer_->poll());
  PUMICE_CHECK(collect());
  const bool known = object_->discard_unfinished(*slicer_);
  slicer_->discard();
  PUMICE_CHECK(slicer_->wait());
  if (known) PUMICE_CHECK(collect());
  return object_->discard_steps();
}

} // namespace pumice
