#include "io/mapped_file.h"

#include "io/bytes.h"
#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#ifndef _WIN32
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace pumice;

TEST_CASE("mapped file: the bytes stay at their address when the object is moved") {
  const TemporaryFolder folder;
  auto opened = MappedFile::open(folder.write("some.bin", std::string_view("hello")));
  REQUIRE_MESSAGE(opened.ok(), says(opened, {}));
  const std::byte* address = opened->bytes().data();
  MappedFile file = *std::move(opened);
  CHECK(file.bytes().data() == address);
  CHECK(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()) == "hello");
  CHECK(file.path().ends_with("some.bin"));
  MappedFile other = *MappedFile::open(folder.write("other.bin", std::string_view("bye")));
  other = std::move(file);
  CHECK(other.bytes().data() == address);
}

TEST_CASE("mapped file: an empty file is an empty span") {
  const TemporaryFolder folder;
  const auto file = MappedFile::open(folder.write("empty", std::string_view()));
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->bytes().empty());
}

TEST_CASE("mapped file: what cannot be mapped") {
  const TemporaryFolder folder;
  const auto absent = MappedFile::open(folder.path() / "absent");
  CHECK(says(absent, {"absent"}) == "");
  CHECK(absent.error().code == Code::not_found);
  CHECK(says(MappedFile::open(folder.path()), {folder.path().string(), "found a folder"}) == "");
  CHECK(!MappedFile::open({}).ok());
#ifndef _WIN32
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(says(MappedFile::open(pipe), {"pipe", "regular file"}) == "");
  CHECK(says(MappedFile::open("/dev/null"), {"/dev/null", "regular file"}) == "");
  const auto locked = folder.write("locked", std::string_view("x"));
  REQUIRE(::chmod(locked.c_str(), 0) == 0);
  if (::geteuid() != 0) CHECK(MappedFile::open(locked).error().code == Code::io); // root may read anything
#endif
}

TEST_CASE("mapped file: memory is not copied") {
  const std::vector<std::byte> bytes(3);
  const MappedFile file = MappedFile::from_memory(bytes, "embedded");
  CHECK(file.bytes().data() == bytes.data());
  CHECK(file.path() == "embedded");
}

TEST_CASE("mapped file: a range of a file with any offset") {
  const TemporaryFolder folder;
  std::string text(20000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  const auto path = folder.write("packed", std::string_view(text));
  for (uint64_t offset : {0u, 1u, 4095u, 4096u, 12345u, 19999u, 20000u}) {
    for (uint64_t bytes : {uint64_t{0}, (20000 - offset) / 2}) {
      CAPTURE(offset);
      CAPTURE(bytes);
      const auto file = MappedFile::open(path, {offset, bytes});
      REQUIRE_MESSAGE(file.ok(), says(file, {}));
      const std::string_view expected =
          std::string_view(text).substr(offset, bytes ? bytes : std::string_view::npos);
      CHECK((as_text(file->bytes()) == expected));
    }
  }
  for (const FileRange range : {FileRange{20001, 0}, {19999, 2}, {UINT64_MAX, 1}, {1, UINT64_MAX}}) {
    const auto file = MappedFile::open(path, range);
    CHECK(says(file, {"packed", std::to_string(range.offset), "a file of 20000 bytes"}) == "");
    CHECK(file.error().code == Code::invalid_file);
  }
}

TEST_CASE("mapped file: a file that an application reads") {
  constexpr uint64_t bytes = (uint64_t{9} << 20) + 17;
  auto file = MappedFile::reserve(bytes, "pack:model");
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->bytes().size() == bytes);
  CHECK(file->bytes()[bytes - 1] == std::byte{0});
  uint64_t next = 0;
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    CHECK(at == next);
    next += to.size();
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>((at + i) % 251);
    return true;
  };
  int asked = 0;
  const auto go_on = [&](uint64_t done, uint64_t total) {
    CHECK(done == next);
    CHECK(total == bytes);
    return ++asked > 0;
  };
  REQUIRE(file->read(source, 0, bytes, go_on).ok());
  CHECK(next == bytes);
  CHECK(asked > 1);
  bool right = true;
  for (uint64_t i = 0; i < bytes; ++i) right &= file->bytes()[i] == static_cast<std::byte>(i % 251);
  CHECK(right);

  const MappedFile moved = *std::move(file);
  CHECK(moved.bytes().size() == bytes);
}

TEST_CASE("mapped file: reading ends at once when the source fails or it is cancelled") {
  auto file = *MappedFile::reserve(uint64_t{64} << 20, "pack:model");
  int calls = 0;
  const ReadBytes third_fails = [&](uint64_t, std::span<std::byte>) { return ++calls < 3; };
  const auto failed = file.read(third_fails, 0, file.bytes().size());
  CHECK(says(failed, {"pack:model", "could not be read", "from byte"}) == "");
  CHECK(failed.error().code == Code::io);
  CHECK(calls == 3);
  calls = 0;
  const ReadBytes good = [&](uint64_t, std::span<std::byte>) { return ++calls > 0; };
  const auto cancelled =
      file.read(good, 0, file.bytes().size(), [&](uint64_t, uint64_t) { return calls < 2; });
  CHECK(cancelled.error().code == Code::cancelled);
  CHECK(calls == 2);
}

TEST_CASE("mapped file: forget() turns whole pages into zeros and nothing else") {
  constexpr uint64_t bytes = uint64_t{1} << 20;
  auto file = *MappedFile::reserve(bytes, "pack:model");
  const ReadBytes ones = [](uint64_t, std::span<std::byte> to) {
    std::ranges::fill(to, std::byte{1});
    return true;
  };
  REQUIRE(file.read(ones, 0, bytes).ok());
  const auto count = [&] { return std::ranges::count(file.bytes(), std::byte{1}); };
  file.forget(file.bytes().subspan(1, 100)); // less than a page
  CHECK(count() == bytes);
  file.forget(file.bytes().subspan(bytes / 4 + 1, bytes / 2));
  CHECK(file.bytes()[bytes / 4] == std::byte{1});
  CHECK(file.bytes()[bytes / 4 + 1] == std::byte{1});
  CHECK(file.bytes()[bytes / 2] == std::byte{0});
  CHECK(count() > bytes / 2);
  CHECK(count() < bytes / 2 + 2 * 65536);
  const std::vector<std::byte> other(100000, std::byte{1});
  file.forget(other);
  CHECK(std::ranges::count(other, std::byte{1}) == 100000);
  MappedFile embedded = MappedFile::from_memory(other, "embedded");
  embedded.forget(other);
  CHECK(std::ranges::count(other, std::byte{1}) == 100000);
}

TEST_CASE("mapped file: more memory than exists") {
  CHECK(says(MappedFile::reserve(UINT64_MAX, "huge"),
             {"huge", "not enough memory", std::to_string(UINT64_MAX)}) == "");
  CHECK(MappedFile::reserve(0, "empty")->bytes().empty());
}
