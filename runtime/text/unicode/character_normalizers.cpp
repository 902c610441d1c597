#include "text/unicode/normalizer.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

// Replaces every character. `write(out, character, value)` appends the replacement.
template <class Write>
void rewrite(std::string& escaped, const Write& write) {
  std::string out;
  out.reserve(escaped.size());
  for (std::string_view rest = escaped; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    write(out, rest.substr(0, point.length), point.value);
    rest.remove_prefix(point.length);
  }
  escaped = std::move(out);
}

// Removes control characters and turns all white space into spaces.
class CleanText final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    rewrite(escaped, [](std::string& out, std::string_view character, char32_t value) {
      if (value == '\t' || value == '\n' || value == '\r') {
        out += ' ';
      } else if (value != 0 && value != 0xFFFD && !is_control(value)) {
        out += is_white_space(value) ? " " : character;
      }
    });
  }
  double growth() const override { return 1; }
};

class SpaceChinese final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    rewrite(escaped, [](std::string& out, std::string_view character, char32_t value) {
      if (!is_chinese(value)) {
        out += character;
      } else {
        out.append(" ").append(character).append(" ");
      }
    });
  }
  double growth() const override { return 5.0 / 3; }
};

class Nmt final : public Normalizer {
public:
  void apply(std::string& escaped) const override {
    rewrite(escaped, [](std::string& out, std::string_view character, char32_t value) {
      if (is_space(value)) {
        out += ' ';
      } else if (!is_dropped(value)) {
        out += character;
      }
    });
  }
  double growth() const override { return 1; }

private:
  static bool is_dropped(char32_t value) {
    return (value >= 0x01 && value <= 0x08) || value == 0x0B || (value >= 0x0E && value <= 0x1F) ||
           value == 0x7F || value == 0x8F || value == 0x9F;
  }
  static bool is_space(char32_t value) {
    switch (value) {
    case 0x09:
    case 0x0A:
    case 0x0C:
    case 0x0D:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x2581:
    case 0xFEFF:
    case 0xFFFD:
      return true;
    default:
      return value >= 0x200B && value <= 0x200F;
    }
  }
};

} // namespace

NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& options) {
  std::vector<NormalizerPtr> steps;
  if (options.clean_text) steps.push_back(std::make_unique<CleanText>());
  if (options.space_chinese) steps.push_back(std::make_unique<SpaceChinese>());
  if (options.strip_accents) {
    steps.push_back(make_unicode_form(UnicodeForm::nfd));
    steps.push_back(make_strip_accents());
  }
  if (options.lowercase) steps.push_back(make_lowercase());
  return make_sequence(std::move(steps));
}

NormalizerPtr make_nmt() {
  return std::make_unique<Nmt>();
}

} // namespace pumice::text
