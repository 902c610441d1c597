#include "tuning/check_model.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/command/messages.h"
#include "support/files/temporary_folder.h"
#include "support/llama_reference.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

TEST_CASE("the answer of the model that devices are checked with is the reference's, and no token is close") {
  const TemporaryFolder folder;
  REQUIRE(write_check_model(folder.path()).ok());
  const auto file = ModelFile::open(folder.path());
  REQUIRE(file.ok());
  std::vector<uint32_t> ids(check_model_prompt().begin(), check_model_prompt().end());
  const size_t prompt = ids.size();
  ids.insert(ids.end(), check_model_answer().begin(), check_model_answer().end());
  const std::vector<double> logits = llama_reference(*file, ids);
  const size_t vocabulary = logits.size() / ids.size();
  for (size_t i = prompt; i < ids.size(); ++i) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>((i - 1) * vocabulary);
    const double chosen = row[ids[i]];
    for (uint32_t token = 0; token < vocabulary; ++token) {
      if (token != ids[i]) CHECK(row[token] < chosen - 0.3);
    }
  }
}

TEST_CASE("this device generates the answer, with its own kernels and with plain ones") {
  const TemporaryFolder folder;
  REQUIRE(write_check_model(folder.path()).ok());
  for (const char* variant : {"", "portable"}) {
    DeviceContext context = TestGpu::get().context();
    context.profile.forced = variant;
    const auto model = Model::load(folder.path(), context);
    REQUIRE(model.ok());
    const auto wrong = check_model(*model);
    REQUIRE(wrong.ok());
    CHECK(*wrong == "");
  }
}
