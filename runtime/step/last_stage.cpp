#include "step/last_stage.h"

#include <optional>

namespace pumice {

// A step that was begun. It has arrived once `submitted` has a value.
struct LastStage::Step : DeferredWork {
  Step(LastStage& owner, StepRows rows_of_it, bool by_host)
      : stage(owner), rows(std::move(rows_of_it)), composed(by_host) {}

  Result<bool> finished() override { return submitted ? submitted->finished() : Result<bool>(false); }
  Status wait() override {
    while (!submitted) {
      PUMICE_CHECK(failed);
      PUMICE_CHECK(stage.wait_for_one());
    }
    const Status done = submitted->wait();
    return done.ok() || done.error().code == Code::cancelled ? done : stage.upstream_->tell(done.error());
  }

  LastStage& stage;
  const StepRows rows;
  const bool composed;
  std::optional<Completion> submitted;
  Status failed;
};

Result<std::unique_ptr<LastStage>> LastStage::create(StepUpstream& upstream, const StageSteps& steps,
                                                     Compute compute) {
  std::unique_ptr<LastStage> stage(new LastStage(std::move(compute)));
  const auto receive = [last = stage.get()](uint32_t tokens, const StageResults& results) {
    return last->received(tokens, results);
  };
  PUMICE_TRY(stage->upstream_, upstream.begin(steps, receive));
  return stage;
}

Result<Completion> LastStage::begin(StepRows rows, bool composed) {
  auto step = std::make_shared<Step>(*this, std::move(rows), composed);
  waiting_.push_back(step);
  if (Status sent = upstream_->send(step->rows); !sent.ok()) {
    std::erase(waiting_, step);
    return sent.error();
  }
  return Completion(std::shared_ptr<DeferredWork>(std::move(step)));
}

Status LastStage::received(uint32_t tokens, const StageResults& results) {
  if (waiting_.empty() || waiting_.front()->rows.tokens != tokens) {
    return Error{Code::internal, "the stages lost count of the steps"};
  }
  const std::shared_ptr<Step> step = waiting_.front();
  const Result<Completion> submitted = compute_(step->rows, step->composed, results);
  // It stays among those that wait, and get the error.
  if (!submitted.ok() && submitted.error().code != Code::cancelled) return submitted.error();
  waiting_.pop_front();
  if (submitted.ok()) {
    step->submitted = *submitted;
  } else {
    step->failed = submitted.error();
  }
  return {};
}

Status LastStage::wait_for_one() {
  Status status = upstream_->wait();
  if (status.ok()) return status;
  for (const std::shared_ptr<Step>& step : waiting_) step->failed = status;
  waiting_.clear();
  return status;
}

} // namespace pumice
