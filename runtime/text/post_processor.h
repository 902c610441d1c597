#pragma once

#include <cstdint>
#include <vector>

namespace pumice::text {

// The special tokens around a text and, for models that compare two texts, around and between a pair.
struct PostProcessor {
  struct Element {
    enum class Kind { token, first, second };
    Kind kind;
    uint32_t token = 0; // for Kind::token
    uint32_t type = 0;  // the token type id of all its tokens
  };
  using Template = std::vector<Element>;

  Template single = {{Element::Kind::first}};
  Template pair = {{Element::Kind::first}, {Element::Kind::second, 0, 1}};

  // The common templates. bert: [CLS] A [SEP] B [SEP], where the last two have type 1. roberta: <s> A
  // </s></s> B </s>. around: any tokens before and after; in a pair, `after` follows each text.
  static PostProcessor bert(uint32_t cls, uint32_t sep);
  static PostProcessor roberta(uint32_t cls, uint32_t sep);
  static PostProcessor around(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after);

  // The tokens around a single text.
  std::vector<uint32_t> before() const;
  std::vector<uint32_t> after() const;

  // Applies another one afterwards: `outer` puts its tokens around the result of this one.
  void then(PostProcessor outer);
};

} // namespace pumice::text
