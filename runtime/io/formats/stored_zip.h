#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace pumice {

// The members of a zip archive in which nothing is compressed, as views of its bytes: so that they can stay
// in a mapped file. (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, with its 64-bit records.)
// Errors: invalid_file; unsupported, for a compressed member.
Result<std::map<std::string, std::span<const std::byte>>> read_stored_zip(std::span<const std::byte> bytes,
                                                                          const std::string& file);

} // namespace pumice
