// The main function of every test program: doctest's own, but a run in which no test case was chosen
// fails, and so does one in which Vulkan's validation layers had something to say. A run in which every
// chosen case skipped ends with a status of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "support/files/temporary_folder.h"
#include "support/skip.h"
#include "support/vulkan/drivers.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/wide_subgroups.h"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace {

constexpr int skipped_status = 77; // tests/CMakeLists.txt tells CTest

unsigned chosen_cases = 0, skipped_cases = 0;

struct CountCases : doctest::IReporter {
  explicit CountCases(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    chosen_cases = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    skipped_cases += case_is_skipped();
    case_is_skipped() = false;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("count_cases", 1, CountCases);

#ifndef _WIN32
// Commands that this program starts keep what they measured of the device in a folder of its own, not in the
// user's: the first measures, which is a quarter of a short command's time. What Mesa compiled stays where
// it was, for all programs.
class OwnCacheFolder {
public:
  OwnCacheFolder() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    std::filesystem::path mesa;
    if (cache && *cache) {
      mesa = cache;
    } else if (home && *home) {
      mesa = std::filesystem::path(home) / ".cache";
    }
    if (!mesa.empty() && !std::getenv("MESA_GLSL_CACHE_DIR")) {
      std::error_code ignored; // Mesa makes its folder, but not the one that this is in
      std::filesystem::create_directories(mesa, ignored);
      ::setenv("MESA_SHADER_CACHE_DIR", mesa.c_str(), 0);
    }
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }

private:
  TemporaryFolder folder_;
};
#endif

} // namespace

int main(int argc, char** argv) {
  doctest::Context context;
  context.applyCommandLine(argc, argv);
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  // At the end LeakSanitizer tells a driver's leaks from ours as long as the driver is there.
  (void)resident_instance();
#endif
  if (const std::string reason = why_not_wide(); !reason.empty()) {
    std::fprintf(stderr, "skipped: %s\n", reason.c_str());
    return skipped_status;
  }
#ifndef _WIN32
  const OwnCacheFolder cache;
#endif
  const int status = context.run();
  if (context.shouldExit()) return status; // --help, --list-test-cases and the like
  if (chosen_cases == 0) {
    std::fputs("no test case matches the filters\n", stderr);
    return 1;
  }
  for (const std::string& message : validation_messages())
    std::fprintf(stderr, "validation: %s\n", message.c_str());
  if (status == 0 && !validation_messages().empty()) return 1;
  return status == 0 && skipped_cases == chosen_cases ? skipped_status : status;
}
