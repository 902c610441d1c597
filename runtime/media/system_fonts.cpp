#include "media/system_fonts.h"

#ifdef PUMICE_SYSTEM_FONTS

#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace pumice {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> font_folders() {
  std::vector<fs::path> folders = {"/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts",
                                   "/Library/Fonts", "/opt/homebrew/share/fonts"};
  if (const char* home = std::getenv("HOME"); home && *home) {
    for (const char* each : {".local/share/fonts", ".fonts", "Library/Fonts"})
      folders.push_back(fs::path(home) / each);
  }
  return folders;
}

// Fonts without serifs first, as the built-in one is.
std::vector<std::string> font_files() {
  std::vector<std::pair<bool, std::string>> found;
  for (const fs::path& folder : font_folders()) {
    std::error_code failed;
    for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failed),
         end;
         !failed && at != end; at.increment(failed)) {
      const std::string ending = at->path().extension().string(), name = at->path().filename().string();
      if (ending != ".ttf" && ending != ".ttc" && ending != ".otf" && ending != ".otc") continue;
      found.emplace_back(name.find("Sans") == std::string::npos, at->path().string());
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> files;
  for (auto& [serifs, path] : found) files.push_back(std::move(path));
  return files;
}

// What can be drawn one character after the other, from left to right.
bool needs_no_shaping(uint32_t code) {
  return (code >= 0x2e80 && code < 0xfb00) || (code >= 0xfe10 && code < 0xfe70) ||
         (code >= 0xff00 && code < 0xfff0) || code >= 0x1f000;
}

class SystemFonts {
public:
  SystemFonts() {
    if (FT_Init_FreeType(&library_)) library_ = nullptr;
    if (library_) files_ = font_files();
  }
  SystemFonts(const SystemFonts&) = delete;
  SystemFonts& operator=(const SystemFonts&) = delete;
  ~SystemFonts() {
    faces_.clear();
    if (library_) FT_Done_FreeType(library_);
  }

  const SystemGlyph* find(uint32_t code, uint32_t size) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = glyphs_.try_emplace({code, size});
    if (is_new) found->second = drawn(code, size);
    return found->second.get();
  }

private:
  struct CloseFace {
    void operator()(FT_Face face) const { FT_Done_Face(face); }
  };
  using Face = std::unique_ptr<FT_FaceRec_, CloseFace>;

  std::unique_ptr<SystemGlyph> drawn(uint32_t code, uint32_t size) {
    if (!needs_no_shaping(code)) return nullptr;
    for (const Face& face : faces_)
      if (auto glyph = drawn_by(face.get(), code, size)) return glyph;
    for (const std::string& file : files_) {
      FT_Face opened = nullptr;
      if (FT_New_Face(library_, file.c_str(), 0, &opened)) continue;
      Face face(opened);
      auto glyph = drawn_by(opened, code, size);
      if (!glyph) continue;
      faces_.push_back(std::move(face)); // a text's next characters are probably of its script, too
      return glyph;
    }
    return nullptr;
  }

  static std::unique_ptr<SystemGlyph> drawn_by(FT_Face face, uint32_t code, uint32_t size) {
    const FT_UInt index = FT_Get_Char_Index(face, code);
    if (index == 0 || FT_Set_Pixel_Sizes(face, 0, size)) return nullptr;
    if (FT_Load_Glyph(face, index, FT_LOAD_RENDER | FT_LOAD_TARGET_LIGHT)) return nullptr;
    const FT_GlyphSlotRec& slot = *face->glyph;
    const FT_Bitmap& bitmap = slot.bitmap;
    const long advance = (slot.advance.x + 32) / 64;
    if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY || bitmap.width > 255 || bitmap.rows > 255 || advance <= 0 ||
        advance > 255 || std::abs(slot.bitmap_left) > 127 || std::abs(slot.bitmap_top) > 127)
      return nullptr;
    auto glyph = std::make_unique<SystemGlyph>();
    glyph->glyph = {code,
                    0,
                    static_cast<uint8_t>(bitmap.width),
                    static_cast<uint8_t>(bitmap.rows),
                    static_cast<int8_t>(slot.bitmap_left),
                    static_cast<int8_t>(slot.bitmap_top),
                    static_cast<uint8_t>(advance)};
    glyph->coverage.resize((size_t{bitmap.width} * bitmap.rows + 1) / 2);
    for (size_t pixel = 0; pixel < size_t{bitmap.width} * bitmap.rows; ++pixel) {
      const auto row = static_cast<ptrdiff_t>(pixel / bitmap.width),
                 column = static_cast<ptrdiff_t>(pixel % bitmap.width);
      const int value = (bitmap.buffer[row * bitmap.pitch + column] * 15 + 127) / 255;
      glyph->coverage[pixel / 2] =
          static_cast<uint8_t>(glyph->coverage[pixel / 2] | value << (pixel % 2 * 4));
    }
    return glyph;
  }

  std::mutex mutex_;
  FT_Library library_ = nullptr;
  std::vector<std::string> files_;
  std::vector<Face> faces_; // that had something
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<SystemGlyph>> glyphs_;
};

} // namespace

const SystemGlyph* system_glyph(uint32_t code, uint32_t size) {
  static SystemFonts fonts;
  return fonts.find(code, size);
}

} // namespace pumice

#else

namespace pumice {

const SystemGlyph* system_glyph(uint32_t, uint32_t) {
  return nullptr;
}

} // namespace pumice

#endif
