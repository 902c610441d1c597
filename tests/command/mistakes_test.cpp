#include <doctest/doctest.h>

#include "support/command/command.h"
#include "support/files/fixtures.h"

namespace {

std::string fails(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  return fails_saying(pumice_command(arguments), parts);
}

} // namespace

TEST_CASE("a misspelt command is named with the one that was probably meant") {
  const struct {
    std::vector<std::string> arguments;
    const char* meant; // empty: nothing is near
  } cases[] = {
      {{"rnu", "model.gguf"}, "pumice run"},
      {{"chta", "model.gguf"}, "pumice chat"},
      {{"talk"}, "pumice chat"},
      {{"transcibe"}, "pumice transcribe"},
      {{"quantize"}, "pumice convert"},
      {{"tok"}, "pumice tokenize"},
      {{"bench", "compar", "a.json", "b.json"}, "pumice bench compare"},
      {{"help", "rnu"}, "pumice run"},
      {{"paint"}, ""},
  };
  for (const auto& each : cases) {
    CAPTURE(each.arguments[0]);
    // The word in the message: the command, or what follows it.
    const bool follows = each.arguments[0] == "help" || each.arguments[0] == "bench";
    std::vector<std::string> parts = {
        "'" + (follows ? each.arguments.at(each.arguments.size() / 2) : each.arguments[0])};
    if (*each.meant) parts.push_back(std::string("Did you mean '") + each.meant + "'?");
    CHECK(fails(each.arguments, parts) == "");
  }
  CHECK(pumice_command({"paint"}).err.find("mean") == std::string::npos);
}

TEST_CASE("a misspelt option is named with the one that was probably meant") {
  const struct {
    std::vector<std::string> arguments;
    const char* unknown;
    const char* meant;
  } cases[] = {
      {{"--verison"}, "--verison", "Did you mean '--version'?"},
      {{"run", "m.gguf", "--tmep", "1"}, "--tmep", "Did you mean '--temp'?"},
      {{"run", "m.gguf", "--temperatur", "1"}, "--temperatur", "Did you mean '--temperature'?"},
      {{"run", "--contxt=4", "m.gguf"}, "--contxt", "Did you mean '--context'?"},
      {{"run", "m.gguf", "-temp", "1"}, "-temp", "Did you mean '--temp'?"},
      {{"run", "--verb"}, "--verb", ""},
      {{"bench", "compare", "a", "b", "--margni", "2"}, "--margni", "Did you mean '--margin'?"},
      {{"embed", "m", "--top-k", "1"}, "--top-k", "pumice run, pumice generate"},
  };
  for (const auto& each : cases) {
    CAPTURE(std::string(each.unknown));
    CHECK(fails(each.arguments, {std::string("no option '") + each.unknown + "'", each.meant}) == "");
  }
}

TEST_CASE("arguments that are too many are listed in their order") {
  CHECK(fails({"run", "m.gguf", "Once", "upon", "a", "time"}, {"'upon' 'a' 'time'", "quotes"}) == "");
  CHECK(fails({"perplexity", "m.gguf", "f", "Once upon"}, {"'Once upon'"}) == "");
  CHECK(fails({"devices", "first", "second"}, {"'first' 'second'"}) == "");
}

TEST_CASE("a path that does not exist is named with the most similar ones") {
  const std::string story = fixtures().story().string();
  std::string typo = story;
  typo.erase(typo.size() - 7, 1); // a letter before ".gguf"
  CHECK(fails({"run", typo, "x"}, {typo, "did you mean " + story + "?"}) == "");
  CHECK(fails({"inspect", story.substr(0, story.size() - 5)}, {"did you mean " + story + "?"}) == "");
  CHECK(fails({"run", "/nonexistent/m.gguf", "x"}, {"/nonexistent/m.gguf: cannot be opened"}) == "");

  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  CHECK(fails({"run", folder.path().string(), "x"}, {"there is no model in this folder"}) == "");
  for (const char* name : {"large.gguf", "small.gguf", "notes.txt"})
    folder.write(name, std::string_view("x"));
  std::filesystem::create_directory(folder.path() / "bert");
  folder.write("bert/config.json", std::string_view("{}"));
  const CommandResult several = pumice_command({"run", folder.path().string(), "x"});
  CHECK(fails_saying(several, {path("bert"), path("large.gguf"), path("small.gguf"), "several"}) == "");
  CHECK(several.err.find("notes.txt") == std::string::npos);
  CHECK(fails({"run", path("brt/config.json"), "x"}, {"did you mean " + path("bert/config.json") + "?"}) ==
        "");
}

TEST_CASE("values that stand for no value are named, or mean what they do elsewhere") {
  const std::string story = fixtures().story().string();
  CHECK(fails({"run", "", "x"}, {"the name of the model is empty"}) == "");
  CHECK(fails({"run", story, "x", "-n", "-5"}, {"'-5'", "nor -1 for no limit"}) == "");
  CHECK(fails({"run", story, "x", "--context", "1"}, {"the context of 1 token:"}) == "");
  CHECK(fails({"bench", "compare", "/nonexistent/a", "b"}, {"/nonexistent/a", "No such file"}) == "");
  const CommandResult random = pumice_command({"run", story, "x", "-n", "1", "--seed", "-1", "--no-cache"});
  CAPTURE(random.err);
  CHECK(random.status == 0);
  CHECK(random.err.find("generated 1 token; ") != std::string::npos); // without a rate
}
