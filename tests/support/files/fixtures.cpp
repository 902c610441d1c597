#include "support/files/fixtures.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "support/files/made_fixtures.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"

namespace {

// Where this process makes what it asks for.
const std::filesystem::path& made_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

const FixtureSet* current = nullptr;

std::vector<std::string> sorted(const std::set<std::string>& names) {
  return {names.begin(), names.end()};
}

} // namespace

std::filesystem::path FixtureSet::model(const std::string& name) const {
  const std::filesystem::path models = folder_ / "models";
  if (!made_) return std::filesystem::exists(models / name) ? models / name : folder_ / "more" / name;
  const std::filesystem::path folder = *std::filesystem::path(name).begin(), made = made_folder() / "models";
  if (!std::filesystem::exists(made / folder)) make_model_fixture(models / folder, made / folder);
  return made / name;
}

std::filesystem::path FixtureSet::gguf(const std::string& name) const {
  const std::filesystem::path folder = folder_ / "gguf", stored = folder / (name + ".gguf");
  if (!made_ || std::filesystem::exists(stored)) return stored;
  const std::filesystem::path made = made_folder() / "gguf" / (name + ".gguf");
  if (!std::filesystem::exists(made)) make_gguf_fixture(folder / (name + ".json"), made);
  return made;
}

std::vector<std::string> FixtureSet::models() const {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "models"))
    names.insert(entry.path().filename().string());
  return sorted(names);
}

std::vector<std::string> FixtureSet::ggufs() const {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "gguf")) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".gguf" || path.extension() == ".json") names.insert(path.stem().string());
  }
  return sorted(names);
}

const std::vector<FixtureSet>& fixture_sets() {
  static const std::vector<FixtureSet> sets = [] {
    std::vector<FixtureSet> found = {{source_folder() / "tests" / "fixtures", true}};
    const char* chosen = std::getenv("PUMICE_FIXTURES");
    const std::filesystem::path other =
        chosen ? std::filesystem::path(chosen) : source_folder() / ".." / "shared" / "fixtures";
    std::error_code ignored;
    if (std::filesystem::is_directory(other, ignored)) found.emplace_back(other, false);
    return found;
  }();
  return sets;
}

const FixtureSet& fixtures() {
  return current ? *current : fixture_sets().front();
}

void for_each_fixture_set(void (*body)()) {
  struct Reset { // where the body ends the test case with an exception
    ~Reset() { current = nullptr; }
  } reset;
  for (const FixtureSet& set : fixture_sets()) {
    INFO("fixtures of " << set.folder().string());
    current = &set;
    body();
  }
}
