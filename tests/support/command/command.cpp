#include "support/command/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>
#include <utility>

#include "kernel/probe/probe.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"
#include "support/vulkan/row_bits.h"
#include "tools/pumice/command.h"

using namespace pumice;

namespace {

// A standard stream of a run: a file that nobody else sees.
class StreamFile {
public:
  explicit StreamFile(const std::string& text = "") {
    std::fwrite(text.data(), 1, text.size(), file_.get());
    std::rewind(file_.get());
  }
  int number() const { return ::fileno(file_.get()); }
  std::string text() const {
    std::string all;
    char bytes[65536];
    ssize_t count = 0;
    while ((count = ::pread(number(), bytes, sizeof bytes, static_cast<off_t>(all.size()))) > 0)
      all.append(bytes, static_cast<size_t>(count));
    return all;
  }

private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

Result<command::FoundDevice> found_device(const command::DeviceOptions& options,
                                          const std::filesystem::path& cache) {
  if (!options.devices.empty() || options.validate || !options.loader.empty())
    return command::new_device(options, cache);
  using Key = std::tuple<std::string, std::filesystem::path, uint64_t, bool>;
  using Opened = std::map<Key, command::FoundDevice>;
  static Opened* const opened = new Opened; // not destroyed: drivers dislike being called after main
  const bool matrices = options.kernel_variant.starts_with("cm"); // which not every device is asked for
  const Key key(options.device, cache, options.memory_limit, matrices);
  if (!opened->contains(key)) {
    PUMICE_TRY(command::FoundDevice found, command::new_device(options, cache));
    opened->emplace(key, std::move(found));
  }
  command::FoundDevice found = opened->at(key);
  found.shared = true;
  found.context.profile = with_tuning_results(std::move(found.context.profile), *found.context.pipelines);
  return found;
}

// Tests without a cache folder of their own are not about kernels, and compare bits of steps of all sizes.
Result<command::FoundDevice> shared_device(const command::DeviceOptions& options,
                                           const std::filesystem::path& cache) {
  PUMICE_TRY(command::FoundDevice found, found_device(options, cache));
  if (options.cache.empty() && !options.no_tune) found.context = one_kernel_context(std::move(found.context));
  return found;
}

} // namespace

CommandResult pumice_command(const std::vector<std::string>& arguments, const std::string* input,
                             const std::vector<std::string>& environment) {
  if (!environment.empty()) return pumice_process(arguments, input, environment);
  std::signal(SIGPIPE, SIG_IGN); // of children that end early
  const StreamFile in(input ? *input : ""), out, err;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nothing(std::fopen("/dev/null", "r"), std::fclose);
  command::Surroundings surroundings;
  surroundings.streams = {input ? in.number() : ::fileno(nothing.get()), out.number(), err.number()};
  surroundings.devices = shared_device;
  surroundings.program = command_path().string();
  const int status = command::run(arguments, surroundings);
  return {status, out.text(), err.text()};
}

CommandResult pumice_process(const std::vector<std::string>& arguments, const std::string* input,
                             const std::vector<std::string>& environment) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::string line = "env";
  for (const std::string& each : environment) line += quoted_argument(each);
  line += quoted_argument(command_path().string());
  for (const std::string& each : arguments) line += quoted_argument(each);
  if (input) folder.write("in", *input);
  line += " <";
  line += input ? quoted_argument(path("in")) : "/dev/null";
  line += " >";
  line += quoted_argument(path("out"));
  line += " 2>";
  line += quoted_argument(path("err"));
  const int status = std::system(line.c_str());
  const auto contents = [&](const char* name) {
    std::stringstream text;
    text << std::ifstream(folder.path() / name, std::ios::binary).rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents("out"), contents("err")};
}

std::string quoted_argument(const std::string& text) {
  std::string result = " '";
  for (char c : text) {
    if (c == '\'') result += "'\\'";
    result += c;
  }
  result += "'";
  return result;
}

std::string fails_saying(const CommandResult& result, const std::vector<std::string>& parts) {
  if (result.status != 1) return "exit status " + std::to_string(result.status) + ": " + result.err;
  if (!result.out.empty()) return "standard output has: " + result.out;
  if (result.err.find("pumice: ") == std::string::npos) return "no 'pumice: ' in: " + result.err;
  for (const std::string& part : parts) {
    if (result.err.find(part) == std::string::npos) return "no '" + part + "' in: " + result.err;
  }
  return "";
}
