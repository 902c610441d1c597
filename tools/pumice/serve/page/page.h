#pragma once

#include <string>
#include <string_view>

namespace pumice::serve {

// page.html and routes/openapi.json, which the build puts into the program.
extern const std::string_view page_source, openapi_source;

// The page of a chat, as it is sent: scripts and styles without this word, which is a new one each time, are
// not run.
std::string page_text(const std::string& nonce);

} // namespace pumice::serve
