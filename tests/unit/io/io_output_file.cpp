#include "io/output_file.h"

#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace pumice;
namespace fs = std::filesystem;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Status write(const fs::path& path, std::string_view text) {
  OutputFile file;
  PUMICE_CHECK(file.open(path));
  PUMICE_CHECK(file.write(bytes_of(text)));
  return file.finish();
}

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

} // namespace

TEST_CASE("output file: the old file stays until the new one is complete") {
  const TemporaryFolder folder;
  const auto path = folder.write("out", std::string_view("old"));
  {
    OutputFile file;
    REQUIRE(file.open(path).ok());
    REQUIRE(file.write(bytes_of("new, but not all of it")).ok());
    CHECK(contents(path) == "old");
    CHECK(files_in(folder.path()) == 2);
  }
  CHECK(contents(path) == "old");
  CHECK(files_in(folder.path()) == 1);
  REQUIRE(write(path, "new").ok());
  CHECK(contents(path) == "new");
  CHECK(files_in(folder.path()) == 1);
  REQUIRE(write(folder.path() / std::string(255, 'n'), "a name as long as can be").ok());
}

TEST_CASE("output file: what is unfinished when the process ends is removed") {
  const TemporaryFolder folder;
  OutputFile file, other;
  REQUIRE(file.open(folder.path() / "a").ok());
  REQUIRE(other.open(folder.path() / "b").ok());
  REQUIRE(other.finish().ok());
  CHECK(files_in(folder.path()) == 2);
  remove_unfinished_files();
  CHECK(says(file.finish(), {"a", "cannot be written"}) == ""); // on Windows it is there until it is closed
  CHECK(files_in(folder.path()) == 1);
  CHECK(fs::exists(folder.path() / "b"));
}

TEST_CASE("output file: a check says what opening would say, and leaves everything as it is") {
  const TemporaryFolder folder;
  const auto path = folder.write("out", std::string_view("old"));
  CHECK(OutputFile::check(path).ok());
  CHECK(OutputFile::check(folder.path() / "new").ok());
  CHECK(says(OutputFile::check(folder.path() / "no" / "out"), {"out", "no folder", "no"}) == "");
  CHECK(says(OutputFile::check(path / "out"), {"no folder"}) == "");
  CHECK(says(OutputFile::check(folder.path()), {"it is a folder"}) == "");
  CHECK(says(OutputFile::check(folder.path() / ""), {"it is a folder"}) == "");
  CHECK(says(OutputFile::check(""), {"give the name"}) == "");
  CHECK(contents(path) == "old");
  CHECK(files_in(folder.path()) == 1);
}

#ifndef _WIN32

TEST_CASE("output file: a symbolic link stays, and what it leads to is replaced") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "there");
  const auto file = folder.write("there/file", std::string_view("old")), link = folder.path() / "link",
             second = folder.path() / "second", dangling = folder.path() / "dangling";
  fs::create_symlink("there/file", link);
  fs::create_symlink("link", second);
  fs::create_symlink("there/none", dangling);
  REQUIRE(write(second, "new").ok());
  CHECK(fs::is_symlink(link));
  CHECK(fs::is_symlink(second));
  CHECK(contents(file) == "new");
  REQUIRE(write(dangling, "made").ok());
  CHECK(fs::is_symlink(dangling));
  CHECK(contents(folder.path() / "there" / "none") == "made");
  CHECK(files_in(folder.path() / "there") == 2);
  fs::create_symlink("loop", folder.path() / "loop");
  CHECK(says(write(folder.path() / "loop", "x"), {"loop", "symbolic links"}) == "");
}

TEST_CASE("output file: permissions stay, and a write-protected file is not replaced, not even by root") {
  const TemporaryFolder folder;
  const auto path = folder.write("out", std::string_view("old"));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  REQUIRE(write(path, "new").ok());
  CHECK(fs::status(path).permissions() == static_cast<fs::perms>(0640));
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  CHECK(says(OutputFile::check(path), {"out", "write-protected"}) == "");
  CHECK(says(write(path, "newer"), {"write-protected"}) == "");
  CHECK(contents(path) == "new");
}

TEST_CASE("output file: a pipe and a device are written, and stay what they are") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(OutputFile::check(pipe).ok()); // without waiting for a reader
  std::string read;
  std::thread reader([&] { read = contents(pipe); });
  const Status written = write(pipe, "through the pipe");
  reader.join();
  CHECK(written.ok());
  CHECK(read == "through the pipe");
  CHECK(fs::is_fifo(pipe));

  // Links in the folder: were one replaced, the devices of the system would not be.
  const fs::path null = folder.path() / "null", full = folder.path() / "full";
  fs::create_symlink("/dev/null", null);
  fs::create_symlink("/dev/full", full);
  CHECK(write(null, "gone").ok());
  CHECK(fs::is_symlink(null));
  CHECK(fs::is_character_file(null));
  CHECK(says(write(full, "too much"), {"full", "No space left"}) == "");
  CHECK(fs::is_symlink(full));
  CHECK(files_in(folder.path()) == 3);
}

TEST_CASE("output file: a name of an open file is written into that file") {
  const TemporaryFolder folder;
  const auto path = folder.write("out", std::string_view("old"));
  const int open = ::open(path.c_str(), O_RDWR);
  REQUIRE(open >= 0);
  REQUIRE(write("/proc/self/fd/" + std::to_string(open), "new").ok());
  char read[8] = {};
  CHECK(::pread(open, read, sizeof read, 0) == 3);
  CHECK(std::string(read) == "new");
  CHECK(::close(open) == 0);
}

#endif

TEST_CASE("output file: what is before and behind some bytes can be taken out") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out";
  std::string long_part;
  for (int i = 0; i < 3 << 20; ++i) long_part += static_cast<char>('a' + i % 23);
  OutputFile file;
  REQUIRE(file.open(path).ok());
  REQUIRE(file.write(bytes_of("head 3 dropped" + long_part + "rest")).ok());
  REQUIRE(file.move_back(14, 6, long_part.size()).ok());
  REQUIRE(file.write_first(bytes_of("HEAD 1")).ok());
  REQUIRE(file.finish().ok());
  CHECK(contents(path) == "HEAD 1" + long_part);
}
