#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "step/work/resumable_encoder.h"
#include "task/chat_media.h"

namespace pumice::api {

// Patches of the largest picture that a session looks at, where pictures have any size: about a million
// pixels of Qwen 2.5-VL's. Larger ones are made smaller.
inline constexpr uint32_t most_patches_in_session = 4 * 1280;

// What a session looks at pictures with, or hears sounds: the model's tower, which makes the rows that stand
// for them, or for their tiles or windows, in a prompt. It runs in slices or all at once. Used by one thread
// at a time, except cancel().
class Vision : public Work {
public:
  // `inputs`: most pictures or tiles of a step. `warm_up`: runs some steps in slices, so that their costs are
  // known.
  static Result<std::unique_ptr<Vision>> create(const std::shared_ptr<const Model>& tower,
                                                const PictureTokens& shape, uint32_t inputs, bool warm_up);

  ~Vision() override { take_back(); }

  // The options of its encoder.
  static EncoderOptions encoder_options(const ModelShape& tower, uint32_t inputs);

  // Looks at those of the parts that have no rows yet. Computes nothing.
  void begin(const MediumParts& parts);
  bool active() const { return !waiting_.empty(); }
  // Ends it. `not_ready` while a recorded slice has not finished.
  Status stop();
  // To the end. `cancelled` ends it.
  Status run();
  // A slice of it, or on the host about as much of preparing a picture or a sound. The call that finds the
  // last part done submits nothing.
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override;
  void cancel() override;
  bool cancelled() const { return cancelled_; }

  // What has begun of it begins again. `not_ready` while a recorded slice has not finished.
  Status pause();
  // Frees what it has on the device, and makes it again. Only after pause().
  void suspend();
  Status resume(const std::shared_ptr<const Model>& tower);

private:
  Vision(const PictureTokens& shape, const EncoderShape& tower, uint32_t inputs, bool warm_up)
      : shape_(shape), tower_(tower), inputs_(inputs), warm_up_(warm_up) {}
  // Those of tiles where the first one is a tile.
  size_t next_count() const;
  bool is_tile(const MediumPart& part) const { return tiles_ && part.grid.count() > 0; }
  ResumableEncoder& encoding() const { return is_tile(*waiting_.front()) ? *tiles_ : *encoding_; }
  bool prepare_next(std::chrono::steady_clock::time_point until) const;
  std::vector<EncoderInput> next_inputs() const;
  void take_back();
  Status take_rows();
  Status begin_slice(double budget);
  template <class T>
  T failed(T result);

  const PictureTokens shape_;
  const EncoderShape tower_;
  const uint32_t inputs_;
  const bool warm_up_;
  std::mutex mutex_;                           // of the pointers, for cancel()
  std::unique_ptr<ResumableEncoder> encoding_; // null while it is suspended
  std::unique_ptr<ResumableEncoder> tiles_;    // where tiles have another size, see Model::for_tiles()
  std::deque<std::shared_ptr<MediumPart>> waiting_;
  size_t under_way_ = 0; // of them, from the first on
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice::api
