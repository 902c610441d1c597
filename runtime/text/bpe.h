#pragma once

#include <span>

#include "text/model.h"

namespace pumice::text {

// Byte-pair encoding with a list of merges. Of the adjacent pairs in a piece, the pair that comes first in
// the list is joined (the leftmost if it occurs several times), until no pair is in the list.
struct BpeOptions {
  bool byte_fallback = false;
  bool fuse_unknown = false;
  bool ignore_merges = false; // a piece that is a token is not split
  std::optional<uint32_t> unknown;
  std::string continuing_prefix; // before each character of a piece except the first, such as "##"
  std::string word_suffix;       // after the last character, such as "</w>"
};

// The merges in order of priority, the highest first.
struct Merges {
  struct Merge {
    uint32_t begin;       // where the two tokens begin in `text`, one after the other
    uint32_t left, right; // their lengths
  };
  std::string text;
  std::vector<Merge> list;

  void add(std::string_view left, std::string_view right);
};

// Makes the model. `vocabulary` must outlive it. `where` names the merges in errors: "FILE: model.merges".
Result<ModelPtr> make_bpe(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options,
                          const std::string& where);

} // namespace pumice::text
