#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/detokenizer.h"
#include "text/unicode/normalizer.h"

// SentencePiece writes spaces as U+2581.
namespace pumice::text {

// What SentencePiece does to a text before it cuts it. It replaces characters by the compiled map (an empty
// map changes nothing); with `remove_extra`, it joins runs of spaces into one and removes spaces at the ends;
// with `add_prefix`, it puts a space before the text; then it writes each space as U+2581. `where` names the
// map in errors.
Result<NormalizerPtr> make_space_normalizer(std::string_view character_map, bool add_prefix,
                                            bool remove_extra, const std::string& where);

// The decoders that reverse this. With `strip`, they remove the space that was put before the text.
void append_space_decoders(std::vector<DecoderPtr>& decoders, bool strip);

} // namespace pumice::text
