#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pumice {

// Looks for strings that end a text, while the text comes in pieces. The end of the text so far is held back
// if it could be the beginning of such a string.
class StopStrings {
public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  }

  // Adds a piece. Returns the text that can be shown now.
  std::string push(std::string_view piece) {
    if (found_) return {};
    held_ += piece;
    size_t show = held_.size();
    for (const std::string& stop : stops_) {
      if (const size_t at = held_.find(stop); at != std::string::npos) {
        show = found_ ? std::min(show, at) : at;
        found_ = true;
      }
    }
    for (const std::string& stop : stops_) {
      if (!found_) show = std::min(show, held_.size() - longest_beginning(stop));
    }
    const std::string shown = held_.substr(0, show);
    held_.erase(0, show);
    return shown;
  }
  // Returns the text that was held back. For the end of the text.
  std::string flush() { return found_ ? std::string() : std::exchange(held_, {}); }
  bool found() const { return found_; }

private:
  // The length of the longest end of the held text that is a beginning of `stop`.
  size_t longest_beginning(std::string_view stop) const {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > 0; --length) {
      if (std::string_view(held_).ends_with(stop.substr(0, length))) return length;
    }
    return 0;
  }

  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

} // namespace pumice
