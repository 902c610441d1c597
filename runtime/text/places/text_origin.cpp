#include "text/places/text_origin.h"

#include <map>

#include <utf8proc.h>

#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

constexpr size_t most_skipped = 48; // characters, on both sides, that became others together

bool is_mark(char32_t value) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

// Characters with the marks that follow them, which a step may join.
std::vector<Span> marked_characters(std::string_view text) {
  std::vector<Span> all;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    if (all.empty() || !is_mark(point.value)) all.push_back({at, at});
    all.back().end = at += point.length;
  }
  return all;
}

// What a step makes of characters in the middle of a text.
class Images {
public:
  explicit Images(const TextOrigin::Change& change) : change_(change) {
    const std::string none = change_(std::string(2, beside));
    if (none.ends_with(std::string(2, beside))) before_ = none.size() - 2;
  }

  const std::string& of(std::string_view character) {
    const auto [at, added] = known_.try_emplace(std::string(character));
    if (added) at->second = find(at->first);
    return at->second;
  }

private:
  static constexpr char beside = 'x';

  std::string find(const std::string& character) const {
    const std::string whole = change_(beside + character + beside);
    const size_t from = before_ + 1;
    const bool framed = whole.size() > from && whole[before_] == beside && whole.ends_with(beside);
    return framed ? whole.substr(from, whole.size() - from - 1) : character;
  }

  const TextOrigin::Change& change_;
  size_t before_ = 0; // bytes that the step puts before a text
  std::map<std::string, std::string, std::less<>> known_;
};

// Walks over both texts.
class Matcher {
public:
  Matcher(std::string_view before, std::string_view after, const TextOrigin::Change& change)
      : before_(before), after_(after), units_(marked_characters(before)), images_(change) {}

  std::vector<Span> match() {
    while (unit_ < units_.size()) {
      if (fits(unit_, at_)) {
        take(1, image(unit_).size());
      } else if (is_white_space(first_code_point(before_.substr(units_[unit_].begin)).value)) {
        ++unit_; // removed
      } else if (!skip()) {
        take(units_.size() - unit_, after_.size() - at_);
      }
    }
    bytes_.resize(after_.size(), {before_.size(), before_.size()});
    return std::move(bytes_);
  }

private:
  const std::string& image(size_t unit) {
    return images_.of(before_.substr(units_[unit].begin, units_[unit].end - units_[unit].begin));
  }
  bool fits(size_t unit, size_t at) { return after_.substr(at).starts_with(image(unit)); }

  // Whether both texts go on alike from here: two characters are, or all that is left.
  bool goes_on(size_t unit, size_t at) {
    if (unit == units_.size()) return at == after_.size();
    if (image(unit).empty() || !fits(unit, at)) return false;
    return unit + 1 == units_.size() || fits(unit + 1, at + image(unit).size());
  }

  // The next `units` became the next `bytes`.
  void take(size_t units, size_t bytes) {
    const size_t begin = units_[unit_].begin;
    bytes_.resize(bytes_.size() + bytes, {begin, units ? units_[unit_ + units - 1].end : begin});
    unit_ += units;
    at_ += bytes;
  }

  // Finds the nearest place from which both go on alike.
  bool skip() {
    std::vector<size_t> ends = {at_}; // of the next characters of `after_`
    for (size_t at = at_; at < after_.size() && ends.size() <= most_skipped;)
      ends.push_back(at += first_code_point(after_.substr(at)).length);
    for (size_t sum = 1; sum <= most_skipped; ++sum) {
      for (size_t units = 0; units <= sum && unit_ + units <= units_.size(); ++units) {
        if (sum - units >= ends.size() || !goes_on(unit_ + units, ends[sum - units])) continue;
        take(units, ends[sum - units] - at_);
        return true;
      }
    }
    return false;
  }

  const std::string_view before_, after_;
  const std::vector<Span> units_;
  Images images_;
  std::vector<Span> bytes_;
  size_t unit_ = 0, at_ = 0;
};

} // namespace

TextOrigin::TextOrigin(std::string_view before, std::string_view after, const Change& change) {
  if (before != after) bytes_ = Matcher(before, after, change).match();
}

Span TextOrigin::of(Span after) const {
  if (bytes_.empty()) return after;
  if (after.begin < after.end) return {bytes_[after.begin].begin, bytes_[after.end - 1].end};
  const size_t at = after.begin < bytes_.size() ? bytes_[after.begin].begin : bytes_.back().end;
  return {at, at};
}

} // namespace pumice::text
