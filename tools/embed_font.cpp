// A build tool: rasterises a font in some sizes, and writes the glyphs as a C++ table.
//   embed_font FONT OUTPUT HEADER NAMESPACE SIZE...
// HEADER declares Glyph, Font and fonts() in the namespace; runtime/media/font.h describes them.
#include <ft2build.h>
#include FT_FREETYPE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

// Characters that can be drawn one after the other from left to right, without shaping.
const std::pair<uint32_t, uint32_t> ranges[] = {
    {0x20, 0x7E},     {0xA0, 0x58F},    {0x10D0, 0x10FF}, {0x1E00, 0x1EFF}, {0x2010, 0x205E},
    {0x2070, 0x209C}, {0x20A0, 0x20BF}, {0x2116, 0x2116}, {0x2122, 0x2122}, {0x2190, 0x2199},
    {0x21B5, 0x21B5}, {0x21E5, 0x21E5}, {0x2200, 0x226F}, {0x2423, 0x2423}, {0x2580, 0x2593},
    {0x25A0, 0x25CF}, {0xFB00, 0xFB04}, {0xFFFD, 0xFFFD},
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "embed_font: %s\n", message.c_str());
  std::exit(1);
}

struct Table {
  std::string glyphs;
  std::vector<uint8_t> coverage; // one byte for each pixel

  void add(uint32_t code, const FT_GlyphSlotRec& slot) {
    const FT_Bitmap& bitmap = slot.bitmap;
    const long advance = (slot.advance.x + 32) / 64;
    if (bitmap.width > 255 || bitmap.rows > 255 || advance < 0 || advance > 255 ||
        std::abs(slot.bitmap_left) > 127 || std::abs(slot.bitmap_top) > 127)
      fail("a glyph is too large for the table");
    for (const long value :
         {static_cast<long>(code), static_cast<long>(coverage.size()), static_cast<long>(bitmap.width),
          static_cast<long>(bitmap.rows), static_cast<long>(slot.bitmap_left),
          static_cast<long>(slot.bitmap_top), advance})
      glyphs += (glyphs.empty() || glyphs.back() == '\n' ? "{" : ",") + std::to_string(value);
    glyphs += "},\n";
    for (unsigned row = 0; row < bitmap.rows; ++row)
      for (unsigned column = 0; column < bitmap.width; ++column)
        coverage.push_back(
            static_cast<uint8_t>((bitmap.buffer[row * bitmap.pitch + column] * 15 + 127) / 255));
  }

  std::string packed() const {
    std::string text;
    for (size_t i = 0; i < coverage.size(); i += 2) {
      const int high = i + 1 < coverage.size() ? coverage[i + 1] : 0;
      text += std::to_string(coverage[i] + 16 * high) + (i % 64 == 62 ? ",\n" : ",");
    }
    return text;
  }
};

Table rasterise(FT_Face face, const std::string& size) {
  if (FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(std::stoul(size)))) fail("no size " + size);
  Table table;
  for (const auto& [first, last] : ranges)
    for (uint32_t code = first; code <= last; ++code) {
      const FT_UInt index = FT_Get_Char_Index(face, code);
      if (index == 0) continue;
      if (FT_Load_Glyph(face, index, FT_LOAD_RENDER | FT_LOAD_TARGET_LIGHT))
        fail("a glyph cannot be rendered");
      table.add(code, *face->glyph);
    }
  return table;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 6) fail("usage: embed_font FONT OUTPUT HEADER NAMESPACE SIZE...");
  FT_Library library = nullptr;
  FT_Face face = nullptr;
  if (FT_Init_FreeType(&library)) fail("FreeType does not start");
  if (FT_New_Face(library, argv[1], 0, &face)) fail(std::string(argv[1]) + " is not a font");
  const std::string header = argv[3], name_space = argv[4];
  std::string arrays, rows;
  for (int i = 5; i < argc; ++i) {
    const std::string size = argv[i];
    const Table table = rasterise(face, size);
    arrays += "const Glyph glyphs_" + size + "[] = {\n" + table.glyphs + "};\nconst uint8_t coverage_" +
              size + "[] = {\n" + table.packed() + "};\n";
    rows += "    {" + size + ", glyphs_" + size + ", coverage_" + size + "},\n";
  }
  FT_Done_Face(face);
  FT_Done_FreeType(library);
  std::ofstream out(argv[2]);
  out << "// Made by tools/embed_font.cpp.\n#include \"" << header << "\"\n\nnamespace " << name_space
      << " {\nnamespace {\n"
      << arrays << "const Font table[] = {\n"
      << rows << "};\n} // namespace\n\n"
      << "std::span<const Font> fonts() { return table; }\n\n} // namespace " << name_space << "\n";
  if (!out.flush()) fail(std::string(argv[2]) + " cannot be written");
}
