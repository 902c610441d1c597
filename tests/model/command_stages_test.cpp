// --devices, and processes that mpirun starts.
#include <unistd.h>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/paths.h"
#include "support/skip.h"

using nlohmann::json;

namespace {

const std::string model = stories_model().string();
const std::vector<std::string> generate = {"generate", model,    "--no-cache", "--ids", "1,403,407",
                                           "--ids",    "1,500",  "-n",         "9",     "--temp",
                                           "1",        "--seed", "5",          "--json"};

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
  return std::filesystem::exists(plugin) && std::system("command -v mpirun >/dev/null") == 0;
}

// Two programs of mpirun, each with its own arguments.
CommandResult together(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return quoted_argument((folder.path() / name).string()); };
  const auto program = [](const std::vector<std::string>& arguments) {
    std::string line = " -n 1" + quoted_argument(command_path().string());
    for (const std::string& each : arguments) line += quoted_argument(each);
    return line;
  };
  const std::string root = geteuid() == 0 ? " --allow-run-as-root" : "";
  const std::string line = "timeout 120 mpirun --oversubscribe --quiet" + root + program(first) + " :" +
                           program(second) + " </dev/null >" + path("out") + " 2>" + path("err");
  const int status = std::system(line.c_str());
  const auto contents = [&](const char* name) {
    std::stringstream text;
    text << std::ifstream(folder.path() / name, std::ios::binary).rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents("out"), contents("err")};
}

} // namespace

TEST_CASE("a model on two devices continues prompts as on one") {
  const json one = ids_of(pumice_command(generate));
  CHECK(ids_of(pumice_command(with(generate, {"--devices", "0,0"}))) == one);
  CHECK(ids_of(pumice_command(with(generate, {"--devices", "0,0,0", "--split", "1,3,1"}))) == one);
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
      pumice_command({"plan-split", model, "--no-cache", "--devices", "0,0", "--context", "256", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json plan = json::parse(result.out);
  REQUIRE(plan["ways"].size() == 3);
  const json& all = plan["ways"][0];
  CHECK(all["layers"][0].get<int>() + all["layers"][1].get<int>() == 5);
  CHECK(all["bytes"].size() == 2);
  CHECK(all["decode_tokens_per_second"].get<double>() > 0);
  CHECK(plan["ways"][1]["layers"] == json::array({5}));
  const CommandResult one = pumice_command({"plan-split", model, "--no-cache"});
  CHECK(one.status == 1);
  CHECK(one.err.find("--devices") != std::string::npos);
}

TEST_CASE("a model in two processes continues prompts as in one") {
  if (!has_mpirun()) return skip("mpirun or the plug-in for MPI is not there");
  const json one = ids_of(pumice_command(generate));
  CHECK(ids_of(together(generate, generate)) == one);
}

TEST_CASE("processes that do not fit together are refused") {
  if (!has_mpirun()) return skip("mpirun or the plug-in for MPI is not there");
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
