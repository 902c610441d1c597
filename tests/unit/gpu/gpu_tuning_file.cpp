#include "gpu/cache_folder/tuning_file.h"

#include <fstream>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

Capabilities device_number(uint32_t number) {
  Capabilities device;
  device.vendor_id = 1;
  device.device_id = number;
  device.driver_build = 5;
  return device;
}

TuningResults results(const std::string& variant) {
  return {{"choice matmul f16 1 x 64 x 64", variant}, {"uniform loads", "fast"}};
}

} // namespace

TEST_CASE("a tuning file has results of several devices, and each finds its own") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "tuning.bin";
  const Capabilities first = device_number(1), second = device_number(2);
  REQUIRE(add_to_tuning_file(path, first, results("tiled")).ok());
  REQUIRE(add_to_tuning_file(path, second, results("dot")).ok());
  Result<TuningFile> file = TuningFile::read(path);
  REQUIRE(file.ok());
  CHECK(file->devices() == 2);
  CHECK(file->find(first) == results("tiled"));
  CHECK(file->find(second) == results("dot"));
  CHECK_FALSE(file->find(device_number(3)));
  Capabilities newer = first;
  newer.driver_build = 6;
  CHECK_FALSE(file->find(newer));

  REQUIRE(add_to_tuning_file(path, first, results("cm")).ok());
  file = TuningFile::read(path);
  REQUIRE(file.ok());
  CHECK(file->devices() == 2); // the older results are replaced
  CHECK(file->find(first) == results("cm"));
  CHECK(file->find(second) == results("dot"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("results of another build's kernels are not used, and are replaced by this build's") {
  const std::vector<uint16_t> code(3, 7);
  const std::vector<KernelBinary> older = {{"first", "", code, 11}}, newer = {{"first", "", code, 12}};
  const Capabilities device = device_number(1);
  TuningFile file;
  file.set(device, results("tiled"), older);
  CHECK(file.find(device, older) == results("tiled"));
  CHECK_FALSE(file.find(device, newer));
  file.set(device, results("dot"), newer);
  CHECK(file.devices() == 1);
  CHECK(file.find(device, newer) == results("dot"));
}

TEST_CASE("a tuning file that is damaged anywhere is refused by its name") {
  TuningFile file;
  file.set(device_number(1), results("tiled"));
  file.set(device_number(2), results("dot"));
  const std::vector<std::byte> whole = file.bytes();
  REQUIRE(TuningFile::parse(whole, "t.bin").ok());
  for (size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x10};
    CHECK(says(TuningFile::parse(damaged, "t.bin"), {"t.bin", "tuning results"}) == "");
    CHECK(says(TuningFile::parse(std::span(whole).first(at), "t.bin"), {"t.bin", "tuning results"}) == "");
  }
}

TEST_CASE("a file that is something else is not replaced by tuning results") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "own.txt";
  std::ofstream(path) << "my own text";
  CHECK(says(add_to_tuning_file(path, device_number(1), {}), {"own.txt", "not a file of tuning results"}) ==
        "");
  CHECK(std::filesystem::file_size(path) == 11);
  std::ofstream(path, std::ios::trunc).close(); // an empty one is as good as none
  CHECK(add_to_tuning_file(path, device_number(1), {}).ok());
}
