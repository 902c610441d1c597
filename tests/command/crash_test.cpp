// Drivers that crash, hang or lose the device while the command measures a kernel.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "gpu/kernel_table.h"
#include "support/command/command.h"
#include "support/command/command_process.h"
#include "support/files/paths.h"
#include "support/skip.h"

using nlohmann::json;

namespace {

// The command with such a driver, and a cache folder of its own.
class Driver {
public:
  CommandResult run(std::vector<std::string> arguments, const std::string& compiler,
                    bool cache = true) const {
    for (const std::string& each : options(cache)) arguments.push_back(each);
    return pumice_command(arguments, nullptr, {variable + compiler});
  }
  CommandResult generate(const std::string& compiler, bool cache = true) const {
    return run({"run", stories_model().string(), "Once upon a time", "-n", "4", "--temp", "0"}, compiler,
               cache);
  }
  json tune(const std::string& compiler, const char* seconds) const {
    const CommandResult result =
        run({"tune", stories_model().string(), "--json", "--seconds", seconds}, compiler);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  }
  // Starts measuring with a compiler that hangs, and waits until it does.
  std::unique_ptr<CommandProcess> hanging() const {
    std::vector<std::string> arguments = {"run", stories_model().string(), "x"};
    for (const std::string& each : options(true)) arguments.push_back(each);
    ::setenv("PUMICE_TEST_COMPILER", "hang", 1);
    auto process = std::make_unique<CommandProcess>(arguments, [] {
      redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
      redirect(STDOUT_FILENO, "/dev/null", O_WRONLY);
      redirect(STDERR_FILENO, "/dev/null", O_WRONLY);
    });
    ::unsetenv("PUMICE_TEST_COMPILER");
    CHECK(within_seconds(60, [&] { return text_of_notes().find("matmul dot") != std::string::npos; }));
    return process;
  }
  // What is noted as being tried.
  std::string text_of_notes() const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(cache_.path())) {
      if (entry.path().string().find(".trying-") == std::string::npos) continue;
      std::stringstream contents;
      contents << std::ifstream(entry.path()).rdbuf();
      text += contents.str();
    }
    return text;
  }
  static bool within_seconds(int seconds, const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

private:
  std::vector<std::string> options(bool cache) const {
    std::vector<std::string> all = {"--vulkan-loader", crashing_vulkan().string()};
    if (cache) all.insert(all.end(), {"--cache", cache_.path().string()});
    if (!cache) all.push_back("--no-cache");
    return all;
  }

  const std::string variable = "PUMICE_TEST_COMPILER=";
  TemporaryFolder cache_;
};

bool no_choice() {
  if (pumice::find_kernel("matmul.dot.q8_0")) return false;
  skip("this build has no kernels with dot products of bytes");
  return true;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

} // namespace

TEST_CASE("the first run already works where the driver crashes with a kernel, and says what it left out") {
  if (no_choice()) return;
  const Driver driver;
  const CommandResult first = driver.generate("crash");
  CAPTURE(first.err);
  CHECK(first.status == 0);
  CHECK(first.out.starts_with("Once upon a time"));
  CHECK(count(first.err, "the kernel variant 'matmul dot' is not used: matmul q8_0 ") == 1);
  CHECK(count(first.err, "the driver crashed (SIGSEGV) while this kernel was tried") == 1);
  CHECK(driver.text_of_notes() == "");
  // The next one knows: it does not try the kernel again, and says that a device without it may be slow.
  const CommandResult second = driver.generate("crash");
  CAPTURE(second.err);
  CHECK(second.status == 0);
  CHECK(second.out == first.out);
  CHECK(second.err.find("while this kernel was tried") == std::string::npos);
  CHECK(count(second.err, "not used, which may make it slow: the kernel variant 'matmul dot' (blocked by ") ==
        1);
  // Who asks for everything tries again, and nothing is blocked for ever.
  const json crashed = driver.tune("crash", "1");
  CHECK(crashed["blocked"]["matmul dot"].get<std::string>().find("SIGSEGV") != std::string::npos);
  const json mended = driver.tune("none", "1");
  CHECK_FALSE(mended["blocked"].contains("matmul dot"));
}

TEST_CASE("without a cache folder a run works too, and a lost device is another reason") {
  if (no_choice()) return;
  const Driver driver;
  const CommandResult crashed = driver.generate("crash", false);
  CAPTURE(crashed.err);
  CHECK(crashed.status == 0);
  CHECK(count(crashed.err, "the driver crashed (SIGSEGV)") == 1);
  const CommandResult lost = driver.generate("lose");
  CAPTURE(lost.err);
  CHECK(lost.status == 0);
  CHECK(count(lost.err, "the device was lost while this kernel was tried") == 1);
  CHECK(driver.text_of_notes() == "");
}

TEST_CASE("a kernel that hangs does not hold tune longer than its time, and is named") {
  if (no_choice()) return;
  const Driver driver;
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = driver.run({"tune", stories_model().string(), "--seconds", "1"}, "hang");
  CAPTURE(result.err);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(40));
  CHECK(result.status == 0);
  CHECK(result.out.find("the time was up") != std::string::npos);
  CHECK(count(result.err, "while the kernel variant 'matmul dot' (matmul q8_0 ") == 1);
  CHECK(driver.text_of_notes() == "");
}

TEST_CASE("whoever ends the command while a kernel is tried does not block that kernel") {
  if (no_choice()) return;
  const Driver driver;
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    CAPTURE(signal);
    const std::unique_ptr<CommandProcess> process = driver.hanging();
    process->interrupt(signal);
    CHECK(process->wait() == 128 + signal);
    CHECK(Driver::within_seconds(20, [&] { return driver.text_of_notes().empty(); }));
  }
  const json tuned = driver.tune("none", "1");
  CHECK(tuned["blocked"].empty());
}
