#include "text/unicode/space_marks.h"

#include <fmt/format.h>

#include "text/tokenizer_parts.h"
#include "text/unicode/character_map.h"

namespace pumice::text {

Result<NormalizerPtr> make_space_normalizer(std::string_view character_map, bool add_prefix,
                                            bool remove_extra, const std::string& where) {
  std::vector<NormalizerPtr> steps;
  if (!character_map.empty()) {
    PUMICE_TRY(CharacterMap map, CharacterMap::parse(character_map, where));
    steps.push_back(make_longest_map(std::move(map)));
  }
  if (remove_extra) {
    PUMICE_TRY(Regex ends, Regex::compile(R"(\A +| +\z)"));
    PUMICE_TRY(Regex runs, Regex::compile("  +"));
    steps.push_back(make_replace(std::move(ends), ""));
    steps.push_back(make_replace(std::move(runs), " "));
  }
  if (add_prefix) steps.push_back(make_prepend(" "));
  steps.push_back(make_replace(" ", "▁"));
  NormalizerPtr normalizer = make_sequence(std::move(steps));
  if (normalizer->growth() > kMaxGrowth) {
    return Error{
        Code::unsupported,
        fmt::format("{}: expected a character map that makes a text at most {} times longer, found more",
                    where, kMaxGrowth)};
  }
  return normalizer;
}

void append_space_decoders(std::vector<DecoderPtr>& decoders, bool strip) {
  decoders.push_back(make_replace_decoder("▁", " "));
  decoders.push_back(make_byte_fallback_decoder());
  decoders.push_back(make_fuse_decoder());
  if (strip) decoders.push_back(make_strip_decoder(' ', 1, 0));
}

} // namespace pumice::text
