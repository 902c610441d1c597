// --devices, and processes that mpirun starts.
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/server.h"
#include "support/files/paths.h"
#include "support/files/word_folder.h"
#include "support/skip.h"

using nlohmann::json;

namespace {

const std::string model = stories_model().string();
const std::vector<std::string> generate = {"generate", model,    "--ids", "1,403,407", "--ids", "1,500", "-n",
                                           "9",        "--temp", "1",     "--seed",    "5",     "--json"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json ids_of(const CommandResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  json ids = json::array();
  const json all = json::parse(result.out);
  for (const json& sequence : all["sequences"]) ids.push_back(sequence["ids"]);
  return ids;
}

bool has_mpirun() {
  const std::filesystem::path plugin = command_path().parent_path() / "libpumice_mpi.so";
  return std::filesystem::exists(plugin) && std::filesystem::exists(mpiexec_path());
}

// What Open MPI needs to start more processes than there are processors; other launchers just do.
std::string launcher_options() {
  const std::string version = mpiexec_path().string() + " --version 2>&1 | grep -q 'Open MPI\\|OpenRTE'";
  if (std::system(version.c_str()) != 0) return "";
  return std::string(" --oversubscribe --quiet") + (geteuid() == 0 ? " --allow-run-as-root" : "");
}

// mpirun with these programs, each with its number of processes and its own arguments.
struct Program {
  int processes = 1;
  std::vector<std::string> arguments;
};

CommandResult mpirun(const std::vector<Program>& programs, const std::string& input = "") {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return quoted_argument((folder.path() / name).string()); };
  std::string all;
  for (const Program& program : programs) {
    all += (all.empty() ? "" : " :") + (" -n " + std::to_string(program.processes)) +
           quoted_argument(command_path().string());
    for (const std::string& each : program.arguments) all += quoted_argument(each);
  }
  folder.write("in", input);
  static const std::string options = launcher_options();
  const std::string line = "timeout 240" + quoted_argument(mpiexec_path().string()) + options + all + " <" +
                           path("in") + " >" + path("out") + " 2>" + path("err");
  const int status = std::system(line.c_str());
  const auto contents = [&](const char* name) {
    std::stringstream text;
    text << std::ifstream(folder.path() / name, std::ios::binary).rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents("out"), contents("err")};
}

CommandResult together(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return mpirun({{1, first}, {1, second}});
}

// The same lines from one process, from two copies of the model, and from two in two stages each.
void check_copies(const std::vector<std::string>& arguments, const std::string& input, bool stages) {
  const CommandResult one = pumice_command(arguments, input);
  CAPTURE(one.err);
  REQUIRE(one.status == 0);
  REQUIRE(!one.out.empty());
  for (int processes : {2, 4}) {
    if (processes == 4 && !stages) continue;
    CAPTURE(processes);
    const CommandResult several = mpirun({{processes, with(arguments, {"--replicas", "2"})}}, input);
    CAPTURE(several.err);
    CHECK(several.status == 0);
    CHECK(several.out == one.out);
  }
}

std::string some_dates() {
  std::string lines;
  for (int day = 1; day <= 14; ++day)
    lines += day == 9 ? "\n" : "le " + std::to_string(day) + " mars " + std::to_string(1990 + day) + "\n";
  return lines;
}

} // namespace

TEST_CASE("a model on two devices continues prompts as on one") {
  const json one = ids_of(pumice_command(generate));
  CHECK(ids_of(pumice_command(with(generate, {"--devices", "0,0"}))) == one);
  CHECK(ids_of(pumice_command(with(generate, {"--devices", "0,0,0", "--split", "1,3,1"}))) == one);
}

TEST_CASE("a server on two devices answers as on one, with one model") {
  const std::string chat_model = Server::chat_model();
  const Server one, two({"--devices", "0,0"});
  if (!one.there()) {
    skip("this build has no server");
    return;
  }
  const auto written = [](const Server& server, int seed) {
    const json body = {{"prompt", "What does"}, {"max_tokens", 12}, {"seed", seed}, {"n", 3}};
    return server.ask("/v1/completions", body)["choices"];
  };
  for (const int seed : {1, 9}) CHECK(written(two, seed) == written(one, seed));
  const CommandResult several =
      pumice_command({"serve", chat_model, model, "--devices", "0,0", "--port", "0"});
  CHECK(several.status == 1);
  CHECK(several.err.find("one MODEL") != std::string::npos);
}

TEST_CASE("cuts that do not fit are refused") {
  const auto refusal = [](const std::vector<std::string>& more) {
    const CommandResult result = pumice_command(with(generate, more));
    CHECK(result.status == 1);
    return result.err;
  };
  CHECK(
      refusal({"--devices", "0,0", "--split", "1,2,2"}).find("--split has 3 numbers, and --devices has 2") !=
      std::string::npos);
  CHECK(refusal({"--devices", "0,0", "--split", "1,77"}).find("do not fit") != std::string::npos);
  CHECK(refusal({"--split", "1,4"}).find("--split is for several devices") != std::string::npos);
  CHECK(refusal({"--devices", "0,nothing"}).find("nothing") != std::string::npos);
}

TEST_CASE("plan-split finds cuts and says what each device does alone") {
  const CommandResult result =
      pumice_command({"plan-split", model, "--devices", "0,0", "--context", "256", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json plan = json::parse(result.out);
  REQUIRE(plan["ways"].size() == 3);
  const json& all = plan["ways"][0];
  CHECK(all["layers"][0].get<int>() + all["layers"][1].get<int>() == 5);
  CHECK(all["bytes"].size() == 2);
  CHECK(all["decode_tokens_per_second"].get<double>() > 0);
  CHECK(plan["ways"][1]["layers"] == json::array({5}));
  const CommandResult one = pumice_command({"plan-split", model});
  CHECK(one.status == 1);
  CHECK(one.err.find("--devices") != std::string::npos);
}

// The most memory that devices took, in MiB, as the command says it.
std::vector<double> taken(const CommandResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::vector<double> all;
  const std::string before = "took at most ";
  for (size_t at = result.err.find(before); at != std::string::npos; at = result.err.find(before, at + 1))
    all.push_back(std::stod(result.err.substr(at + before.size())));
  std::ranges::sort(all);
  return all;
}

// Compares it with what plan-split says of the same cuts.
void check_memory(const std::vector<std::string>& arguments, const std::vector<std::string>& plan,
                  const std::vector<std::string>& stages) {
  const CommandResult planned = pumice_command(with(with({"plan-split"}, plan), with(stages, {"--json"})));
  CAPTURE(planned.err);
  REQUIRE(planned.status == 0);
  std::vector<double> expected;
  const json answer = json::parse(planned.out);
  for (const json& bytes : answer["ways"][0]["bytes"]) expected.push_back(bytes.get<double>() / (1 << 20));
  std::ranges::sort(expected);
  const std::vector<double> found = taken(pumice_command(with(with(arguments, stages), {"--verbose"})));
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(0.01));
}

// Devices that are cut as plan-split would not cut them: by what it measures.
std::vector<std::string> cut(const char* layers) {
  return {"--devices", "0,0,0", "--split", layers};
}

TEST_CASE("stages take as much memory as plan-split says" * doctest::test_suite("long")) {
  check_memory({"run", model, "Once", "-n", "2", "--context", "128"}, {model, "--context", "128"},
               cut("2,1,2"));
}

TEST_CASE("several sequences' stages take as much memory as plan-split says" * doctest::test_suite("long")) {
  check_memory(with(generate, {"--context", "128", "--kv", "f16"}),
               {model, "--context", "128", "--sequences", "2"}, cut("1,3,1"));
  const std::string dates = dates_model().string();
  check_memory({"translate", dates, "--sequences", "3", "-n", "40", "le 3 mars 2021"},
               {dates, "--sequences", "3", "--context", "41"}, cut("2,1,2"));
}

TEST_CASE("plan-split measures an encoder's layers and its decoder's" * doctest::test_suite("long")) {
  const std::string dates = dates_model().string();
  const CommandResult result = pumice_command(
      {"plan-split", dates, "--devices", "0,0", "--sequences", "4", "--link", "2,100", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json ways = json::parse(result.out)["ways"];
  REQUIRE(ways.size() == 3);
  CHECK(ways[0]["prefill_tokens_per_second"].get<double>() > 0);
  CHECK(ways[0]["decode_tokens_per_second"].get<double>() < 1 / (2 * 0.002)); // two hops of 2 ms
  CHECK(ways[0]["sequences_tokens_per_second"].get<double>() < 4 / (2 * 0.002));
  CHECK(ways[1]["decode_tokens_per_second"].get<double>() > 0);
  const CommandResult link = pumice_command({"plan-split", dates, "--devices", "0,0", "--link", "2"});
  CHECK(fails_saying(link, {"--link takes two numbers"}) == "");
}

TEST_CASE("a model in two processes continues prompts as in one") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const json one = ids_of(pumice_command(generate));
  CHECK(ids_of(together(generate, generate)) == one);
}

TEST_CASE("a server in two processes answers as in one, and one of them listens") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  std::istringstream options(launcher_options());
  std::vector<std::string> launcher = {mpiexec_path().string()};
  for (std::string each; options >> each;) launcher.push_back(each);
  launcher.insert(launcher.end(), {"-n", "2"});
  Server one, two({}, {Server::chat_model()}, "512", launcher);
  if (!one.there()) return skip("this build has no server");
  for (const int seed : {1, 9}) {
    const json body = {{"prompt", "What does"}, {"max_tokens", 12}, {"seed", seed}, {"n", 3}};
    CHECK(two.ask("/v1/completions", body)["choices"] == one.ask("/v1/completions", body)["choices"]);
  }
  const std::string out = two.output();
  CHECK(out.find("listening on") == out.rfind("listening on"));
  // A client that leaves, and then the server's end: its first process is asked, or all are.
  const double stopped = two.metric("pumice_texts_stopped_total"), made = two.metric("pumice_tokens_total");
  {
    HttpClient leaves(two.port());
    leaves.send(
        http_request("POST", "/v1/completions",
                     R"({"prompt": "Once", "max_tokens": 400, "stream": true, "regex": "[a-z ]{2000}"})"));
    CHECK(leaves.wait_for("\"text\""));
  }
  for (int i = 0; i < 500 && two.metric("pumice_texts_running") != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(two.metric("pumice_texts_running") == 0);
  CHECK(two.metric("pumice_texts_stopped_total") == stopped + 1);
  CHECK(two.metric("pumice_tokens_total") < made + 400);
  two.process().interrupt(SIGTERM);
  two.process().wait();
  CHECK(two.get("/health").status == 0);
}

TEST_CASE("a text from two processes is the same in a file") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::vector<std::string> run = {"run", model, "Once upon a time", "-n", "4", "--temp", "0"};
  const CommandResult one = pumice_command(run);
  const CommandResult two = mpirun({{2, run}});
  CAPTURE(two.err);
  CHECK(two.status == 0);
  CHECK(two.out == one.out);
}

TEST_CASE("plan-split measures the devices of several processes, and what links them") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::vector<std::string> plan = {"plan-split", model, "--context", "256", "--json"};
  const CommandResult result = mpirun({{3, plan}});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json answer = json::parse(result.out);
  REQUIRE(answer["ways"].size() == 4);
  const json& all = answer["ways"][0];
  REQUIRE(all["layers"].size() == 3);
  CHECK(all["bytes"].size() == 3);
  int layers = 0;
  for (const json& each : all["layers"]) layers += each.get<int>();
  CHECK(layers == 5);
  CHECK(all["decode_tokens_per_second"].get<double>() > 0);
  CHECK(answer["ways"][1]["devices"].get<std::string>().find("rank 1 on ") == 0);
  const CommandResult missing = mpirun({{1, plan}, {1, {"plan-split", "no-such.gguf", "--json"}}});
  CHECK(missing.status == 1);
  CHECK(missing.err.find("no-such.gguf") != std::string::npos);
  CHECK(missing.out.empty());
}

TEST_CASE("stages of several processes take as much as in one" * doctest::test_suite("long")) {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::vector<std::string> plan = {"plan-split", model,     "--context", "256",
                                         "--json",     "--split", "1,2,2"};
  const CommandResult here = pumice_command(with(plan, {"--devices", "0,0,0"}));
  const CommandResult there = mpirun({{3, plan}});
  REQUIRE(here.status == 0);
  REQUIRE(there.status == 0);
  CHECK(json::parse(there.out)["ways"][0]["bytes"] == json::parse(here.out)["ways"][0]["bytes"]);
}

TEST_CASE("the launcher of another MPI library is told from the plug-in's") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  // What the others' launchers tell their processes.
  const char* others = launcher_options().empty() ? "OMPI_COMM_WORLD_SIZE=2" : "PMI_SIZE=2";
  const CommandResult result = pumice_command(generate, nullptr, {others});
  CHECK(fails_saying(result, {"finds only this one", "the mpirun of the MPI library"}) == "");
}

TEST_CASE("processes that do not fit together are refused") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const CommandResult result =
      together(with(generate, {"--split", "2,3"}), with(generate, {"--split", "3,2"}));
  CHECK(result.status != 0);
  CHECK(result.err.find("the stages do not fit together") != std::string::npos);
  CHECK(result.err.find("rank 1 on ") != std::string::npos);

  std::vector<std::string> absent = generate;
  absent[1] = "/nowhere/model.gguf";
  const CommandResult other = together(generate, absent);
  CHECK(other.status != 0);
  CHECK(other.err.find("rank 1 on ") != std::string::npos);
  CHECK(other.err.find("/nowhere/model.gguf") != std::string::npos);
}

TEST_CASE("copies of a translator divide lines, whose translations come in their order" *
          doctest::test_suite("long")) {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::string dates = dates_model().string();
  check_copies({"translate", dates, "--sequences", "4"}, some_dates(), true);
  check_copies({"translate", dates, "--beams", "3", "--n-best", "2", "--json"}, some_dates(), false);
}

TEST_CASE("copies of a decoder divide requests, and draw as one copy does") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  std::string requests;
  for (int i = 0; i < 14; ++i) {
    if (i % 5 == 2) requests += "\n"; // none
    json request = {{"prompt", i % 3 ? "Once upon" : "The dog"}, {"id", i}, {"count", 3 + i % 4}};
    if (i % 4 == 1) request["samples"] = 2;
    if (i == 7) request["seed"] = 99;
    requests += request.dump() + "\n";
  }
  check_copies({"generate", model, "--requests", "-", "--temp", "1", "--seed", "5", "--sequences", "3"},
               requests, true);
}

TEST_CASE("copies of an encoder divide lines, whose vectors come in their order") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const TemporaryFolder folder;
  write_word_folder(folder, "bert");
  std::string lines;
  for (uint32_t i = 0; i < 17; ++i) lines += words(std::vector<uint32_t>{5 + i, 30 + 3 * i, 7}) + "\n";
  check_copies({"embed", folder.path().string()}, lines, false);
}

TEST_CASE("with copies, a wrong line is an error in its place") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::vector<std::string> generate_requests = {"generate", model,        "--requests",
                                                      "-",        "--replicas", "2"};
  std::string requests;
  for (int i = 0; i < 5; ++i) requests += json{{"prompt", "Once"}, {"count", 2}}.dump() + "\n";
  requests += "{\"prompt\": 3}\n" + requests;
  const CommandResult result = mpirun({{2, generate_requests}}, requests);
  CAPTURE(result.err);
  CHECK(result.status != 0);
  CHECK(result.err.find("line 6") != std::string::npos);
  const std::vector<std::string> answers = lines_of(result.out);
  REQUIRE(answers.size() == 11);
  for (size_t i = 0; i < answers.size(); ++i) CHECK(json::parse(answers[i]).contains("error") == (i == 5));
}

TEST_CASE("copies that the processes cannot be divided into, and what copies cannot do, are refused") {
  const std::vector<std::string> translate = {"translate", dates_model().string(), "--replicas", "2"};
  CHECK(fails_saying(pumice_command(translate), {"start the command with mpirun"}) == "");
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const CommandResult three = mpirun({{3, translate}});
  CHECK(three.status != 0);
  CHECK(three.err.find("which 2 copies cannot divide") != std::string::npos);
  const CommandResult prompts = mpirun({{2, with(generate, {"--replicas", "2"})}});
  CHECK(prompts.status != 0);
  CHECK(prompts.err.find("--replicas divides the lines of --requests") != std::string::npos);
}

TEST_CASE("a translator on two devices and in two processes translates as on one") {
  const std::vector<std::string> translate = {"translate", dates_model().string(), "--json", "le 3 mars 2021",
                                              "12 April 1999"};
  const CommandResult one = pumice_command(translate);
  REQUIRE(one.status == 0);
  const CommandResult two = pumice_command(with(translate, {"--devices", "0,0,0"}));
  CAPTURE(two.err);
  CHECK(two.out == one.out);
  CHECK(pumice_command(with(translate, {"--devices", "0,0", "--split", "1,4", "--beams", "2"})).out ==
        pumice_command(with(translate, {"--beams", "2"})).out);
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  CHECK(mpirun({{2, translate}}).out == one.out);
}

TEST_CASE("processes with another model are refused") {
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  std::vector<std::string> other = with(generate, {"--split", "2,3"});
  other[1] = (pretrained_folder() / "chat-2m.gguf").string();
  const CommandResult result = together(with(generate, {"--split", "2,3"}), other);
  CHECK(result.status != 0);
  CHECK((result.err.find("the stages do not fit together: here is 'model: ") != std::string::npos ||
         result.err.find("do not fit: the model has") != std::string::npos)); // if it has other layers
}

TEST_CASE("a run that was ended goes on after the lines that it answered") {
  const TemporaryFolder folder;
  const std::string kept = (folder.path() / "kept").string();
  const std::string lines = some_dates();
  const std::vector<std::string> translate = {"translate", dates_model().string(), "--sequences", "4"};
  const CommandResult whole = pumice_command(translate, lines);
  REQUIRE(whole.status == 0);
  const std::vector<std::string> resuming = with(translate, {"--resume", kept});
  // The first lines alone stand for a run that ended there.
  size_t end = 0;
  for (int line = 0; line < 11; ++line) end = lines.find('\n', end) + 1;
  const CommandResult first = pumice_command(resuming, lines.substr(0, end));
  CHECK(first.status == 0);
  const CommandResult rest = pumice_command(resuming, lines);
  CHECK(rest.status == 0);
  CHECK(first.out + rest.out == whole.out);
  CHECK(pumice_command(resuming, lines).out.empty());
  const CommandResult other = pumice_command(resuming, "another line\n" + lines);
  CHECK(fails_saying(other, {kept, "is another one than the last that was answered"}) == "");
  folder.write("foreign", "something else\n");
  const CommandResult foreign =
      pumice_command(with(translate, {"--resume", (folder.path() / "foreign").string()}), lines);
  CHECK(fails_saying(foreign, {"foreign", "does not say which lines are answered"}) == "");
}

TEST_CASE("requests that go on have the index and the seed that they have in one run") {
  const TemporaryFolder folder;
  std::string requests, some;
  for (int i = 0; i < 9; ++i) {
    requests +=
        json{{"prompt", i % 2 ? "Once" : "The dog"}, {"count", 4}, {"samples", 1 + i % 2}}.dump() + "\n";
    if (i == 3) requests += "\n";
    if (i == 4) some = requests;
  }
  const std::vector<std::string> generate_requests = {"generate", model, "--temp",     "1",
                                                      "--seed",   "5",   "--requests", "-"};
  const CommandResult whole = pumice_command(generate_requests, requests);
  REQUIRE(whole.status == 0);
  const std::vector<std::string> resuming =
      with(generate_requests, {"--resume", (folder.path() / "kept").string()});
  const CommandResult first = pumice_command(resuming, some), rest = pumice_command(resuming, requests);
  CHECK(first.status == 0);
  CHECK(rest.status == 0);
  CHECK(first.out + rest.out == whole.out);
  if (!has_mpirun()) return skip("the plug-in for MPI or its launcher is not there");
  const std::vector<std::string> copies =
      with(generate_requests, {"--replicas", "2", "--resume", (folder.path() / "copies").string()});
  const CommandResult two = mpirun({{2, copies}}, some);
  CHECK(two.status == 0);
  CHECK(two.out + mpirun({{2, copies}}, requests).out == whole.out);
}
