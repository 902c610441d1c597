#pragma once

#include <string_view>
#include <vector>

namespace pumice {

// Cuts a text into its sentences by Unicode's rules (UAX #29, Sentence Boundaries, without tailoring). White
// space after a sentence belongs to it, so that the parts together are the text. Bytes that are no UTF-8
// count as letters.
std::vector<std::string_view> split_sentences(std::string_view text);

} // namespace pumice
