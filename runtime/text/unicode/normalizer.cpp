#include "text/unicode/normalizer.h"

#include <algorithm>

#include "text/unicode/byte_level.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

class Strip final : public Normalizer {
public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& escaped) const override {
    std::string_view text = escaped;
    while (left_ && !text.empty() && is_white_space(first_code_point(text).value)) {
      text.remove_prefix(first_code_point(text).length);
    }
    while (right_ && !text.empty() && is_white_space(last_code_point(text).value)) {
      text.remove_suffix(last_code_point(text).length);
    }
    if (text.size() != escaped.size()) escaped = std::string(text);
  }
  double growth() const override { return 1; }

private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& escaped) const override {
    if (!escaped.empty()) escaped.insert(0, prefix_);
  }
  double growth() const override { return 1.0 + static_cast<double>(prefix_.size()); }

private:
  std::string prefix_;
};

class ReplaceString final : public Normalizer {
public:
  ReplaceString(std::string find, std::string with) : find_(std::move(find)), with_(std::move(with)) {}
  void apply(std::string& escaped) const override { escaped = replace_all(escaped, find_, with_); }
  double growth() const override { return replacement_growth(find_.size(), with_.size()); }

private:
  std::string find_, with_;
};

class ReplaceRegex final : public Normalizer {
public:
  ReplaceRegex(Regex find, std::string with) : find_(std::move(find)), with_(std::move(with)) {}
  void apply(std::string& escaped) const override { escaped = replace_all(escaped, find_, with_); }
  // There is at most one match for each byte, and one empty match between bytes.
  double growth() const override { return 2.0 + 2.0 * static_cast<double>(with_.size()); }

private:
  Regex find_;
  std::string with_;
};

class ByteLevelNormalizer final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    std::string out;
    append_byte_level(out, escaped);
    escaped = std::move(out);
  }
  double growth() const override { return 2; }
};

class NormalizerSequence final : public Normalizer {
public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}
  void apply(std::string& escaped) const override {
    for (const NormalizerPtr& step : steps_) step->apply(escaped);
  }
  double growth() const override {
    double product = 1;
    for (const NormalizerPtr& step : steps_) product *= step->growth();
    return product;
  }

private:
  std::vector<NormalizerPtr> steps_;
};

} // namespace

NormalizerPtr make_strip(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}
NormalizerPtr make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}
NormalizerPtr make_replace(std::string find, std::string with) {
  return std::make_unique<ReplaceString>(std::move(find), std::move(with));
}
NormalizerPtr make_replace(Regex find, std::string with) {
  return std::make_unique<ReplaceRegex>(std::move(find), std::move(with));
}
NormalizerPtr make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}
NormalizerPtr make_sequence(std::vector<NormalizerPtr> steps) {
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

std::string replace_all(std::string_view text, std::string_view find, std::string_view with) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (!find.empty()) {
    size_t hit = text.find(find, at);
    if (hit == std::string_view::npos) break;
    out.append(text.substr(at, hit - at)).append(with);
    at = hit + find.size();
  }
  out.append(text.substr(at));
  return out;
}

std::string replace_all(std::string_view text, const Regex& find, std::string_view with) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  for (Span hit : find.matches(text)) {
    out.append(text.substr(at, hit.begin - at)).append(with);
    at = hit.end;
  }
  out.append(text.substr(at));
  return out;
}

double replacement_growth(size_t find_length, size_t with_length) {
  return std::max(1.0,
                  static_cast<double>(with_length) / static_cast<double>(std::max<size_t>(1, find_length)));
}

} // namespace pumice::text
