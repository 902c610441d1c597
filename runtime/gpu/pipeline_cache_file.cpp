#include "gpu/pipeline_cache_file.h"

#include <cstring>
#include <fstream>
#include <random>
#include <span>

#include <fmt/format.h>

namespace pumice {

namespace {

struct Header {
  char magic[8] = {'P', 'U', 'M', 'I', 'C', 'E', 'P', '1'};
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t driver_build = 0;
  uint32_t reserved = 0;
  uint8_t cache_uuid[VK_UUID_SIZE] = {};
  uint8_t driver_uuid[VK_UUID_SIZE] = {};
  uint64_t size = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Header) == 72);

// FNV-1a: guards against damage, not against malice.
uint64_t hash_bytes(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

Header header_for(const Capabilities& device, std::span<const std::byte> contents) {
  Header header;
  header.vendor_id = device.vendor_id;
  header.device_id = device.device_id;
  header.driver_build = device.driver_build;
  std::memcpy(header.cache_uuid, device.pipeline_cache_uuid.data(), VK_UUID_SIZE);
  std::memcpy(header.driver_uuid, device.driver_uuid.data(), VK_UUID_SIZE);
  header.size = contents.size();
  header.hash = hash_bytes(contents);
  return header;
}

} // namespace

std::filesystem::path pipeline_cache_path(const std::filesystem::path& folder, const Capabilities& device) {
  const Header header = header_for(device, {});
  const uint64_t key = hash_bytes(std::as_bytes(std::span(&header, 1)));
  return folder / fmt::format("pipelines-{:04x}-{:04x}-{:016x}.bin", device.vendor_id, device.device_id, key);
}

std::vector<std::byte> read_pipeline_cache(const std::filesystem::path& file, const Capabilities& device) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const std::streamoff size = stream.tellg();
  if (size < static_cast<std::streamoff>(sizeof(Header))) return {};
  Header found;
  std::vector<std::byte> contents(static_cast<size_t>(size) - sizeof(Header));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(&found), sizeof(found));
  stream.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
  if (!stream) return {};
  const Header expected = header_for(device, contents);
  if (std::memcmp(&found, &expected, sizeof(Header)) != 0) return {};
  return contents;
}

Status write_pipeline_cache(const std::filesystem::path& file, const Capabilities& device,
                            const std::vector<std::byte>& contents) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const std::filesystem::path temporary = file.string() + fmt::format(".{:08x}", std::random_device{}());
  const Header header = header_for(device, contents);
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(&header), sizeof(header));
    stream.write(reinterpret_cast<const char*>(contents.data()),
                 static_cast<std::streamsize>(contents.size()));
    if (!stream) {
      std::filesystem::remove(temporary, ignored);
      return Error{Code::io, fmt::format("{}: the pipeline cache cannot be written", file.string())};
    }
  }
  std::error_code failed;
  std::filesystem::rename(temporary, file, failed);
  if (failed) {
    std::filesystem::remove(temporary, ignored);
    return Error{Code::io, fmt::format("{}: the pipeline cache cannot be written: {}", file.string(),
                                       failed.message())};
  }
  return {};
}

} // namespace pumice
