#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/pieces.h"
#include "text/vocabulary.h"

namespace pumice::text {

// Turns pieces of text into ids. Each kind of model has a file of its own (bpe, scored_bpe, ...).
class Model {
public:
  virtual ~Model() = default;
  virtual void append_ids(const Pieces& pieces, std::vector<uint32_t>& ids) const = 0;
};

using ModelPtr = std::unique_ptr<const Model>;

} // namespace pumice::text
