#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"
#include "text/normalizer.h"

// SentencePiece writes spaces as U+2581, and so every token can be told from text.
namespace pumice::text {

// What SentencePiece does to a text before it cuts it: characters become what the compiled map says (an empty
// one changes none), runs of spaces one and those at the ends none (`remove_extra`), one comes before the
// text
// (`add_prefix`), and all of them are written as U+2581. `where` is what an error calls the map.
Result<NormalizerPtr> make_space_normalizer(std::string_view character_map, bool add_prefix,
                                            bool remove_extra, const std::string& where);

// The way back, without the space that was put before the text (`strip`).
void append_space_decoders(std::vector<DecoderPtr>& decoders, bool strip);

} // namespace pumice::text
