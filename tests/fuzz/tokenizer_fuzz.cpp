// A tokenizer.json, and after the first NUL byte (there is none in JSON) a text for it. Without one, the JSON
// is the text too.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode/unicode.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void decode_both_ways(const std::shared_ptr<const pumice::Tokenizer>& tokenizer,
                      const std::vector<uint32_t>& ids, bool keep_special) {
  std::string whole = tokenizer->decode(ids, keep_special);
  require(pumice::text::is_valid_utf8(whole));
  pumice::StreamDecoder decoder(tokenizer, keep_special);
  std::string streamed;
  for (uint32_t id : ids) {
    std::string part = decoder.push(id);
    require(pumice::text::is_valid_utf8(part));
    streamed += part;
  }
  streamed += decoder.flush();
  require(streamed == whole);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t end = std::min(input.find('\0'), input.size());
  std::string_view json = input.substr(0, end);
  std::string_view text = end < size ? input.substr(end + 1) : json.substr(0, 1024);
  auto tokenizer = pumice::Tokenizer::parse_json(json, "fuzz");
  if (!tokenizer) {
    require(!tokenizer.error().message.empty());
    return 0;
  }
  std::vector<uint32_t> ids = (*tokenizer)->encode(text, true);
  for (uint32_t id : ids) require(id < (*tokenizer)->vocabulary_size());
  decode_both_ways(*tokenizer, ids, true);
  decode_both_ways(*tokenizer, ids, false);
  ids.clear(); // any ids, many of them next to each other as no text would have them
  for (char c : text.substr(0, 256))
    ids.push_back(static_cast<unsigned char>(c) * 7u % (*tokenizer)->vocabulary_size());
  decode_both_ways(*tokenizer, ids, true);
  return 0;
}
