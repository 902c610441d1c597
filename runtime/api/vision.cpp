#include "api/vision.h"

#include <algorithm>

#include "step/picture_rows.h"

namespace pumice::api {

namespace {

// The least and the most of the caller's time that a slice takes for preparing pictures or sounds.
constexpr double least_preparing_seconds = 1e-4, most_preparing_seconds = 2e-3;

std::chrono::steady_clock::time_point preparing_end(double budget) {
  const std::chrono::duration<double> time(
      std::clamp(budget, least_preparing_seconds, most_preparing_seconds));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
}

Error suspended() {
  return {Code::not_ready, "the session is suspended: resume it first"};
}

} // namespace

EncoderOptions Vision::encoder_options(const ModelShape& tower, uint32_t inputs) {
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  options.inputs = inputs;
  const uint32_t most = tower.encoder->patch_groups ? most_patches_in_session : tower.encoder->context;
  options.tokens = std::min(tower.encoder->context, most) * inputs;
  return options;
}

Result<std::unique_ptr<Vision>> Vision::create(const std::shared_ptr<const Model>& tower,
                                               const PictureTokens& shape, uint32_t inputs, bool warm_up) {
  std::unique_ptr<Vision> vision(new Vision(shape, *tower->shape().encoder, inputs, warm_up));
  PUMICE_CHECK(vision->resume(tower));
  return vision;
}

Status Vision::resume(const std::shared_ptr<const Model>& tower) {
  const EncoderOptions options = encoder_options(tower->shape(), inputs_);
  Making making;
  making.prepared = true;
  making.warm_up = warm_up_;
  PUMICE_TRY(std::unique_ptr<ResumableEncoder> encoding, ResumableEncoder::create(tower, options, making));
  std::unique_ptr<ResumableEncoder> of_tiles;
  if (const std::shared_ptr<const Model> tiles = tower->for_tiles()) {
    PUMICE_TRY(of_tiles, ResumableEncoder::create(tiles, encoder_options(tiles->shape(), inputs_), making));
  }
  under_way_ = 0;
  const std::lock_guard lock(mutex_);
  encoding_ = std::move(encoding);
  tiles_ = std::move(of_tiles);
  return {};
}

Status Vision::pause() {
  if (encoding_ && under_way_ > 0) PUMICE_CHECK(encoding().stop());
  take_back();
  return {};
}

size_t Vision::next_count() const {
  const size_t most = std::min(waiting_.size(), size_t{inputs_});
  size_t count = std::min(most, size_t{1});
  while (count < most && is_tile(*waiting_[count]) == is_tile(*waiting_[0])) ++count;
  return count;
}

void Vision::suspend() {
  take_back();
  const std::lock_guard lock(mutex_);
  encoding_.reset();
  tiles_.reset();
}

void Vision::begin(const MediumParts& parts) {
  cancelled_ = false;
  for (const std::shared_ptr<MediumPart>& each : parts) {
    if (!each->encoded() && std::ranges::find(waiting_, each) == waiting_.end()) waiting_.push_back(each);
  }
}

Status Vision::stop() {
  PUMICE_CHECK(pause());
  waiting_.clear();
  return {};
}

void Vision::cancel() {
  cancelled_ = true;
  const std::lock_guard lock(mutex_);
  if (encoding_) encoding_->cancel();
  if (tiles_) tiles_->cancel();
}

// False: there is more to do at this time.
bool Vision::prepare_next(std::chrono::steady_clock::time_point until) const {
  return std::all_of(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(next_count()),
                     [&](const std::shared_ptr<MediumPart>& each) { return each->prepare(until); });
}

// Moves them: they are large.
std::vector<EncoderInput> Vision::next_inputs() const {
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < next_count(); ++i) inputs.push_back(std::move(waiting_[i]->input));
  return inputs;
}

// Gives what is under way its inputs back, to begin again.
void Vision::take_back() {
  std::vector<EncoderInput> inputs;
  if (encoding_ && under_way_ > 0) inputs = encoding().take_inputs();
  for (size_t i = 0; i < std::min(inputs.size(), waiting_.size()); ++i)
    waiting_[i]->input = std::move(inputs[i]);
  under_way_ = 0;
}

Status Vision::take_rows() {
  PUMICE_TRY(const std::vector<float> all, encoding().read());
  const size_t columns = encoding().columns(), equal = all.size() / under_way_;
  auto first = all.begin();
  for (; under_way_ > 0; --under_way_) {
    MediumPart& part = *waiting_.front();
    const size_t values = shape_.of_any_size() ? columns * static_cast<size_t>(part.grid.count()) : equal;
    const auto end = first + static_cast<ptrdiff_t>(values);
    part.rows = rows_of_picture(shape_, tower_, part.grid, {first, end}, columns);
    first = end;
    part.input = {};
    waiting_.pop_front();
  }
  return {};
}

template <class T>
T Vision::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) {
    if (encoding_ && under_way_ > 0) (void)encoding().stop(); // unless it has ended itself
    take_back();
    waiting_.clear();
    cancelled_ = false;
  }
  return result;
}

Status Vision::run() {
  while (active()) {
    if (!encoding_) return suspended();
    if (cancelled_) return failed(Status(Error{Code::cancelled, "looking at pictures was cancelled"}));
    PUMICE_CHECK(pause()); // what slices have begun
    if (!prepare_next(preparing_end(most_preparing_seconds))) continue;
    under_way_ = next_count();
    const Status ran = encoding().run(next_inputs());
    if (!ran.ok()) take_back();
    PUMICE_CHECK(failed(ran));
    PUMICE_CHECK(take_rows());
  }
  return {};
}

Status Vision::begin_slice(double budget) {
  if (!encoding_) return suspended();
  if (cancelled_ && under_way_ == 0) return Error{Code::cancelled, "looking at pictures was cancelled"};
  if (cancelled_ && under_way_ > 0) encoding().cancel(); // what began before it was heard
  if (under_way_ > 0) return {};
  if (!prepare_next(preparing_end(budget))) return {};
  under_way_ = next_count();
  Status begun = encoding().begin(next_inputs());
  if (!begun.ok()) take_back();
  return begun;
}

Result<SliceResult> Vision::slice(const SliceRequest& request) {
  PUMICE_CHECK(failed(begin_slice(request.budget)));
  ResumableEncoder& own = waiting_.empty() ? *encoding_ : encoding();
  PUMICE_TRY(const SliceResult result, failed(own.slice(request)));
  if (!result.active && under_way_ > 0) PUMICE_CHECK(take_rows());
  return result;
}

Status Vision::discard() {
  return encoding_ && under_way_ > 0 ? encoding().discard() : Status();
}

} // namespace pumice::api
