#include <algorithm>

#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "gpu/commands.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_picture_copy : Live<pumice_picture_copy> {
  std::shared_ptr<Device> device;
  uint32_t width = 0, height = 0; // at most
  Buffer pixels;
  pumice_picture picture = {}; // what was recorded
};

namespace {

constexpr uint64_t pixel_bytes = 4;

Result<pumice_pixel_order> order_of(uint32_t format) {
  switch (format) {
  case VK_FORMAT_R8G8B8A8_UNORM:
  case VK_FORMAT_R8G8B8A8_SRGB:
    return PUMICE_PIXELS_RGBA;
  case VK_FORMAT_B8G8R8A8_UNORM:
  case VK_FORMAT_B8G8R8A8_SRGB:
    return PUMICE_PIXELS_BGRA;
  default:
    return Error{Code::unsupported, fmt::format("image->format is {}: expected {}, {}, {} or {}, of R8G8B8A8 "
                                                "and B8G8R8A8, UNORM and SRGB",
                                                format, static_cast<int>(VK_FORMAT_R8G8B8A8_UNORM),
                                                static_cast<int>(VK_FORMAT_R8G8B8A8_SRGB),
                                                static_cast<int>(VK_FORMAT_B8G8R8A8_UNORM),
                                                static_cast<int>(VK_FORMAT_B8G8R8A8_SRGB))};
  }
}

Status check_image(const pumice_picture_copy& copy, const pumice_vulkan_image& image) {
  if (image.image == VK_NULL_HANDLE) return null_argument("image->image");
  if (image.layout == VK_IMAGE_LAYOUT_UNDEFINED || image.layout == VK_IMAGE_LAYOUT_PREINITIALIZED) {
    return Error{Code::invalid_argument,
                 fmt::format("image->layout is {}: expected one that an image with a content can be left in",
                             image.layout)};
  }
  const auto fits = [](uint32_t edge, uint32_t most) { return edge >= 1 && edge <= most; };
  if (fits(image.width, copy.width) && fits(image.height, copy.height)) return {};
  return Error{Code::invalid_argument,
               fmt::format("image has {} x {} pixels: expected 1 x 1 to {} x {}, as the copy was created for",
                           image.width, image.height, copy.width, copy.height)};
}

} // namespace

extern "C" {

pumice_status pumice_picture_copy_create(pumice_device* device, uint32_t width, uint32_t height,
                                         pumice_picture_copy** copy, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(copy);
    *copy = nullptr;
    constexpr uint32_t most_edge = 1u << 15;
    if (width < 1 || height < 1 || std::max(width, height) > most_edge) {
      return Error{Code::invalid_argument,
                   fmt::format("width and height are {} and {}: expected 1 to {}", width, height, most_edge)};
    }
    auto made = std::make_unique<pumice_picture_copy>();
    made->device = device->context.device;
    made->width = width;
    made->height = height;
    PUMICE_TRY(made->pixels, Buffer::create(made->device, pixel_bytes * width * height, MemoryUse::readback,
                                            "pixels of a picture"));
    if (made->pixels.mapped().empty())
      return Error{Code::unsupported, "the application's allocator cannot map memory for the host"};
    *copy = made.release();
    return {};
  });
}

pumice_status pumice_picture_copy_record(pumice_picture_copy* copy, const pumice_vulkan_image* caller_image,
                                         VkCommandBuffer command_buffer, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(copy);
    PUMICE_REQUIRE(caller_image);
    PUMICE_REQUIRE(command_buffer);
    PUMICE_TRY(const pumice_vulkan_image image, read(caller_image, "image"));
    PUMICE_TRY(const pumice_pixel_order order, order_of(image.format));
    PUMICE_CHECK(check_image(*copy, image));
    VkBufferImageCopy region = {};
    region.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, image.mip_level, image.array_layer, 1};
    region.imageOffset = {static_cast<int32_t>(image.x), static_cast<int32_t>(image.y), 0};
    region.imageExtent = {image.width, image.height, 1};
    Commands commands = Commands::into(copy->device, command_buffer);
    commands.copy(image.image, static_cast<VkImageLayout>(image.layout), region, copy->pixels);
    copy->picture = {sizeof(pumice_picture)};
    copy->picture.pixels = reinterpret_cast<const uint8_t*>(copy->pixels.mapped().data());
    copy->picture.width = image.width;
    copy->picture.height = image.height;
    copy->picture.order = order;
    return {};
  });
}

pumice_status pumice_picture_copy_picture(const pumice_picture_copy* copy, pumice_picture* picture,
                                          pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(copy);
    PUMICE_REQUIRE(picture);
    if (!copy->picture.pixels)
      return Error{Code::not_ready, "nothing was recorded yet: call pumice_picture_copy_record first"};
    return write(copy->picture, picture, "picture");
  });
}

void pumice_picture_copy_destroy(pumice_picture_copy* copy) {
  destroy_live(copy);
}

} // extern "C"
