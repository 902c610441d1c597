#include "media/font.h"

#include <algorithm>

namespace pumice {

const Glyph* Font::find(uint32_t code) const {
  const auto found = std::ranges::lower_bound(glyphs, code, {}, &Glyph::code);
  return found != glyphs.end() && found->code == code ? &*found : nullptr;
}

} // namespace pumice
