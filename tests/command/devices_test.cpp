#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"

using nlohmann::json;

TEST_CASE("devices lists the devices and marks the chosen one") {
  const CommandResult result = pumice_command({"devices", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json all = json::parse(result.out);
  REQUIRE(all["devices"].size() > 0);
  const json& chosen = all["devices"][all["chosen"].get<size_t>()];
  CHECK(chosen["chosen"] == true);
  CHECK(chosen["problems"].empty());
  CHECK(chosen["tiers"][0] == "portable");
  CHECK(chosen["limits"]["storage_range_bytes"] > 0);
  const std::string name = chosen["name"];
  CHECK(pumice_command({"devices"}).out.find(name) != std::string::npos);

  const json by_uuid = json::parse(pumice_command({"devices", "--json", "--device", chosen["uuid"]}).out);
  CHECK(by_uuid["devices"][by_uuid["chosen"].get<size_t>()]["uuid"] == chosen["uuid"]);
  CHECK(pumice_command({"devices", "--device", name.substr(1, 4)}).status == 0);
}

TEST_CASE("without Vulkan, the error says what is missing") {
  CHECK(fails_saying(pumice_command({"devices", "--vulkan-loader", "/nonexistent/libvulkan.so"}),
                     {"/nonexistent/libvulkan.so"}) == "");
  const std::vector<std::string> no_driver = {"VK_DRIVER_FILES=/nonexistent",
                                              "VK_ICD_FILENAMES=/nonexistent"};
  const CommandResult none = pumice_command({"devices", "--json"}, nullptr, no_driver);
  CHECK(none.status == 1);
  CHECK(none.err.find("pumice: ") == 0);
  const CommandResult wrong = pumice_command({"devices", "--device", "no such device"});
  CHECK(wrong.status == 1);
  CHECK(wrong.err.find("no such device") != std::string::npos);
}
