#pragma once

#include <string>

#include "api/pumice.h"
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
Result<EncoderInput> read_input(const pumice_input& given, const InputReader& reader,
                                const std::string& name);

} // namespace pumice::api
