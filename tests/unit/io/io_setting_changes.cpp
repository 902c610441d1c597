#include "io/setting_changes.h"

#include "io/fields.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace pumice;
using nlohmann::json;

namespace {

json changed(json config, bool gguf, const SettingChanges& changes) {
  const Status status = change_settings(config, gguf, changes, "file");
  if (!status.ok()) FAIL(status.error().text());
  return config;
}

} // namespace

TEST_CASE("changes of settings are read as llama.cpp writes them") {
  const json config =
      changed({{"a.b", 1}}, true,
              {{"a.b=int:-4", "a.c=float:1e-5", "a.d=bool:true", "a.e=str:x=y:z", "a.f=int:7"}, {}});
  CHECK(config["a.b"] == -4);
  CHECK(config["a.c"] == 1e-5);
  CHECK(config["a.d"] == true);
  CHECK(config["a.e"] == "x=y:z");
  CHECK(config["a.f"].is_number_unsigned());
  for (const char* wrong : {"", "a", "a=1", "a=int:x", "a=int:", "a=int:1.5", "a=float:inf", "a=bool:1",
                            "a=u32:1", "=int:1", "a:int=1"}) {
    CAPTURE(wrong);
    const auto change = parse_change(wrong);
    REQUIRE(!change.ok());
    CHECK(change.error().message.find("KEY=TYPE:VALUE") != std::string::npos);
  }
}

TEST_CASE("dots lead into the objects of a config.json") {
  const json config = changed({{"rope_scaling", nullptr}, {"n", 1}}, false,
                              {{"rope_scaling.factor=float:2", "rope_scaling.type=str:linear"}, {}});
  CHECK(config["rope_scaling"]["factor"] == 2);
  CHECK(config["rope_scaling"]["type"] == "linear");
  json plain = {{"n", 1}};
  CHECK(!change_settings(plain, false, {{"n.m=int:1"}, {}}, "file").ok());
}

TEST_CASE("a longer context by rotary positions is one that a session may have") {
  const json gguf = {{"general.architecture", "llama"}, {"llama.context_length", 512u}};
  SettingChanges changes;
  changes.rotary.factor = 4.0f;
  json found = changed(gguf, true, changes);
  CHECK(found["llama.rope.scaling.type"] == "linear");
  CHECK(found["llama.rope.scaling.factor"] == 4);
  CHECK(found["llama.context_length"] == 2048);
  changes.rotary.scaling = "yarn";
  changes.rotary.base = 20000.0f;
  found = changed(gguf, true, changes);
  CHECK(found["llama.rope.scaling.type"] == "yarn");
  CHECK(found["llama.rope.scaling.original_context_length"] == 512);
  CHECK(found["llama.rope.freq_base"] == 20000);
  changes.rotary.original_context = 256;
  CHECK(changed(gguf, true, changes)["llama.context_length"] == 1024);

  const json folder = {{"max_position_embeddings", 512u}, {"rope_theta", 1e4}};
  found = changed(folder, false, changes);
  CHECK(found["rope_scaling"]["rope_type"] == "yarn");
  CHECK(found["rope_scaling"]["factor"] == 4);
  CHECK(found["rope_theta"] == 20000);
  CHECK(found["max_position_embeddings"] == 1024);
  CHECK(changed(folder, false, {}) == folder);
}

TEST_CASE("changes that nothing was read from are named") {
  const json config = {
      {"hidden_size", 8}, {"rope_scaling", {{"factor", 2}}}, {"quantization_config", {{"bits", 4}}}};
  const auto asked = std::make_shared<AskedFields>();
  const Fields fields(config, "file", "", asked);
  CHECK(fields.u32("hidden_size").ok());
  CHECK(!fields.has("num_layers"));
  const auto scaling = fields.object("rope_scaling");
  REQUIRE(scaling.ok());
  CHECK(scaling->f32("factor").ok());
  CHECK(fields.find("quantization_config") != nullptr); // and reads what it likes of it
  const auto said = [&](const SettingChanges& changes) { return unread_changes(changes, *asked); };
  CHECK(said({{"hidden_size=int:9", "num_layers=int:1", "rope_scaling.factor=float:3",
               "quantization_config.bits=int:8"},
              {}})
            .empty());
  const auto unread = said({{"hidden_sise=int:9", "rope_scaling.type=str:yarn", "zzz=int:1"}, {}});
  REQUIRE(unread.size() == 3);
  CHECK(unread[0].find("did you mean hidden_size?") != std::string::npos);
  CHECK(unread[1].find("'rope_scaling.type'") != std::string::npos);
  CHECK(unread[2].find("did you mean") == std::string::npos);
  SettingChanges turned;
  turned.rotary.factor = 2.0f;
  CHECK(said(turned).empty());
  CHECK(unread_changes(turned, AskedFields()).size() == 1);
}
