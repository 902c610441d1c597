#include "gpu/cache_folder/device_file.h"

#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/checksum.h"
#include "io/output_file.h"

namespace pumice {

namespace {

// A file's header, which must match the device and the build.
struct Identity {
  char magic[8] = {'P', 'U', 'M', 'I', 'C', 'E', 'D', '1'};
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t driver_build = 0;
  uint32_t reserved = 0;
  uint8_t cache_uuid[VK_UUID_SIZE] = {};
  uint8_t driver_uuid[VK_UUID_SIZE] = {};
  uint64_t kernels = 0;
};
static_assert(sizeof(Identity) == 64);
constexpr size_t checksum_bytes = 8;

uint64_t hash_of(std::span<const KernelBinary> kernels) {
  Checksum checksum;
  for (const KernelBinary& kernel : kernels) {
    checksum.add(kernel.name);
    checksum.add(kernel.hash);
  }
  return checksum.value();
}

Identity identity_of(const Capabilities& device) {
  Identity identity;
  identity.vendor_id = device.vendor_id;
  identity.device_id = device.device_id;
  identity.driver_build = device.driver_build;
  std::memcpy(identity.cache_uuid, device.pipeline_cache_uuid.data(), VK_UUID_SIZE);
  std::memcpy(identity.driver_uuid, device.driver_uuid.data(), VK_UUID_SIZE);
  return identity;
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

void put(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void put_number(std::vector<std::byte>& out, uint64_t number) {
  put(out, std::as_bytes(std::span(&number, 1)));
}
void put_sized(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  put_number(out, bytes.size());
  put(out, bytes);
}

bool take_sized(ByteReader& reader, std::span<const std::byte>& bytes) {
  uint64_t size = 0;
  return reader.read(size) && reader.take(size, bytes);
}

} // namespace

std::filesystem::path device_file_path(const std::filesystem::path& folder, const Capabilities& device) {
  const Identity identity = identity_of(device);
  return folder / fmt::format("device-{:04x}-{:04x}-{:016x}.bin", device.vendor_id, device.device_id,
                              checksum_of(std::as_bytes(std::span(&identity, 1))));
}

std::vector<std::byte> pack_device_file(const Capabilities& device, const DeviceFile& contents,
                                        std::span<const KernelBinary> kernels) {
  Identity identity = identity_of(device);
  identity.kernels = hash_of(kernels);
  std::vector<std::byte> bytes;
  put(bytes, std::as_bytes(std::span(&identity, 1)));
  put_number(bytes, contents.tuning_results.size());
  for (const auto& [name, value] : contents.tuning_results) {
    put_sized(bytes, std::as_bytes(std::span(name)));
    put_sized(bytes, std::as_bytes(std::span(value)));
  }
  put_sized(bytes, contents.pipelines);
  put_number(bytes, checksum_of(bytes));
  return bytes;
}

std::optional<DeviceFile> parse_device_file(std::span<const std::byte> bytes, const Capabilities& device,
                                            std::span<const KernelBinary> kernels) {
  if (bytes.size() < sizeof(Identity) + checksum_bytes) return {};
  Identity expected = identity_of(device);
  expected.kernels = hash_of(kernels);
  if (std::memcmp(bytes.data(), &expected, sizeof(Identity)) != 0) return {};
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - checksum_bytes, checksum_bytes);
  bytes = bytes.first(bytes.size() - checksum_bytes);
  if (checksum != checksum_of(bytes)) return {};

  ByteReader reader(bytes.subspan(sizeof(Identity)));
  DeviceFile contents;
  uint64_t count = 0;
  if (!reader.read(count)) return {};
  for (uint64_t i = 0; i < count; ++i) {
    std::span<const std::byte> name, value;
    if (!take_sized(reader, name) || !take_sized(reader, value)) return {};
    contents.tuning_results.emplace(as_text(name), as_text(value));
  }
  std::span<const std::byte> pipelines;
  if (!take_sized(reader, pipelines) || reader.remaining() != 0) return {};
  contents.pipelines.assign(pipelines.begin(), pipelines.end());
  return contents;
}

bool is_of_device(std::span<const std::byte> bytes, const Capabilities& device) {
  const Identity identity = identity_of(device);
  return bytes.size() >= sizeof(Identity) &&
         std::memcmp(bytes.data(), &identity, offsetof(Identity, kernels)) == 0;
}

DeviceFile read_device_file(const std::filesystem::path& file, const Capabilities& device) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const std::streamoff size = stream.tellg();
  if (size < 0) return {};
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) return {};
  return parse_device_file(bytes, device).value_or(DeviceFile());
}

Status write_device_file(const std::filesystem::path& file, const Capabilities& device,
                         const DeviceFile& contents) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  OutputFile out;
  PUMICE_CHECK(out.open(file));
  PUMICE_CHECK(out.write(pack_device_file(device, contents)));
  return out.finish();
}

} // namespace pumice
