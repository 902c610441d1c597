#include "drawing/image_file.h"

#include <vector>

#include <png.h>

#include "failure.h"

namespace npc {

void write_png(const std::filesystem::path& path, uint32_t width, uint32_t height, const uint8_t* pixels) {
  std::vector<uint8_t> rgb;
  rgb.reserve(size_t{3} * width * height);
  for (size_t i = 0; i < size_t{width} * height; ++i)
    rgb.insert(rgb.end(), pixels + 4 * i, pixels + 4 * i + 3);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&image, path.string().c_str(), 0, rgb.data(), 0, nullptr))
    throw Failure(fmt::format("{}: {}", path.string(), image.message));
}

} // namespace npc
