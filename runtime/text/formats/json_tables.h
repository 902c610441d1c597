#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/formats/json_document.h"

namespace pumice::text {

// Reads the tables of a tokenizer.json, model.vocab and model.merges, into `document`, many times faster than
// the general parser. Returns the text with null in their place. Returns nothing if the tables are not in the
// usual form ({"token": id, ...} or [["token", score], ...], and ["a b", ...] or [["a", "b"], ...]) or not
// valid: then `document` is useless, and the general parser says what is wrong.
std::optional<std::string> read_tables(std::string_view text, JsonDocument& document);

} // namespace pumice::text
