#pragma once

#include <vector>

#include "api/pumice.h"
#include "model/model.h"
#include "task/writing.h"

namespace pumice::api {

// What the application asks for of a translator or a captioner, checked.
Result<WritingOptions> read_writing(const pumice_writing_options* options, const ModelShape& shape);

// Texts in the form in which the application reads them.
class HandedTexts {
public:
  explicit HandedTexts(std::vector<WrittenText> texts);
  HandedTexts(HandedTexts&&) = default;
  HandedTexts& operator=(HandedTexts&&) = default;

  const pumice_written* data() const { return handed_.data(); }
  size_t size() const { return handed_.size(); }

private:
  std::vector<WrittenText> texts_;
  std::vector<std::vector<uint32_t>> links_; // of each
  std::vector<pumice_written> handed_;
};

} // namespace pumice::api
