#include "media/image.h"

#include "io/bytes.h"
#include "io/mapped_file.h"
#include "io/output_file.h"
#include "media/image_formats.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

namespace pumice {

Result<Image> blank_image(uint64_t width, uint64_t height, const std::string& name, uint64_t max_pixels) {
  const uint64_t longest = std::max(width, height), count = longest > max_image_edge ? 0 : width * height;
  if (longest > max_image_edge || count > max_pixels)
    return Error{
        Code::unsupported,
        fmt::format("{}: expected a picture of at most {} pixels and edges of at most {}, found {} x {}",
                    name, max_pixels, max_image_edge, width, height)};
  if (count == 0)
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a picture, found one of {} x {} pixels", name, width, height)};
  Image image;
  image.width = static_cast<uint32_t>(width);
  image.height = static_cast<uint32_t>(height);
  image.pixels.resize(count * 3);
  return image;
}

namespace {

// The format of a file that is a picture of another kind; empty for others.
std::string_view unread_format(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("GIF8")) return "a GIF";
  if (text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") return "a WebP file";
  constexpr std::string_view zeros("\0\0\0\0", 4), intel("II*\0", 4), motorola("MM\0*", 4);
  if (text.starts_with("BM") && text.size() >= 10 && text.substr(6, 4) == zeros) return "a BMP file";
  if (text.starts_with(intel) || text.starts_with(motorola)) return "a TIFF file";
  if (text.size() >= 12 && text.substr(4, 4) == "ftyp") {
    const std::string_view brand = text.substr(8, 4);
    if (brand == "avif" || brand == "avis") return "an AVIF file";
    if (brand.starts_with("hei") || brand.starts_with("hev") || brand == "mif1") return "a HEIC file";
  }
  if (text.starts_with("<svg") || text.starts_with("<?xml")) return "an SVG file";
  return {};
}

} // namespace

Result<Image> parse_image(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_pixels) try {
  if (is_png(bytes)) return parse_png(bytes, name, max_pixels);
  if (is_jpeg(bytes)) return parse_jpeg(bytes, name, max_pixels);
  if (bytes.empty())
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a PNG or JPEG picture, found an empty file", name)};
  if (const std::string_view format = unread_format(bytes); !format.empty())
    return Error{
        Code::unsupported,
        fmt::format("{}: expected a PNG or JPEG picture, found {}, which cannot be read: convert it, "
                    "for example by 'convert IN OUT.png' (ImageMagick)",
                    name, format)};
  return Error{Code::invalid_file,
               fmt::format("{}: expected a PNG or JPEG picture, found a file that begins with {}", name,
                           in_quotes(as_text(bytes), 16))};
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the picture", name)};
}

Result<Image> read_image(const std::filesystem::path& path, uint64_t max_pixels) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  return parse_image(file.bytes(), file.path(), max_pixels);
}

Status write_png(const Image& image, const std::filesystem::path& path) {
  PUMICE_TRY(const std::vector<std::byte> bytes, png_bytes(image));
  OutputFile out;
  PUMICE_CHECK(out.open(path));
  PUMICE_CHECK(out.write(bytes));
  return out.finish();
}

} // namespace pumice
