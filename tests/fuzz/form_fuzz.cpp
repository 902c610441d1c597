// A form of any kind, which the first byte chooses, and some masks of it: each is refused with a sentence, or
// the tokens of its masks may follow.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "form/form.h"

namespace {

std::vector<std::string> small_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"aa", "ab", "abc", "\"a", "\": ", "{\"", "true", "10", "  ", "é", "\xC3\xA9\xC3"})
    tokens.emplace_back(more);
  return tokens;
}

void check(bool holds) {
  if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  pumice::FormSource source;
  (data[0] % 3 == 0 ? source.regex : data[0] % 3 == 1 ? source.json_schema : source.grammar) = text;
  const auto vocabulary = std::make_shared<pumice::FormVocabulary>(small_vocabulary());
  const auto made = pumice::Form::create(source, vocabulary);
  if (!made.ok()) {
    check(!made.error().message.empty());
    return 0;
  }
  pumice::Form& form = **made;
  const uint32_t end = vocabulary->size();
  std::vector<uint32_t> bits(end / 32 + 1);
  pumice::FormPlace place = form.start();
  for (uint32_t count = 0; count < 24; ++count) {
    if (!form.mask(place, {&end, 1}, bits).ok()) return 0;
    std::vector<uint32_t> tokens;
    for (uint32_t token = 0; token < end; ++token) {
      if (bits[token / 32] >> token % 32 & 1) tokens.push_back(token);
    }
    if (tokens.empty()) return 0;
    const auto fits = form.accept(place, tokens[count * 7 % tokens.size()]);
    if (!fits.ok()) return 0;
    check(*fits);
  }
  return 0;
}
