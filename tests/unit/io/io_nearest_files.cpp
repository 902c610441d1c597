#include <doctest/doctest.h>

#include "io/nearest_files.h"
#include "io/nearest_names.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

using Names = std::vector<std::string_view>;

} // namespace

TEST_CASE("names are near if few letters are missing, added, replaced or swapped") {
  const Names names = {"run", "rerank", "translate", "transcribe"};
  CHECK(nearest_names("rnu", names) == Names{"run"});
  CHECK(nearest_names("tranlsate", names) == Names{"translate"});
  CHECK(nearest_names("transcribes", names) == Names{"transcribe"});
  CHECK(nearest_names("rerakn", names) == Names{"rerank"});
  CHECK(nearest_names("paint", names).empty());
  CHECK(nearest_names("", names).empty());
}

TEST_CASE("files are near by their name, also without its extension, and by a misspelt folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "models");
  const std::string model =
      folder.write("models/stories.gguf", std::string_view("x")).make_preferred().string();
  const auto near = [&](const char* name) { return nearest_files(folder.path() / name); };
  using Paths = std::vector<std::string>;
  CHECK(near("models/storeis.gguf") == Paths{model});
  CHECK(near("models/stories") == Paths{model});
  CHECK(near("models/storie.bin") == Paths{model});
  CHECK(near("model/stories.gguf") == Paths{model});
  CHECK(near("models/nothing-like-it.gguf").empty());
  CHECK(near("models/stories.gguf").empty()); // it is there
  CHECK(near("other/deeper/stories.gguf").empty());
}

TEST_CASE("the models in a folder are its GGUF files and the folders with a config.json") {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  CHECK(models_in(folder.path(), 9).empty());
  CHECK(models_in(folder.path() / "missing", 9).empty());
  for (const char* name : {"b.gguf", "a.gguf", "readme.md"}) folder.write(name, std::string_view("x"));
  std::filesystem::create_directory(folder.path() / "c");
  folder.write("c/config.json", std::string_view("{}"));
  CHECK(models_in(folder.path(), 9) == std::vector<std::string>{path("a.gguf"), path("b.gguf"), path("c")});
  CHECK(models_in(folder.path(), 1) == std::vector<std::string>{path("a.gguf")});
}
