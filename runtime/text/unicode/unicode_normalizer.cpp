// The normalizers that need Unicode's tables: the four normal forms, lower case, and the removal of accents.
#include <algorithm>
#include <array>

#include <utf8proc.h>

#include "text/unicode/normalizer.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::vector<utf8proc_int32_t> decompose(std::string_view escaped, int options) {
  std::vector<utf8proc_int32_t> points;
  points.reserve(escaped.size());
  int last_class = 0;
  std::array<utf8proc_int32_t, 32> buffer; // the longest decomposition has 18 characters
  while (!escaped.empty()) {
    CodePoint point = first_code_point(escaped);
    escaped.remove_prefix(point.length);
    auto value = static_cast<utf8proc_int32_t>(point.value);
    auto count = utf8proc_decompose_char(value, buffer.data(), buffer.size(),
                                         static_cast<utf8proc_option_t>(options), &last_class);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
      points.push_back(value);
    } else {
      points.insert(points.end(), buffer.begin(), buffer.begin() + count);
    }
  }
  return points;
}

// Sorts the marks after a base character by combining class. utf8proc's own sorting takes quadratic time.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  auto combining = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t at = 0; at < points.size();) {
    if (combining(points[at]) == 0) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    while (end < points.size() && combining(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + at, points.begin() + end,
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return combining(a) < combining(b); });
    at = end;
  }
}

class UnicodeNormalizer final : public Normalizer {
public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}

  void apply(std::string& escaped) const override {
    if (is_ascii(escaped)) return;
    bool compatibility = form_ == UnicodeForm::nfkc || form_ == UnicodeForm::nfkd;
    bool compose = form_ == UnicodeForm::nfc || form_ == UnicodeForm::nfkc;
    int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
    std::vector<utf8proc_int32_t> points = decompose(escaped, options);
    order_marks(points);
    auto length = static_cast<utf8proc_ssize_t>(points.size());
    if (compose) {
      auto composing = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      length = utf8proc_normalize_utf32(points.data(), length, composing);
    }
    if (length < 0) return;
    std::string out;
    out.reserve(escaped.size());
    for (utf8proc_ssize_t i = 0; i < length; ++i) append_code_point(out, static_cast<char32_t>(points[i]));
    escaped = std::move(out);
  }

  double growth() const override { return 12; } // the worst is U+FDFA: 3 bytes become 33

private:
  UnicodeForm form_;
};

class Lowercase final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    std::string out;
    out.reserve(escaped.size());
    for (std::string_view rest = escaped; !rest.empty();) {
      CodePoint point = first_code_point(rest);
      rest.remove_prefix(point.length);
      if (point.value == 0x130) { // the only letter whose lower case is two characters
        out += "i\xCC\x87";
      } else {
        append_code_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(point.value))));
      }
    }
    escaped = std::move(out);
  }
  double growth() const override { return 2; }
};

class StripAccents final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    std::string out;
    out.reserve(escaped.size());
    for (std::string_view rest = escaped; !rest.empty();) {
      CodePoint point = first_code_point(rest);
      auto category = utf8proc_category(static_cast<utf8proc_int32_t>(point.value));
      if (category != UTF8PROC_CATEGORY_MN) out += rest.substr(0, point.length);
      rest.remove_prefix(point.length);
    }
    escaped = std::move(out);
  }
  double growth() const override { return 1; }
};

} // namespace

NormalizerPtr make_unicode_form(UnicodeForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}
NormalizerPtr make_lowercase() {
  return std::make_unique<Lowercase>();
}
NormalizerPtr make_strip_accents() {
  return std::make_unique<StripAccents>();
}

} // namespace pumice::text
