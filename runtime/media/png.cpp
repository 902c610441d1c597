#include "media/image_formats.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <png.h>

namespace pumice {

namespace {

// libpng reports errors with longjmp. Therefore no function that calls setjmp has an object with a
// destructor.
struct Message {
  char text[160] = {};
};

void on_error(png_structp png, png_const_charp message) {
  auto* out = static_cast<Message*>(png_get_error_ptr(png));
  std::snprintf(out->text, sizeof(out->text), "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct Reader {
  std::span<const std::byte> rest;
  Message message;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(std::span<const std::byte> bytes) : rest(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    if (png) info = png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "the file ends in the middle of the picture");
  std::memcpy(out, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

// Reads everything before the pixels, and requests them as 8-bit RGB.
bool read_header(Reader& reader) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &reader, read_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); // blank_image() limits the product
  png_set_chunk_malloc_max(png, 8 << 20);
  png_set_chunk_cache_max(png, 128);
  png_read_info(png, reader.info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  return true;
}

bool read_pixels(Reader& reader, png_bytep* rows, size_t row_bytes) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  if (png_get_rowbytes(png, reader.info) != row_bytes) png_error(png, "its pixels cannot be made RGB");
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

struct Writer {
  std::vector<std::byte>* out;
  Message message;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Writer(std::vector<std::byte>& bytes) : out(&bytes) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    if (png) info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

bool append(std::vector<std::byte>& out, const std::byte* bytes, size_t count) try {
  out.insert(out.end(), bytes, bytes + count);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void write_bytes(png_structp png, png_bytep bytes, size_t count) {
  auto* writer = static_cast<Writer*>(png_get_io_ptr(png));
  if (!append(*writer->out, reinterpret_cast<const std::byte*>(bytes), count))
    png_error(png, "not enough memory");
}

bool write_image(Writer& writer, const Image& image) {
  png_structp png = writer.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_write_fn(png, &writer, write_bytes, nullptr);
  png_set_IHDR(png, writer.info, image.width, image.height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, writer.info);
  for (size_t row = 0; row < image.height; ++row)
    png_write_row(png, image.pixels.data() + row * image.width * 3);
  png_write_end(png, nullptr);
  return true;
}

Error damaged(const std::string& name, const Message& message) {
  return {Code::invalid_file,
          fmt::format("{}: expected a whole PNG picture, found a damaged one: {}", name, message.text)};
}

} // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, 8) == 0;
}

Result<Image> parse_png(std::span<const std::byte> bytes, const std::string& name, uint64_t max_pixels) {
  Reader reader(bytes);
  if (!reader.info) return Error{Code::out_of_memory, fmt::format("{}: libpng cannot be initialised", name)};
  if (!read_header(reader)) return damaged(name, reader.message);
  PUMICE_TRY(Image image, blank_image(png_get_image_width(reader.png, reader.info),
                                      png_get_image_height(reader.png, reader.info), name, max_pixels));
  const size_t row_bytes = size_t{image.width} * 3;
  std::vector<png_bytep> rows(image.height);
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = image.pixels.data() + row * row_bytes;
  if (!read_pixels(reader, rows.data(), row_bytes)) return damaged(name, reader.message);
  return image;
}

Result<std::vector<std::byte>> png_bytes(const Image& image) {
  if (image.width == 0 || image.height == 0 ||
      image.pixels.size() != uint64_t{image.width} * image.height * 3)
    return Error{Code::invalid_argument,
                 fmt::format("a picture to write: expected {} x {} pixels of 3 bytes, found {} bytes",
                             image.width, image.height, image.pixels.size())};
  std::vector<std::byte> bytes;
  Writer writer(bytes);
  if (!writer.info) return Error{Code::out_of_memory, "libpng cannot be initialised"};
  if (!write_image(writer, image))
    return Error{Code::internal, fmt::format("a picture to write: {}", writer.message.text)};
  return bytes;
}

} // namespace pumice
