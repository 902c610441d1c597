#include "gpu/cache_folder/trial_note.h"

#include <doctest/doctest.h>

#include "io/output_file.h"
#include "support/files/temporary_folder.h"

#ifndef _WIN32
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace pumice;

namespace {

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

} // namespace

TEST_CASE("a note is taken away by who wrote it, and nobody else takes it for one that was left") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "new" / "device-1.bin";
  {
    TrialNote note(file);
    CHECK(left_notes(file).empty()); // there is no such folder yet
    REQUIRE(note.write("dangerous matmul cm", "it crashed").ok());
    CHECK(left_notes(file).empty());
    TrialNote other(file);
    REQUIRE(other.write("dangerous matmul cm2", "it crashed").ok());
    CHECK(files_in(file.parent_path()) == 2);
    note.take_away();
    REQUIRE(note.write("dangerous attention cm", "it crashed").ok());
    CHECK(left_notes(file).empty());
  }
  CHECK(files_in(file.parent_path()) == 0);
  TrialNote nowhere{std::filesystem::path()};
  CHECK(nowhere.write("dangerous matmul cm", "it crashed").ok());
  const std::filesystem::path no_folder = folder.write("file", std::string_view());
  TrialNote refused(no_folder / "device-1.bin");
  CHECK_FALSE(refused.write("dangerous matmul cm", "it crashed").ok());
}

TEST_CASE("a note can be left on purpose") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "device-1.bin";
  {
    TrialNote note(file);
    REQUIRE(note.write("dangerous matmul cm", "").ok());
    note.leave("dangerous matmul cm", "the device was lost");
    REQUIRE(note.write("dangerous matmul cm2", "").ok()); // in a new file
  }
  const std::vector<LeftNote> left = left_notes(file);
  REQUIRE(left.size() == 1);
  CHECK(left[0].name == "dangerous matmul cm");
  CHECK(left[0].value == "the device was lost");
  forget_notes(file, "dangerous matmul cm2");
  CHECK(left_notes(file).size() == 1);
  forget_notes(file, "dangerous matmul cm");
  CHECK(files_in(folder.path()) == 0);
}

#ifndef _WIN32
TEST_CASE("the note of a process that was ended is left, unless somebody asked it to end") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "device-1.bin", other = folder.path() / "device-2.bin";
  const auto end_process = [&](bool asked) {
    const pid_t child = ::fork();
    if (child == 0) {
      TrialNote done(file), open(file);
      const bool written = done.write("a", "").ok() && open.write("dangerous matmul cm", "it ended").ok();
      done.take_away();
      if (!written) ::_exit(1);
      if (asked) remove_unfinished_files(); // as the command's signal handlers do
      ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
  };
  end_process(true);
  CHECK(files_in(folder.path()) == 0);
  end_process(false);
  CHECK(files_in(folder.path()) == 2);
  CHECK(left_notes(other).empty());
  const std::vector<LeftNote> left = left_notes(file);
  REQUIRE(left.size() == 1);
  CHECK(left[0].name == "dangerous matmul cm");
  CHECK(left[0].value == "it ended");
  CHECK(files_in(folder.path()) == 1); // the one that says nothing is gone
}
#endif
