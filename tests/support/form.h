#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "form/form.h"
#include "support/files/fixtures.h"
#include "support/require.h"
#include "text/tokenizer.h"

// A vocabulary with a token for each byte.
inline std::shared_ptr<pumice::FormVocabulary> byte_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<pumice::FormVocabulary>(std::move(tokens));
}

inline std::shared_ptr<pumice::FormVocabulary> fixture_vocabulary(const std::string& name) {
  return std::make_shared<pumice::FormVocabulary>(
      *require(pumice::Tokenizer::load(fixtures().tokenizer(name))));
}

inline bool accepts(pumice::Form& form, std::string_view text) {
  pumice::FormPlace place = form.start();
  return require(form.accept(place, text)) && place.may_end;
}

// Texts of tokens drawn from the masks, until they may end and `most` tokens were drawn, or must end.
class FormWalk {
public:
  FormWalk(pumice::Form& form, const pumice::FormVocabulary& vocabulary, uint32_t seed)
      : form_(form), vocabulary_(vocabulary), random_(seed), bits_(vocabulary.size() / 32 + 1) {}

  // The tokens that may follow; the number after the last one is the end.
  std::vector<uint32_t> allowed(const pumice::FormPlace& place) {
    const uint32_t end = vocabulary_.size();
    require(form_.mask(place, {&end, 1}, bits_));
    std::vector<uint32_t> all;
    for (uint32_t token = 0; token <= end; ++token) {
      if (bits_[token / 32] >> token % 32 & 1) all.push_back(token);
    }
    return all;
  }

  // Nothing: it did not end.
  std::optional<std::string> text(size_t most) {
    pumice::FormPlace place = form_.start();
    std::string result;
    for (size_t count = 0; count < 40 * most; ++count) {
      const std::vector<uint32_t> all = allowed(place);
      REQUIRE_MESSAGE(!all.empty(), result);
      uint32_t token = all[random_() % all.size()];
      if (count >= most) {
        // What closes something comes soon.
        for (const uint32_t each : all) {
          const std::string_view bytes = vocabulary_.bytes(each);
          if (bytes.size() == 1 && std::string_view("\"]}0").find(bytes[0]) != std::string_view::npos &&
              random_() % 2)
            token = each;
        }
        if (all.back() == vocabulary_.size()) token = all.back();
      }
      if (token == vocabulary_.size()) return result;
      REQUIRE(require(form_.accept(place, token)));
      result += vocabulary_.bytes(token);
    }
    return std::nullopt;
  }

private:
  pumice::Form& form_;
  const pumice::FormVocabulary& vocabulary_;
  std::mt19937 random_;
  std::vector<uint32_t> bits_;
};
