// Stands in for image.cpp in a library that is built without the libraries for files of pictures.
#include "media/image.h"

#include <fmt/format.h>

namespace pumice {

Result<std::vector<std::byte>> png_bytes(const Image&) {
  return Error{Code::unsupported,
               "this build of the library writes no PNG files: build it with -DPUMICE_PICTURE_FILES=ON"};
}

Result<Image> parse_image(std::span<const std::byte>, const std::string& name, uint64_t) {
  return Error{
      Code::unsupported,
      fmt::format("{}: this build of the library reads no PNG or JPEG files: give pixels, or build it "
                  "with -DPUMICE_PICTURE_FILES=ON",
                  name)};
}

} // namespace pumice
