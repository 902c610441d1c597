#pragma once

#include <vector>

#include "api/handles.h"
#include "task/spans/text_span.h"

namespace pumice::api {

// What the last call of a tagger or an answerer found, and keeps for the application.
class KeptSpans {
public:
  void clear() {
    found_.clear();
    spans_.clear();
  }
  // Those of the next text or question.
  void add(std::vector<TextSpan> found) { found_.push_back(std::move(found)); }
  // An array of all of them.
  void give(const pumice_span** spans, size_t* count) {
    for (size_t i = 0; i < found_.size(); ++i) {
      for (const TextSpan& each : found_[i]) {
        const char* label = each.label.empty() ? nullptr : each.label.c_str();
        spans_.push_back({i, each.begin, each.end, each.score, 0, label});
      }
    }
    *spans = spans_.data();
    *count = spans_.size();
  }

private:
  std::vector<std::vector<TextSpan>> found_;
  std::vector<pumice_span> spans_; // which refer to their labels
};

} // namespace pumice::api
