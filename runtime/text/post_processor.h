#pragma once

#include <cstdint>
#include <vector>

namespace pumice::text {

// What goes around a text and, for models that judge two of them, around and between a pair.
struct PostProcessor {
  struct Part {
    enum class Kind { token, first, second };
    Kind kind;
    uint32_t token = 0; // of Kind::token
    uint32_t type = 0;  // the "token type" of all its tokens
  };
  using Parts = std::vector<Part>;

  Parts single = {{Part::Kind::first}};
  Parts pair = {{Part::Kind::first}, {Part::Kind::second, 0, 1}};

  // The customary ones: [CLS] A [SEP] B [SEP], the last two of type 1; <s> A </s></s> B </s>; and any tokens
  // before and after, those after following each text of a pair.
  static PostProcessor bert(uint32_t cls, uint32_t sep);
  static PostProcessor roberta(uint32_t cls, uint32_t sep);
  static PostProcessor around(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after);

  // The tokens around a single text.
  std::vector<uint32_t> before() const;
  std::vector<uint32_t> after() const;

  // Goes on with another: it puts its tokens around what this one makes.
  void then(PostProcessor outer);
};

} // namespace pumice::text
