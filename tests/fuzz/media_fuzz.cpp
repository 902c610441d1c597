// Pictures and sounds from anyone: whatever the bytes, what comes of them is an error that names the file, or
// as many pixels and samples as it says.
#include "media/audio.h"
#include "media/image.h"
#include "media/preprocess.h"

using namespace pumice;

namespace {

const std::string name = "fuzz.media";

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void read_picture(std::span<const std::byte> bytes) {
  const auto image = parse_image(bytes, name, 1 << 18);
  if (!image) return require(image.error().message.starts_with(name));
  require(image->pixels.size() == size_t{image->width} * image->height * 3);
  ImagePreparation preparation;
  preparation.shortest_edge = 8;
  preparation.crops = true;
  preparation.crop_height = preparation.crop_width = 8;
  const auto values = prepare(*image, preparation, name);
  require(values.ok() && values->size() == 8 * 8 * 3);
}

void read_sound(std::span<const std::byte> bytes) {
  const auto audio = parse_audio(bytes, name, 1 << 18);
  if (!audio) return require(audio.error().message.starts_with(name));
  require(audio->rate > 0 && !audio->samples.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  read_picture(bytes);
  read_sound(bytes);
  return 0;
}
