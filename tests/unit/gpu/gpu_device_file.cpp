#include "gpu/cache_folder/device_file.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

Capabilities some_device() {
  Capabilities device;
  device.vendor_id = 1;
  device.driver_build = 5;
  device.driver_uuid[3] = 7;
  return device;
}

DeviceFile some_contents() {
  return {{{"uniform loads", "fast"}, {"choice matmul f16 1 x 64 x 64", "tiled"}, {"empty", ""}},
          std::vector<std::byte>(100, std::byte{42})};
}

bool same(const DeviceFile& a, const DeviceFile& b) {
  return a.tuning_results == b.tuning_results && a.pipelines == b.pipelines;
}

bool empty(const DeviceFile& file) {
  return same(file, DeviceFile());
}

} // namespace

TEST_CASE("a device file is used only by the device and driver that it was written for") {
  const TemporaryFolder folder;
  const Capabilities device = some_device();
  const std::filesystem::path file = device_file_path(folder.path(), device);
  CHECK(empty(read_device_file(file, device)));
  REQUIRE(write_device_file(file, device, some_contents()).ok());
  CHECK(same(read_device_file(file, device), some_contents()));
  DeviceFile more = some_contents();
  more.tuning_results["another"] = "fact";
  REQUIRE(write_device_file(file, device, more).ok());
  CHECK(same(read_device_file(file, device), more));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1); // no other file is left

  Capabilities newer = device, other = device;
  newer.driver_build = 6;
  other.pipeline_cache_uuid[0] = 1;
  for (const Capabilities& foreign : {newer, other}) {
    CHECK(device_file_path(folder.path(), foreign) != file);
    CHECK(empty(read_device_file(file, foreign)));
  }
  CHECK(empty(read_device_file(folder.path(), device))); // a folder instead of a file
  CHECK(says(write_device_file(file / "folder" / "file", device, more), {"folder", "cannot be written"}) ==
        "");
}

TEST_CASE("a device file is not used by a build with another kernel of the same name and length") {
  const Capabilities device = some_device();
  const std::vector<uint16_t> code(300, 7);
  const std::vector<KernelBinary> kernels = {{"first", "", code, 11}, {"second", "dot", code, 12}};
  const std::vector<std::byte> file = pack_device_file(device, some_contents(), kernels);
  CHECK(parse_device_file(file, device, kernels));
  std::vector<KernelBinary> changed = kernels, renamed = kernels, fewer = kernels;
  changed[1].hash = 13;
  renamed[1].name = "third";
  fewer.pop_back();
  for (const auto& others : {changed, renamed, fewer}) CHECK_FALSE(parse_device_file(file, device, others));
}

TEST_CASE("two kernels have the same hash only if they have the same code") {
  const std::span<const KernelBinary> kernels = kernel_binaries();
  for (const KernelBinary& a : kernels) {
    CHECK(a.hash > UINT32_MAX); // so that a length is no hash
    for (const KernelBinary& b : kernels) {
      const bool same_code = std::ranges::equal(a.code(), b.code());
      INFO(a.name << " and " << b.name);
      CHECK((a.hash == b.hash) == same_code);
    }
  }
}

TEST_CASE("a device file that is damaged anywhere counts as absent") {
  const Capabilities device = some_device();
  const std::vector<std::byte> whole = pack_device_file(device, some_contents());
  REQUIRE(parse_device_file(whole, device));
  for (size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x10};
    CHECK_FALSE(parse_device_file(damaged, device));
    CHECK_FALSE(parse_device_file(std::span(whole).first(at), device));
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  CHECK_FALSE(parse_device_file(longer, device));
}
