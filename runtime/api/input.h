#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/pumice.h"
#include "media/image.h"
#include "model/model.h"
#include "step/encoder.h"
#include "text/tokenizer.h"

namespace pumice::api {

// What the application's inputs are read for.
struct InputReader {
  const Model& model;
  const Tokenizer* tokenizer = nullptr;
  uint32_t longest = 0;      // most tokens of an input; a longer text is cut
  bool given_values = false; // the values come from a buffer of the application's
};

// Reads an input and checks it. `name` names it in messages.
Result<EncoderInput> read_input(const pumice_input& input, const InputReader& reader,
                                const std::string& name);

// A sound of the application's at the rate that a model reads. `rate`: of its samples; 0: that one. `prefix`
// names in messages what has the fields "samples", "count" and "rate".
Result<std::vector<float>> read_samples(std::span<const float> samples, uint32_t rate, uint32_t model_rate,
                                        const std::string& prefix);

// Checks that a picture of the application's is given in one way.
Status check_picture(const pumice_picture& picture, const std::string& name);
// A picture of the application's, whichever way it is given.
Result<Image> read_picture(const pumice_picture& picture, const std::string& name);
// The pixels of a pumice_picture or a pumice_input.
struct Pixels {
  const uint8_t* first;
  uint32_t width, height;
  size_t row_bytes; // 0: rows follow each other
  pumice_pixel_order order;

  template <class Given>
  explicit Pixels(const Given& given)
      : first(given.pixels), width(given.width), height(given.height), row_bytes(given.row_bytes),
        order(given.order) {}
};
// A picture of the application's pixels. An error if it is empty or too large, or its rows overlap.
Result<Image> image_of_pixels(const Pixels& pixels, const std::string& name);

} // namespace pumice::api
