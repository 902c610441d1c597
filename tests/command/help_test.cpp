#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "support/command/command.h"
#include "support/command/terminal.h"
#include "support/files/fixtures.h"
#include "support/skip.h"

namespace {

const std::vector<std::string> commands = {
    "run",        "generate", "translate",  "transcribe", "caption",    "embed",   "rerank",
    "classify",   "fill",     "tokenize",   "eval",       "inspect",    "devices", "tune",
    "bench",      "help",     "perplexity", "convert",    "completion", "doctor",  "template",
    "plan-split", "search",   "answer",     "serve",      "speak"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string page(std::vector<std::string> arguments) {
  const CommandResult result = pumice_command(arguments);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(result.err == "");
  return result.out;
}

// The long options that begin a row of a help page.
std::set<std::string> options_in(const std::string& help) {
  std::set<std::string> options;
  const std::regex row("\n  (-[A-Za-z], )?(--[a-z-]+)");
  for (std::sregex_iterator at(help.begin(), help.end(), row), end; at != end; ++at) options.insert((*at)[2]);
  return options;
}

// Roff without its markup, for what a reader sees.
std::string shown(std::string roff) {
  for (const char* markup : {"\\fB", "\\fI", "\\fR", "\\&"}) {
    for (size_t at; (at = roff.find(markup)) != std::string::npos;)
      roff.erase(at, std::string(markup).size());
  }
  for (size_t at; (at = roff.find("\\-")) != std::string::npos;) roff.replace(at, 2, "-");
  return roff;
}

} // namespace

TEST_CASE("--help fits a screen: it begins with a sentence, and ends with an example") {
  for (const std::string& name : commands) {
    CAPTURE(name);
    const std::string help = page({name, "--help"});
    CHECK(help.find(".\n\nUsage: pumice " + name + " ") != std::string::npos);
    CHECK(help.find("Example:\n  ") != std::string::npos);
    CHECK(help.substr(help.find("Example:")).find("pumice " + name) != std::string::npos);
    CHECK(lines_of(help).size() <= 40);
    CHECK(page({"help", name}) == help);
  }
  const std::string all = page({"--help"});
  CHECK(lines_of(all).size() <= 40);
  for (const std::string& name : commands) CHECK(all.find("\n  " + name + " ") != std::string::npos);
  CHECK(page({"help"}) == all);
}

TEST_CASE("--help-all shows every option that --help shows, and those that are less often needed") {
  for (const std::string& name : commands) {
    CAPTURE(name);
    std::set<std::string> few = options_in(page({name, "--help"}));
    few.erase("--help-all");
    const std::string help = page({name, "--help-all"});
    const std::set<std::string> all = options_in(help);
    CHECK(std::ranges::includes(all, few));
    if (all.contains("--device") && name != "devices") {
      CHECK(!few.contains("--vulkan-loader"));
      CHECK(all.contains("--vulkan-loader"));
    }
    CHECK(page({"help", name, "--all"}) == help);
    for (const std::string& line : lines_of(help)) {
      CAPTURE(line);
      CHECK((line.size() <= 80 || line.find("  pumice ") != std::string::npos ||
             line.find("$") != std::string::npos || line.find(' ', 30) == std::string::npos));
    }
  }
}

TEST_CASE("manual pages and completion have every option") {
  const std::string bash = page({"completion", "bash"}), zsh = page({"completion", "zsh"}),
                    fish = page({"completion", "fish"});
  for (const std::string& name : commands) {
    CAPTURE(name);
    const std::string manual = shown(page({"help", name, "--man"}));
    CHECK(manual.find(".TH \"PUMICE-") == 0);
    CHECK(manual.find(".SH SYNOPSIS\npumice " + name + " ") != std::string::npos);
    std::string upper;
    for (const std::string& option : options_in(page({name, "--help-all"}))) {
      CAPTURE(option);
      CHECK(manual.find(option) != std::string::npos);
      if (option == "--help" || option == "--help-all") continue;
      CHECK(zsh.find(option + "[") != std::string::npos);
      CHECK(fish.find("'__pumice_at " + name + "' ") != std::string::npos);
      CHECK(fish.find(" -l " + option.substr(2) + " ") != std::string::npos);
    }
  }
  CHECK(page({"help", "bench", "compare", "--man"}).find("PUMICE-BENCH-COMPARE") != std::string::npos);
  CHECK(page({"help", "--man"}).find(".SH COMMANDS\n") != std::string::npos);
  const std::string run = shown(page({"help", "run", "--man"}));
  for (const char* part : {".SH FILES", ".SH ENVIRONMENT", "XDG_CACHE_HOME", "NO_COLOR", ".SH EXIT STATUS"})
    CHECK_MESSAGE(run.find(part) != std::string::npos, part);
}

namespace {

struct Completion {
  std::string words;   // the last one is completed
  std::string results; // each with a space behind it
};

const std::vector<Completion>& completions() {
  static const std::vector<Completion> cases = {{"pumice tran", "transcribe translate "},
                                                {"pumice be", "bench "},
                                                {"pumice --ver", "--version "},
                                                {"pumice run --te", "--temp "},
                                                {"pumice run mo", "model.gguf "},
                                                {"pumice model", ""},
                                                {"pumice devices mo", ""},
                                                {"pumice run --kv ''", "f16 f32 q4_0 q8_0 "},
                                                {"pumice run --kv q", "q4_0 q8_0 "},
                                                {"pumice run --session mo", "model.gguf "},
                                                {"pumice bench comp", "compare "},
                                                {"pumice bench mo", "model.gguf "},
                                                {"pumice bench compare --mar", "--margin "},
                                                {"pumice bench compare --war", ""},
                                                {"pumice bench compare mo", "model.gguf "},
                                                {"pumice translate run --kv", ""},
                                                {"pumice completion b", "bash "},
                                                {"pumice help ru", "run "}};
  return cases;
}

// What a script, which gets the words as $1, prints with one completion a line.
std::string shell_completions(const std::string& script, const Completion& each,
                              const TemporaryFolder& folder) {
  std::string words = each.words;
  if (words.ends_with("''")) words.resize(words.size() - 2);
  const std::string line = "cd" + quoted_argument(folder.path().string()) + " && rm -f hits && timeout 20 " +
                           script + quoted_argument(words) +
                           " >out 2>&1 </dev/null; sort -u hits out | "
                           "sed -n 's/[[:space:]].*//; /./p' | tr '\\n' ' ' >sorted";
  REQUIRE(std::system(("sh -c" + quoted_argument(line)).c_str()) == 0);
  std::stringstream text;
  text << std::ifstream(folder.path() / "sorted").rdbuf();
  return text.str();
}

bool has_program(const char* name) {
  return std::system(fmt::format("command -v {} >/dev/null", name).c_str()) == 0;
}

} // namespace

TEST_CASE("fish completes commands, options, and the names that an option takes") {
  if (!has_program("fish")) return skip("there is no fish");
  const TemporaryFolder folder;
  folder.write("pumice.fish", page({"completion", "fish"}));
  folder.write("model.gguf", std::string_view("x"));
  for (const Completion& each : completions()) {
    CAPTURE(each.words);
    // Newer ones also offer what has the letters anywhere.
    CHECK(shell_completions(
              "env HOME=. fish -c 'source pumice.fish; set word (string split \" \" -- $argv[1])[-1]; "
              "complete -C $argv[1] | string match -- $word\"*\" >hits'",
              each, folder) == each.results);
  }
}

TEST_CASE("zsh completes commands, options, and the names that an option takes") {
  if (!has_program("zsh")) return skip("there is no zsh");
  const TemporaryFolder folder;
  folder.write("pumice.zsh", page({"completion", "zsh"}));
  folder.write("model.gguf", std::string_view("x"));
  // A shell at a terminal, which notes what its completion adds and ends after it.
  folder.write(".zshrc", std::string_view(R"(PS1=
autoload -Uz compinit
compinit -u -d $ZDOTDIR/dump
source $ZDOTDIR/pumice.zsh
bindkey '^I' complete-word
compadd() {
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- $hits >>$ZDOTDIR/hits
  builtin compadd "$@"
}
finish() { exit }
comppostfuncs=(finish)
)"));
  folder.write("driver.zsh", std::string_view(R"(zmodload zsh/zpty
: >hits
zpty shell "ZDOTDIR=$PWD TERM=dumb zsh -i"
zpty -w -n shell "$1"$'\t'
while zpty -t shell; do zpty -r -t shell part || sleep 0.02; done
)"));
  for (const Completion& each : completions()) {
    CAPTURE(each.words);
    CHECK(shell_completions("zsh -f driver.zsh", each, folder) == each.results);
  }
}

TEST_CASE("bash completes commands, options, and the names that an option takes") {
  const TemporaryFolder folder;
  folder.write("pumice.bash", page({"completion", "bash"}));
  folder.write("model.gguf", std::string_view("x"));
  const auto completed = [&](const std::string& words) {
    const std::string script =
        "cd '" + folder.path().string() + "'; . ./pumice.bash; COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _pumice 2>&1; printf '%s ' \"${COMPREPLY[@]}\" >out";
    REQUIRE(std::system(("bash -c" + quoted_argument(script)).c_str()) == 0);
    std::stringstream text;
    text << std::ifstream(folder.path() / "out").rdbuf();
    return text.str();
  };
  CHECK(completed("pumice tran") == "translate transcribe ");
  CHECK(completed("pumice --ver") == "--version ");
  CHECK(completed("pumice run --te") == "--temp ");
  CHECK(completed("pumice run mo") == "model.gguf ");
  CHECK(completed("pumice run --kv ''") == "f32 f16 q8_0 q4_0 ");
  CHECK(completed("pumice run --kv q") == "q8_0 q4_0 ");
  CHECK(completed("pumice run --temp ''") == " ");
  CHECK(completed("pumice run --session mo") == "model.gguf ");
  CHECK(completed("pumice bench comp") == "compare ");
  CHECK(completed("pumice bench compare --mar") == "--margin ");
  CHECK(completed("pumice completion z") == "zsh ");
  for (const Completion& each : completions()) {
    CAPTURE(each.words);
    std::istringstream found(completed(each.words));
    std::set<std::string> words{std::istream_iterator<std::string>(found), {}};
    std::string sorted;
    for (const std::string& word : words) sorted += word + " ";
    CHECK(sorted == each.results);
  }
}

TEST_CASE("--version says the commit, how it was built, and what was left out") {
  const std::vector<std::string> lines = lines_of(page({"--version"}));
  REQUIRE(lines.size() == 4);
  CHECK(std::regex_match(lines[0], std::regex("pumice [0-9]+\\.[0-9]+\\.[0-9]+")));
  CHECK(std::regex_match(lines[1], std::regex("commit: ([0-9a-f]{7,40}( with changes)?|unknown)")));
  CHECK(std::regex_match(lines[2], std::regex("build: [A-Za-z]+, .+, .+")));
  CHECK(lines[3].starts_with("left out: "));
  CHECK(page({"-V"}) == page({"--version"}));
}

TEST_CASE("a build from a tarball without a repository knows its commit") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "tools" / "pumice");
  folder.write("tools/pumice/commit.txt", std::string_view("0123456789abcdef0123456789abcdef01234567\n"));
  const std::string script = (source_folder() / "tools" / "Commit.cmake").string(),
                    header = (folder.path() / "commit.h").string();
  const auto made = [&] {
    const std::string command =
        "cmake -DSOURCE=" + folder.path().string() + " -DHEADER=" + header + " -P " + script;
    REQUIRE(std::system(command.c_str()) == 0);
    std::stringstream text;
    text << std::ifstream(header).rdbuf();
    return text.str();
  };
  CHECK(made() == "#define PUMICE_COMMIT \"0123456789\"\n");
  folder.write("tools/pumice/commit.txt", std::string_view("$Format:%H$\n"));
  CHECK(made() == "#define PUMICE_COMMIT \"unknown\"\n");
}

TEST_CASE("bench ab names its arguments") {
  CHECK(page({"bench", "ab", "--help"}).find("bench ab [OPTIONS] A B [MODEL] [BENCH_OPTION]...") !=
        std::string::npos);
}

TEST_CASE("a page that cannot be printed is an error") {
  for (const char* arguments :
       {"--help", "--version", "run --help", "run --help-all", "help run", "help --man"}) {
    CAPTURE(arguments);
    const std::string line =
        quoted_argument(command_path().string()) + " " + arguments + " >/dev/full 2>/dev/null";
    const int status = std::system(line.c_str());
    CHECK(WEXITSTATUS(status) == 1);
  }
}

TEST_CASE("bad arguments end with status 1 and a message") {
  CHECK(fails_saying(pumice_command({"run"}), {"MODEL is missing", "[OPTIONS] MODEL [PROMPT]"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--temp", "warm"}),
                     {"--temp: 'warm' is not a number from 0 to 1000\n"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--top-p", "2"}),
                     {"--top-p: '2'", "from 0 to 1"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--kv", "f8"}),
                     {"--kv: 'f8'", "f32, f16, q8_0, q4_0"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--chunk", "0"}), {"--chunk", "1 to 65536"}) ==
        "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--seed", "a"}), {"--seed: 'a'"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "-n", "1.5"}),
                     {"--count: '1.5'", "whole number"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--temp"}), {"--temp: a value is missing"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--temp", "1", "--temp", "2"}),
                     {"--temp may be given only once"}) == "");
  CHECK(fails_saying(pumice_command({"generate", "m", "--ids", "1", "--prompt", "x"}),
                     {"--ids", "--prompt", "do not go together"}) == "");
  CHECK(fails_saying(pumice_command({"generate", "m", "--ids", "1", "--logprobs", "2"}),
                     {"--logprobs has an effect only with --json"}) == "");
  CHECK(fails_saying(pumice_command({"bench", "m", "--only", "matmul"}), {"--only", "--ops"}) == "");
  CHECK(fails_saying(pumice_command({"bench", "m", "-o", "xml"}), {"--output", "json", "xml"}) == "");
  CHECK(fails_saying(pumice_command({"eval", "m"}), {"--inputs is missing"}) == "");
}

TEST_CASE("help, devices, models, plans and errors fit a narrow terminal, and break between words") {
  const std::regex escape("\033\\[[0-9;?]*[A-Za-z]");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"run", "--help"},
                                             {"search", "--help"},
                                             {"devices"},
                                             {"inspect", fixtures().model("gemma4").string()},
                                             {"inspect", fixtures().story().string(), "--graph", "--plan"},
                                             {"inspect", "/none.gguf"},
                                             {"run", fixtures().model("bert").string(), "x"},
                                             {"run", "m.gguf", "x", "--override-kv", "a=b"},
                                             {"bench", "--ops", "m.gguf", "--kv", "q9", "--no-tune"},
                                             {"embed", "--help-all"}}) {
    CAPTURE(arguments[0]);
    const std::string wide = pumice_at_terminal(arguments, "", {}, 200).shown;
    for (const unsigned short columns : {40, 80}) {
      const std::string shown = pumice_at_terminal(arguments, "", {}, columns).shown;
      for (std::string line : lines_of(std::regex_replace(shown, escape, ""))) {
        if (line.ends_with('\r')) line.pop_back();
        CAPTURE(line);
        // An example is to be copied, and a name or an identifier is one piece.
        const bool one_piece =
            line.starts_with("  pumice ") || line.find(": ") < 6 || line.find(" uuid ") != line.npos;
        const auto characters = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
        CHECK(
            (one_piece || characters <= columns || line.find(' ', line.find_first_not_of(' ')) == line.npos));
        std::istringstream words(line);
        // What the device was seen to do so far, and its free memory.
        const bool timed = arguments.back() == "--plan" || line.starts_with("  free ");
        for (std::string word; !timed && words >> word;) CHECK(wide.find(word) != std::string::npos);
      }
    }
  }
}
