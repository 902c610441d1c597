#include "base/path.h"

#include "io/mapped_file.h"
#include "io/model_file.h"
#include "io/output_file.h"
#include "support/command/messages.h"
#include "support/files/temporary_folder.h"
#include "text/tokenizer.h"

#include <doctest/doctest.h>

using namespace pumice;

namespace {

// Latin, Cyrillic and Chinese letters, and one beyond Unicode's first 65,536.
const std::string awkward = "gr\u00fc\u00dfe-\u043c\u043e\u0434\u0435\u043b\u044c-\u6a21\u578b-\U0001d518";

} // namespace

TEST_CASE("path: text is UTF-8 on every system") {
  CHECK(path_of(awkward).u8string() == std::u8string(awkward.begin(), awkward.end()));
  CHECK(path_text(path_of(awkward)) == awkward);
  CHECK(path_text(path_of(awkward + "/a.gguf").parent_path()) == awkward);
  CHECK(path_of("").empty());
}

TEST_CASE("path: files with names beyond ASCII are written, found and named") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / path_of(awkward);
  OutputFile file;
  REQUIRE(file.open(path).ok());
  REQUIRE(file.write(std::as_bytes(std::span("hello", 5))).ok());
  REQUIRE(file.finish().ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CHECK(path_text(entry.path().filename()) == awkward);
    ++files;
  }
  CHECK(files == 1);
  const auto mapped = MappedFile::open(path_of(path_text(path)));
  REQUIRE_MESSAGE(mapped.ok(), says(mapped, {}));
  CHECK(mapped->bytes().size() == 5);
  CHECK(mapped->path() == path_text(path));
  CHECK(says(MappedFile::open(folder.path() / path_of(awkward + "x")),
             {awkward + "x", "did you mean", awkward}) == "");
}

TEST_CASE("path: a model in a folder with a name beyond ASCII, and what lies beside it") {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / path_of(awkward);
  std::filesystem::create_directory(model);
  std::ofstream(model / "config.json") << R"({"model_type": "bert"})";
  std::ofstream(model / "tokenizer.json") << "{}";
  const auto file = ModelFile::open(path_of(path_text(model)));
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->path() == path_text(model));
  CHECK(file->tokenizer_path() == model / "tokenizer.json");
  CHECK(says(Tokenizer::load(file->tokenizer_path()), {awkward, "tokenizer.json"}) == "");
}
