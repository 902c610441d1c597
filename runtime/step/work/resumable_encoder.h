#pragma once

#include <memory>

#include "step/encoder.h"
#include "step/work/making.h"
#include "step/work/resumable_work.h"

namespace pumice {

// An encoder without a decoder, for use inside an application: it runs its inputs in slices of time or all at
// once.
class ResumableEncoder : public ResumableWork<Encoder> {
public:
  static Result<std::unique_ptr<ResumableEncoder>> create(std::shared_ptr<const Model> model,
                                                          EncoderOptions options, const Making& making);

  // Runs inputs in one step, for which read() waits.
  Status run(std::vector<EncoderInput> inputs);
  // Takes inputs for slice(), which runs them. After discard() they are run from the beginning.
  Status begin(std::vector<EncoderInput> inputs);
  // After stop(), or where one of these failed: the inputs that were taken.
  std::vector<EncoderInput> take_inputs() { return std::exchange(inputs_, {}); }
  // Ends what is being run, which is then forgotten. `not_ready` while a recorded slice has not finished.
  Status stop();
  // The values of the output tensor for all inputs that were run, one input after the other.
  Result<std::vector<float>> read();

  Encoder& encoder() { return *object_; } // only after ready()
  const std::string& output() const { return options_.readable[0]; }
  uint32_t columns() const { return columns_; }

private:
  ResumableEncoder(std::shared_ptr<const Model> model, EncoderOptions options, bool prepared, size_t threads)
      : ResumableWork(std::move(model), "encoding"), options_(std::move(options)), prepared_(prepared),
        compiling_threads_(threads) {}
  Status make_object(const Progress& progress) override;
  Status warm_up();
  Status collect() override;
  bool active() const override { return state_ == State::open || state_ == State::submitted; }
  Status fill(Slice& slice) override;
  double largest_dispatch() const override { return object_->runner().largest_dispatch(*slicer_); }
  Result<bool> end() override;
  Status restart() override;
  Status begin_again(std::vector<EncoderInput> inputs);
  Status encode_again();
  template <class T>
  T failed(T result);

  enum class State { none, open, submitted, done };

  EncoderOptions options_;
  const bool prepared_;
  const size_t compiling_threads_;
  uint32_t columns_ = 0;
  State state_ = State::none;
  std::vector<EncoderInput> inputs_; // the inputs of the current or last run
};

} // namespace pumice
