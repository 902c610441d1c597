#include "task/inspection/models_below.h"

#include <doctest/doctest.h>

#include "support/files/temporary_folder.h"
#include "support/require.h"

using namespace pumice;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const ModelBelow& each : require(models_below(folder))) names.push_back(each.name);
  return names;
}

void write_model_folder(const TemporaryFolder& folder, const std::string& name) {
  fs::create_directories(folder.path() / name);
  folder.write(name + "/config.json", std::string_view("{}"));
  folder.write(name + "/model.safetensors", std::string_view("weights"));
}

} // namespace

TEST_CASE("models below a folder have the names of their paths, each another one") {
  const TemporaryFolder folder;
  using Names = std::vector<std::string>;
  CHECK(names_below(folder.path()).empty());
  for (const char* name : {"one.gguf", "mmproj-one.gguf", ".hidden.gguf", "notes.txt"})
    folder.write(name, std::string_view("bytes"));
  fs::create_directories(folder.path() / "deep/.cache");
  for (const char* name :
       {"deep/two-00001-of-00002.gguf", "deep/two-00002-of-00002.gguf", "deep/.cache/x.gguf"})
    folder.write(name, std::string_view("part"));
  write_model_folder(folder, "deep/three");
  folder.write("deep/three/other.gguf", std::string_view("a part of the folder"));
  fs::create_directories(folder.path() / "deep/none");
  folder.write("deep/none/config.json", std::string_view("{}"));
  CHECK(names_below(folder.path()) == Names{"deep/three", "deep/two", "one"});
  const std::vector<ModelBelow> models = require(models_below(folder.path()));
  CHECK(models[0].bytes == 7);
  CHECK(models[1].bytes == 8);
  CHECK(models[2].path == folder.path() / "one.gguf");
  CHECK(models[2].modified > 0);

  // A file and a folder of one name.
  write_model_folder(folder, "one");
  folder.write("deep/two.gguf", std::string_view("whole"));
  CHECK(names_below(folder.path()) ==
        Names{"deep/three", "deep/two-00001-of-00002.gguf", "deep/two.gguf", "one", "one.gguf"});
  CHECK(!models_below(folder.path() / "nowhere").ok());
}

TEST_CASE("a model's stamp changes with each of its files") {
  const TemporaryFolder folder;
  write_model_folder(folder, "model");
  folder.write("file.gguf", std::string_view("bytes"));
  fs::create_directories(folder.path() / "model/1_Pooling");
  folder.write("model/1_Pooling/config.json", std::string_view("{}"));
  const auto stamps = [&] {
    const std::vector<ModelBelow> models = require(models_below(folder.path()));
    REQUIRE(models.size() == 2);
    return std::pair(models[0].stamp, models[1].stamp);
  };
  auto before = stamps();
  CHECK(stamps() == before);
  const auto changes = [&](const char* file, bool of_folder) {
    CAPTURE(file);
    folder.write(file, std::string_view("{ }  and more"));
    const auto after = stamps();
    CHECK((after.first != before.first) == !of_folder);
    CHECK((after.second != before.second) == of_folder);
    before = after;
  };
  changes("model/1_Pooling/config.json", true);
  changes("model/tokenizer.json", true);
  changes("file.gguf", false);
  changes("mmproj-file.gguf", false);
  folder.write("notes.txt", std::string_view("of neither"));
  CHECK(stamps() == before);
}
