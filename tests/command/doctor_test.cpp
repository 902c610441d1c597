// `pumice doctor` on this device, and with drivers that are wrong, crash or hang.
#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "gpu/kernel_table.h"
#include "support/command/command.h"
#include "support/files/paths.h"
#include "support/skip.h"
#include "support/vulkan/spirv_faults.h"

using nlohmann::json;

namespace {

// The command with a cache folder of its own.
class Patient {
public:
  // With GPUs' kernels on a CPU driver, and variables that say what is wrong with its compiler.
  json examine(const std::string& only, std::vector<std::string> environment = {}, int status = 1) const {
    const CommandResult result =
        pumice_process({"doctor", "--quick", "--json", "--patience", "10", "--only", only, "--vulkan-loader",
                        crashing_vulkan().string(), "--cache", cache_.path().string()},
                       nullptr, environment);
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(result.status == status);
    const json report = json::parse(result.out, nullptr, false);
    REQUIRE(report.is_object());
    return report;
  }
  // As examine(), where the compiler makes `wrong` of a kernel.
  json examine_with(const std::string& kernel, const spirv_faults::Code& wrong,
                    const std::string& only) const {
    const auto code = pumice::find_kernel(kernel)->code();
    REQUIRE(!std::ranges::equal(code, wrong));
    return examine(only, {"PUMICE_TEST_SHADER=" + write("right", code),
                          "PUMICE_TEST_WRONG_SHADER=" + write("wrong", wrong)});
  }
  // Variants that programs do not use here any more.
  json blocked() const {
    const CommandResult result =
        pumice_process({"tune", stories_model().string(), "--json", "--seconds", "0", "--vulkan-loader",
                        crashing_vulkan().string(), "--cache", cache_.path().string()});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out)["blocked"];
  }

private:
  std::string write(const char* name, std::span<const uint32_t> code) const {
    const auto bytes = std::as_bytes(code);
    return files_.write(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        .string();
  }

  TemporaryFolder cache_, files_;
};

json verdict(const json& report, const std::string& what) {
  for (const json& each : report["verdicts"]) {
    if (each["what"] == what) return each;
  }
  return {{"state", "absent"}, {"text", ""}};
}

bool has(const json& verdict, const char* part) {
  return verdict["text"].get<std::string>().find(part) != std::string::npos;
}

std::span<const uint32_t> code_of(const std::string& kernel) {
  return pumice::find_kernel(kernel)->code();
}

// A variant is bad because of one kernel, programs do not use it any more, and nothing else is bad.
void check_named(const Patient& patient, const json& report, const std::string& variant,
                 const std::string& kernel) {
  CAPTURE(report.dump(2));
  const json bad = verdict(report, variant);
  CHECK(bad["state"] == "BAD");
  CHECK(bad["details"]["kernels"] == json{kernel});
  CHECK(has(bad, "those of the plain kernel are right"));
  CHECK(std::ranges::count(report["verdicts"], json("BAD"), [](const json& each) { return each["state"]; }) ==
        1);
  CHECK(report["healthy"] == false);
  CHECK(report["blocked"].contains(variant));
  CHECK(patient.blocked().contains(variant));
}

// The same for a kernel of products by tiles that has a fault. `only`: what doctor looks at.
template <class Fault>
void check_tiled(const char* kernel, const Fault& fault, const char* only) {
  const Patient patient;
  check_named(patient, patient.examine_with(kernel, fault(code_of(kernel)), only), "matmul tiled", kernel);
}

} // namespace

TEST_CASE("doctor finds nothing wrong with this device") {
  const TemporaryFolder cache;
  const CommandResult result =
      pumice_process({"doctor", "--quick", "--only", "Q8_0", "--cache", cache.path().string()});
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(result.out.find("ok    driver ") != std::string::npos);
  CHECK(result.out.find("ok    memory ") != std::string::npos);
  CHECK(result.out.find("ok    matmul portable ") != std::string::npos);
  CHECK(result.out.ends_with("Nothing is wrong.\n"));
}

TEST_CASE("doctor says what to do where there is no loader, no driver or no such device") {
  struct Lack {
    std::vector<std::string> arguments, environment;
    const char* text;
    std::vector<const char*> advice;
  };
  const std::string nowhere = "/nonexistent";
  const Lack lacks[] = {
      {{"--vulkan-loader", nowhere}, {}, "no Vulkan loader on this machine", {"Leave --vulkan-loader out"}},
      {{},
       {"VK_DRIVER_FILES=" + nowhere, "VK_ICD_FILENAMES=" + nowhere},
       "the Vulkan loader found no driver",
       {"The variable VK_DRIVER_FILES is set to '/nonexistent'", "The variable VK_ICD_FILENAMES is set to",
        "Install a driver: "}},
      {{"--device", "nonsense"},
       {},
       "no usable Vulkan device matches 'nonsense'",
       {"'pumice devices' lists"}},
  };
  for (const Lack& lack : lacks) {
    CAPTURE(lack.text);
    std::vector<std::string> arguments = {"doctor", "--json"};
    arguments.insert(arguments.end(), lack.arguments.begin(), lack.arguments.end());
    const CommandResult result = pumice_process(arguments, nullptr, lack.environment);
    CHECK(result.status == 1);
    const json report = json::parse(result.out, nullptr, false);
    REQUIRE(report.is_object());
    CHECK(report["verdicts"].size() == 1);
    CHECK(has(verdict(report, "device"), lack.text));
    const std::string advice = report["advice"].dump();
    CAPTURE(advice);
    for (const char* part : lack.advice) CHECK(advice.find(part) != std::string::npos);
    CHECK(advice.find("Update the graphics driver") == std::string::npos);
  }
}

TEST_CASE("doctor checks the text and the speed" * doctest::test_suite("long")) {
  const Patient patient;
  const json text = patient.examine("text", {}, 0);
  CHECK(verdict(text, "text")["state"] == "ok");
  CHECK(text["schema"] == 1);
  CHECK(text["device"] != "");
  const json speed = patient.examine("speed", {}, 0);
  CHECK(verdict(speed, "speed")["details"]["flops_per_second"] > 0);
}

TEST_CASE("doctor names a kernel in which one lane is wrong") {
  check_tiled("matmul_tiled.q4_0", spirv_faults::with_wrong_lane, "tiled Q4_0");
}

TEST_CASE("doctor names a kernel that lacks its barriers") {
  check_tiled("matmul_tiled.q8_0", spirv_faults::without_barriers, "tiled Q8_0");
}

TEST_CASE("doctor names a kernel that decodes one type wrongly, among those of other types") {
  check_tiled("matmul_tiled.q4_0", spirv_faults::with_unsigned_codes, "tiled Q4_");
}

TEST_CASE("doctor names a kernel that adds in 16 bits") {
  check_tiled("matmul_tiled.f16", spirv_faults::with_half_sums, "tiled F16");
}

TEST_CASE("doctor names kernels of recurrences that add in 16 bits" * doctest::test_suite("long")) {
  for (const auto& [variant, kernel] : {std::pair("delta_rule chunked", "chunk_states.delta"),
                                        std::pair("selective_scan chunked", "chunk_states.scan")}) {
    const Patient patient;
    const json report = patient.examine_with(kernel, spirv_faults::with_half_sums(code_of(kernel)), variant);
    check_named(patient, report, variant, kernel);
  }
}

TEST_CASE("doctor finds a fault in what only products of experts use") {
  const Patient patient;
  const auto wrong = spirv_faults::with_half_sums(code_of("expert_combine"));
  const json report = patient.examine_with("expert_combine", wrong, "Q8_0, 49 rows, 2 of 3 experts");
  CAPTURE(report.dump(2));
  const json bad = verdict(report, "matmul portable");
  CHECK(bad["state"] == "BAD");
  CHECK(has(bad, "experts of "));
  CHECK(report["advice"].dump().find("has no replacement") != std::string::npos);
}

TEST_CASE("doctor names a variant with which the driver crashes or hangs, and goes on with the others") {
  if (!pumice::find_kernel("matmul.dot.q8_0"))
    return skip("this build has no kernels with dot products of bytes");
  for (const auto& fault : {std::pair("crash", "crashed (SIGSEGV)"), std::pair("hang", "hangs")}) {
    const std::string how = fault.first;
    const char* const words = fault.second;
    CAPTURE(how);
    const Patient patient;
    // What runs when it is done is in the order of the families' variants: dot is before portable.
    const json report = patient.examine("Q8_0, 1 row, 16 x", {"PUMICE_TEST_COMPILER=" + how});
    CAPTURE(report.dump(2));
    CHECK(verdict(report, "matmul dot")["state"] == "BAD");
    CHECK(has(verdict(report, "matmul dot"), words));
    CHECK(has(verdict(report, "matmul dot"), "Q8_0, 1 row, 16 x"));
    CHECK(verdict(report, "matmul portable")["state"] == "ok");
    CHECK(report["blocked"].contains("matmul dot"));
  }
}
