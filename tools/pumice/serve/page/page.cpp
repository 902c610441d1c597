#include "serve/page/page.h"

namespace pumice::serve {

std::string page_text(const std::string& nonce) {
  constexpr std::string_view place = "NONCE";
  std::string text(page_source);
  for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += nonce.size())
    text.replace(at, place.size(), nonce);
  return text;
}

} // namespace pumice::serve
