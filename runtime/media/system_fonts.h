#pragma once

#include <vector>

#include "media/font.h"

namespace pumice {

struct SystemGlyph {
  Glyph glyph;
  std::vector<uint8_t> coverage; // as in Font
};

// A character of this size, in pixels, as the first of the machine's fonts that has it draws it: Chinese,
// Japanese, Korean, and other signs that need no shaping. Null: no font has it, or the build has no FreeType.
const SystemGlyph* system_glyph(uint32_t code, uint32_t size);

} // namespace pumice
