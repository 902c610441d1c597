#pragma once

#include <span>

#include "text/model.h"

namespace pumice::text {

// Byte-pair encoding by a list of merges: of the adjacent pairs in a piece the one that comes first in the
// list is joined, the leftmost if there are several, until none is in the list.
struct BpeOptions {
  bool byte_fallback = false;
  bool fuse_unknown = false;
  bool ignore_merges = false; // a piece that is a token as it stands is not taken apart
  std::optional<uint32_t> unknown;
  std::string continuing_prefix; // written before every character of a piece but the first, as "##"
  std::string word_suffix;       // written after the last, as "</w>"
};

// The merges in order, first the most wanted.
struct Merges {
  struct Merge {
    uint32_t begin;       // of the two tokens, one after the other, in `text`
    uint32_t left, right; // their lengths
  };
  std::string text;
  std::vector<Merge> list;

  void add(std::string_view left, std::string_view right);
};

// `vocabulary` must outlive the model. `where` is what an error calls the merges: "FILE: model.merges".
Result<ModelPtr> make_bpe(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options,
                          const std::string& where);

} // namespace pumice::text
