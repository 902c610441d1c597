#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/unicode/regex.h"

namespace pumice::text {

// Rewrites text before it is cut into pieces.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& escaped) const = 0;

  // An upper limit of how many times longer the text can become. When a file is read, the product over all
  // steps is limited, so that no file can make a short text fill the memory.
  virtual double growth() const = 0;
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

NormalizerPtr make_unicode_form(UnicodeForm form);
NormalizerPtr make_lowercase();
NormalizerPtr make_strip(bool left, bool right);
NormalizerPtr make_strip_accents();
NormalizerPtr make_prepend(std::string prefix); // does nothing to an empty text
NormalizerPtr make_replace(std::string find, std::string with);
NormalizerPtr make_replace(Regex find, std::string with);
NormalizerPtr make_byte_level_normalizer();
NormalizerPtr make_nmt(); // SentencePiece's "nmt" rules for control characters and spaces

struct BertNormalizerOptions {
  bool clean_text = true;    // removes control characters, turns white space into spaces
  bool space_chinese = true; // spaces around CJK ideographs
  bool strip_accents = true;
  bool lowercase = true;
};
NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& options);
NormalizerPtr make_sequence(std::vector<NormalizerPtr> steps);

// Replaces `find`, left to right. An empty `find` changes nothing.
std::string replace_all(std::string_view text, std::string_view find, std::string_view with);
std::string replace_all(std::string_view text, const Regex& find, std::string_view with);

// An upper limit of how many times longer such a replacement makes a text.
double replacement_growth(size_t find_length, size_t with_length);

} // namespace pumice::text
