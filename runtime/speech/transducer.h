#pragma once

#include <memory>
#include <span>
#include <vector>

#include "speech/ctc.h"

namespace pumice {

// A transducer (Graves, Sequence Transduction with Recurrent Neural Networks, 2012): a recurrent network
// reads the text so far, and another one says of its result and a frame which token comes next, or that none
// does and the next frame is to be looked at. With durations (Xu et al., TDT, 2023) it says how many frames
// to go on, too. The host computes it: a token takes few products, each of which needs the one before.
class Transducer {
public:
  static constexpr const char* frames = "transducer_frames"; // of the encoder's graph

  // Of Parakeet's files. Null: the model has none.
  static Result<std::shared_ptr<const Transducer>> read(const ModelFile& file);

  uint32_t columns() const { return columns_; } // of a frame

private:
  friend class TransducerDecoding;

  // rows of `columns` numbers, and a number for each row.
  struct Matrix {
    std::vector<float> values, bias;
    uint32_t columns = 0;

    void add_product(std::span<const float> x, std::span<float> to) const;
  };
  struct Layer {
    Matrix input, state; // [4 * columns_, columns_]: gates of input, forgetting, content and output
  };

  Status read_settings(const ModelFile& file);
  Result<Matrix> matrix(const ModelFile& file, const std::string& weight, const std::string& bias,
                        uint64_t rows) const;

  uint32_t vocabulary_ = 0, blank_ = 0, columns_ = 0, layer_count_ = 0, most_symbols_ = 0;
  std::vector<uint32_t> durations_; // empty: a blank goes on by a frame
  Matrix embedding_;                // [vocabulary_, columns_]
  std::vector<Layer> layers_;
  Matrix projection_; // [columns_, columns_]
  Matrix head_;       // [vocabulary_ and durations, columns_]
};

// What a transducer makes of a sound's frames, always the likeliest, token by token.
class TransducerDecoding {
public:
  TransducerDecoding(std::shared_ptr<const Transducer> transducer, std::vector<float> frames);

  bool done() const { return at_ >= frames_.size() / transducer_->columns_; }
  void step(); // the next token or blank
  const std::vector<HeardLetter>& heard() const { return heard_; }

private:
  void read_token(uint32_t token);

  std::shared_ptr<const Transducer> transducer_;
  std::vector<float> frames_;
  std::vector<std::vector<float>> outputs_, cells_; // of each layer
  std::vector<float> text_;                         // what the text so far adds to a frame
  uint32_t at_ = 0, symbols_ = 0;                   // the frame, and tokens without going on
  std::vector<HeardLetter> heard_;
};

} // namespace pumice
