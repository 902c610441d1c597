#include "io/formats/safetensors.h"

#include "support/command/messages.h"
#include "support/files/safetensors_builder.h"
#include "support/files/temporary_folder.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

Result<SafetensorsFile> parse(std::string_view header, size_t data_bytes = 64) {
  static std::vector<std::byte> bytes;
  bytes = safetensors_bytes(header, data_bytes);
  return SafetensorsFile::parse(bytes, "some.safetensors");
}

// A header with one tensor "w" that has this text inside its braces.
Result<SafetensorsFile> parse_tensor(const std::string& inside) {
  return parse("{\"w\":{" + inside + "}}");
}

} // namespace

TEST_CASE("safetensors: a valid file gives its entries in the order of their data") {
  const std::vector<std::byte> bytes = small_safetensors();
  const auto file = SafetensorsFile::parse(bytes, "some.safetensors");
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  REQUIRE(file->entries.size() == 3);
  CHECK(file->entries[0].name == "a.weight");
  CHECK(file->entries[0].shape == std::vector<uint64_t>{2, 3});
  CHECK(file->entries[1].name == "a.bias");
  CHECK(file->entries[1].dtype == "BF16");
  CHECK(file->entries[1].data[0] == std::byte{24});
  REQUIRE(file->find("position_ids"));
  CHECK(file->find("position_ids")->data.size() == 16);
  CHECK(file->find("nothing") == nullptr);
}

TEST_CASE("safetensors: scalars, empty tensors and unknown types are accepted") {
  const auto file = parse(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                          R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[2,2]},)"
                          R"("u":{"dtype":"F4","shape":[16],"data_offsets":[4,12]}})");
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->entries.size() == 3);
  CHECK(parse("{}", 0).ok());
}

TEST_CASE("safetensors: every prefix of a file is an error and not a crash") {
  const std::vector<std::byte> whole = small_safetensors();
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_MESSAGE(says(SafetensorsFile::parse(prefix, "cut.safetensors"), {"cut.safetensors"}) == "", "at ",
                  length);
  }
}

TEST_CASE("safetensors: a change of any single byte of a header does not cause a crash") {
  const std::vector<std::byte> whole = small_safetensors();
  for (size_t at = 0; at + 48 < whole.size(); ++at)
    for (const int value : {0, 0x22, 0x7b, 0x39, 0xff}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] = static_cast<std::byte>(value);
      const auto file = SafetensorsFile::parse(bytes, "changed.safetensors");
      if (!file) CHECK(says(file, {"changed.safetensors"}) == "");
    }
}

TEST_CASE("safetensors: wrong headers") {
  for (const uint64_t length : {uint64_t{3}, uint64_t{1000}, uint64_t{1} << 40, UINT64_MAX}) {
    const auto bytes = safetensors_bytes("{}", 0, length);
    CHECK(says(SafetensorsFile::parse(bytes, "x.safetensors"),
               {"x.safetensors", "header length", std::to_string(length)}) == "");
  }
  CHECK(says(parse("[1]"), {"some.safetensors", "JSON object", "array"}) == "");
  CHECK(says(parse("{\"a\":"), {"some.safetensors", "invalid JSON", "byte"}) == "");
  CHECK(says(parse("{\"a\":1e999}"), {"some.safetensors", "invalid JSON"}) == "");
  CHECK(says(parse(std::string(100000, '[')), {"some.safetensors", "nested deeper", "byte 128"}) == "");
  CHECK(says(parse(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})"),
             {"some.safetensors", "'w'", "twice"}) == "");
  CHECK(says(parse("{\"w\":3}"), {"some.safetensors", "'w'", "object", "found 3"}) == "");
}

TEST_CASE("safetensors: wrong tensors are refused, and the error names the tensor and the field") {
  CHECK(says(parse_tensor(R"("shape":[1],"data_offsets":[0,4])"), {"some.safetensors", "'w'", "'dtype'"}) ==
        "");
  CHECK(says(parse_tensor(R"("dtype":"F32","data_offsets":[0,4])"), {"some.safetensors", "'w'", "'shape'"}) ==
        "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[1])"), {"some.safetensors", "'w'", "'data_offsets'"}) ==
        "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), {"'w'", "'shape'", "-1"}) ==
        "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"),
             {"'w'", "'shape'", "1.5"}) == "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":"1","data_offsets":[0,4])"),
             {"'w'", "'shape'", "\"1\""}) == "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), {"'w'", "[0, 4, 8]"}) ==
        "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), {"'w'", "[4, 0]"}) == "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[64,68])"), {"'w'", "64 bytes"}) == "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
             {"some.safetensors", "'w'", "8 bytes", "[2]", "F32", "found 4"}) == "");
  CHECK(says(parse_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"),
             {"some.safetensors", "'w'", "64 bits"}) == "");
  CHECK(says(parse(R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                   R"("v":{"dtype":"U8","shape":[8],"data_offsets":[7,15]}})"),
             {"some.safetensors", "'v'", "offset 7", "'w'", "ends at 8"}) == "");
}

TEST_CASE("safetensors: written files are read back") {
  const TemporaryFolder folder;
  const std::vector<float> floats = {1, -2, 0.5f};
  const std::vector<int64_t> integers = {7, -9};
  const std::vector<SafetensorsFile::Entry> entries = {
      {"floats", "F32", {1, 3}, std::as_bytes(std::span(floats))},
      {"integers", "I64", {2}, std::as_bytes(std::span(integers))},
      {"none", "F32", {0}, {}},
  };
  const auto path = folder.path() / "out.safetensors";
  const Status written = write_safetensors(path, entries);
  REQUIRE_MESSAGE(written.ok(), says(written, {}));
  const auto file = SafetensorsFile::open(path);
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  REQUIRE(file->entries.size() == 3);
  CHECK(*SafetensorsFile::floats(*file->find("floats")) == floats);
  CHECK(*SafetensorsFile::integers(*file->find("integers")) == integers);
  CHECK(file->find("floats")->shape == std::vector<uint64_t>{1, 3});
  CHECK(reinterpret_cast<uintptr_t>(file->find("integers")->data.data()) % 8 == 0);
  CHECK(says(SafetensorsFile::integers(*file->find("floats")), {"'floats'", "'F32'"}) == "");
  CHECK(says(SafetensorsFile::floats(*file->find("integers")), {"'integers'", "'I64'"}) == "");
}

TEST_CASE("safetensors: what cannot be written is refused") {
  const TemporaryFolder folder;
  const std::vector<float> floats = {1, 2};
  const auto data = std::as_bytes(std::span(floats));
  const auto path = folder.path() / "out.safetensors";
  using Entries = std::vector<SafetensorsFile::Entry>;
  CHECK(says(write_safetensors(path, Entries{{"w", "F32", {3}, data}}), {"out.safetensors", "'w'", "[3]"}) ==
        "");
  CHECK(says(write_safetensors(path, Entries{{"w", "X", {2}, data}}), {"out.safetensors", "'w'", "'X'"}) ==
        "");
  CHECK(says(write_safetensors(path, Entries{{"w", "F32", {2}, data}, {"w", "F32", {2}, data}}), {"'w'"}) ==
        "");
  CHECK(says(write_safetensors(folder.path() / "no" / "x", Entries{{"w", "F32", {2}, data}}), {"no"}) == "");
}
