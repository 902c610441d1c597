#include "media/image_formats.h"

#include <csetjmp>
#include <cstdio>

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

namespace pumice {

namespace {

// An error of libjpeg must not return, so it ends in a longjmp. Therefore no function that calls setjmp has
// an object with a destructor.
struct Reader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* reader = static_cast<Reader*>(info->client_data);
  info->err->format_message(info, reader->message);
  std::longjmp(reader->out, 1);
}

// A warning that the decoder had to invent pixels is an error here. Other warnings are harmless.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
  case JWRN_JPEG_EOF:
  case JWRN_HIT_MARKER:
  case JWRN_HUFF_BAD_CODE:
  case JWRN_MUST_RESYNC:
    on_error(info);
  default:
    break;
  }
}

// Limits the number of scans: each takes the time of a whole picture, and a small file can have very many.
void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  auto* reader = static_cast<Reader*>(info->client_data);
  if (reader->info.input_scan_number <= 200) return;
  std::snprintf(reader->message, sizeof(reader->message), "more than 200 scans");
  std::longjmp(reader->out, 1);
}

bool start(Reader& reader, std::span<const std::byte> bytes) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.info.client_data = &reader;
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  if (setjmp(reader.out)) return false;
  jpeg_create_decompress(&reader.info);
  reader.progress.progress_monitor = on_progress;
  reader.info.progress = &reader.progress;
  jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&reader.info, TRUE);
  const J_COLOR_SPACE space = reader.info.jpeg_color_space;
  reader.info.out_color_space = space == JCS_CMYK || space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
  return true;
}

// Converts CMYK to RGB. Adobe's programs store the four colours inverted, so that a product of two gives the
// light.
void from_cmyk(const uint8_t* row, uint8_t* out, size_t width, bool inverted) {
  for (size_t pixel = 0; pixel < width; ++pixel)
    for (size_t colour = 0; colour < 3; ++colour) {
      const uint32_t ink = row[pixel * 4 + colour], black = row[pixel * 4 + 3];
      const uint32_t light = inverted ? ink * black : (255 - ink) * (255 - black);
      out[pixel * 3 + colour] = static_cast<uint8_t>((light + 127) / 255);
    }
}

// If `cmyk` is not null, it has room for one row of CMYK pixels.
bool read_pixels(Reader& reader, uint8_t* pixels, uint8_t* cmyk) {
  if (setjmp(reader.out)) return false;
  jpeg_decompress_struct& info = reader.info;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = pixels + size_t{info.output_scanline} * info.output_width * 3;
    JSAMPROW target = cmyk ? cmyk : row;
    if (jpeg_read_scanlines(&info, &target, 1) == 1 && cmyk)
      from_cmyk(cmyk, row, info.output_width, info.saw_Adobe_marker);
  }
  jpeg_finish_decompress(&info);
  return true;
}

Error damaged(const std::string& name, const Reader& reader) {
  return {Code::invalid_file,
          fmt::format("{}: expected a whole JPEG picture, found a damaged one: {}", name, reader.message)};
}

Result<Image> decode(Reader& reader, std::span<const std::byte> bytes, const std::string& name,
                     uint64_t max_pixels) {
  if (!start(reader, bytes)) return damaged(name, reader);
  PUMICE_TRY(Image image, blank_image(reader.info.image_width, reader.info.image_height, name, max_pixels));
  std::vector<uint8_t> cmyk(reader.info.out_color_space == JCS_CMYK ? size_t{image.width} * 4 : 0);
  if (!read_pixels(reader, image.pixels.data(), cmyk.empty() ? nullptr : cmyk.data()))
    return damaged(name, reader);
  return image;
}

} // namespace

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8} &&
         bytes[2] == std::byte{0xFF};
}

Result<Image> parse_jpeg(std::span<const std::byte> bytes, const std::string& name, uint64_t max_pixels) {
  struct Owner { // destroyed in this function, which no longjmp skips
    Reader reader;
    ~Owner() { jpeg_destroy_decompress(&reader.info); }
  } owner;
  return decode(owner.reader, bytes, name, max_pixels);
}

} // namespace pumice
