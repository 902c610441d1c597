#include "io/mapped_file.h"

#include "support/messages.h"
#include "support/temporary_folder.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#ifndef _WIN32
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace pumice;

TEST_CASE("mapped file: bytes, at an address that stays when it is moved") {
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
