// What a person sees at a terminal while something takes long.
#include <doctest/doctest.h>

#include "support/command/command.h"
#include "support/command/terminal.h"
#include "support/files/bert_folder.h"
#include "support/files/fixtures.h"
#include "support/model.h"

using namespace pumice;

TEST_CASE("kernels that are compiled are counted, each once for a device") {
  const auto model = load_model(fixtures().story());
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  // A device whose kernels nobody has run yet.
  auto instance = Instance::create({});
  REQUIRE(instance.ok());
  auto chosen = (*instance)->choose();
  REQUIRE(chosen.ok());
  auto context = open_device(*instance, *chosen, {});
  REQUIRE(context.ok());
  bool go_on = true;
  context->compiling = [&](uint64_t done, uint64_t total) {
    seen.emplace_back(done, total);
    return go_on;
  };
  auto loaded = Model::load(fixtures().story(), *context);
  REQUIRE(loaded.ok());
  REQUIRE(!seen.empty());
  CHECK(seen.back().first == seen.back().second);

  const std::vector<uint32_t> prompt = {1, 5, 6, 7};
  SessionOptions options;
  options.size.context = 64;
  const auto tokens = [&]() -> Result<uint32_t> {
    PUMICE_TRY(std::unique_ptr<Session> session, Session::create(*loaded, options));
    PUMICE_CHECK(session->prefill(prompt, {}));
    return session->next();
  };
  seen.clear();
  go_on = false;
  CHECK(tokens().error().code == Code::cancelled);
  CHECK(seen.size() == 1);
  go_on = true;
  seen.clear();
  const auto first = tokens();
  REQUIRE(first.ok());
  REQUIRE(seen.size() > 3);
  CHECK(seen.back().first == seen.back().second);
  for (size_t i = 1; i < seen.size(); ++i) {
    const bool same = seen[i].second == seen[i - 1].second && seen[i].first - seen[i - 1].first <= 1;
    CHECK((same || (seen[i].first == 0 && seen[i - 1].first == seen[i - 1].second)));
  }
  seen.clear();
  CHECK(*tokens() == *first);
  CHECK(seen.empty());
}

TEST_CASE("a cold start shows that kernels are compiled, but only at a terminal") {
  const TemporaryFolder cache;
  const std::string folder = cache.path().string();
  const std::vector<std::string> arguments = {"run",       fixtures().story().string(), "Once", "-n", "2",
                                              "--no-cache"};
  const std::vector<std::string> cold = {"MESA_SHADER_CACHE_DIR=" + folder, "MESA_GLSL_CACHE_DIR=" + folder,
                                         "MESA_SHADER_CACHE_DISABLE=true"};
  const TerminalResult shown = pumice_at_terminal(arguments, "", cold);
  CAPTURE(shown.shown);
  CHECK(shown.status == 0);
  // Without a cache folder it is so each time.
  CHECK(shown.shown.find("compiling kernels for this device, ") != std::string::npos);
  CHECK(shown.shown.find("first time only") == std::string::npos);
  const TemporaryFolder kept;
  std::vector<std::string> keeping = arguments;
  keeping.back() = "--cache=" + kept.path().string();
  const TerminalResult first = pumice_at_terminal(keeping, "", cold),
                       second = pumice_at_terminal(keeping, "", cold);
  CHECK(first.shown.find("compiling kernels for this device, first time only, ") != std::string::npos);
  CHECK(first.shown.find("checking kernels, once for this driver") != std::string::npos);
  CHECK(second.shown.find("first time only") == std::string::npos);
  CHECK(second.shown.find("or later computes") == std::string::npos);
  CHECK(shown.shown.find(" of ") != std::string::npos);
  CHECK(shown.shown.find("reading the prompt [") != std::string::npos);
  // The prompt is shown after the bars, which would write over it.
  CHECK(shown.shown.rfind("\033[K") < shown.shown.find("Once\033[0m"));

  // In a narrow terminal each state of a bar fits its line, so that it can be erased.
  const TerminalResult narrow = pumice_at_terminal(arguments, "", cold, 40);
  size_t bars = 0;
  for (size_t at = narrow.shown.find("\r\033[K"); at != std::string::npos; ++bars) {
    const size_t begin = at + 4;
    at = narrow.shown.find("\r\033[K", begin);
    const std::string bar = narrow.shown.substr(begin, at - begin);
    if (at != std::string::npos) CHECK(bar.size() < 40);
  }
  CHECK(bars > 3);
  CHECK(narrow.shown.find("compiling kernels, ") != std::string::npos); // whole words
  CHECK(pumice_at_terminal(arguments, "", {"TERM=dumb"}).shown.find('\033') == std::string::npos);
  const TerminalResult plain = pumice_at_terminal(arguments, "", {"NO_COLOR=1"}, 40);
  CHECK(plain.shown.find('\033') == std::string::npos);
  CHECK(plain.shown.find("reading the prompt [") != std::string::npos);

  // No bar at all with --quiet, and where nobody watches; their first starts need not be slow, too.
  std::vector<std::string> quiet = arguments;
  quiet.push_back("--quiet");
  const TerminalResult unwatched = pumice_at_terminal(quiet);
  CHECK(unwatched.status == 0);
  CHECK(unwatched.shown.find('[') == unwatched.shown.find("[2mOnce"));
  const CommandResult piped = pumice_command(arguments);
  CHECK(piped.status == 0);
  CHECK(piped.err.find('\r') == std::string::npos);
}

TEST_CASE("a command that waits for a person says so") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::string bert = folder.path().string(), stories = fixtures().story().string();
  const TerminalResult embedded = pumice_at_terminal({"embed", bert}, "fox\n\x04");
  CHECK(embedded.status == 0);
  CHECK(embedded.shown.find("waiting for lines") != std::string::npos);
  CHECK(embedded.shown.find("Ctrl-D") != std::string::npos);
  const TerminalResult tokenized = pumice_at_terminal({"tokenize", stories}, "fox\n\x04");
  CHECK(tokenized.status == 0);
  CHECK(tokenized.shown.find("waiting for a text") != std::string::npos);
  CHECK(pumice_command({"tokenize", stories}, std::string("fox")).err.find("waiting") == std::string::npos);
}
