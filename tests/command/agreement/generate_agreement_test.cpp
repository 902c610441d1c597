// `pumice generate` and the C interface write the same texts, with the same numbers.
#include <doctest/doctest.h>

#include "model/architecture.h"
#include "support/command/written.h"
#include "support/files/fixtures.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr uint32_t count = 8;

struct Case {
  std::vector<std::string> options; // of the command
  pumice_sampling sampling = {sizeof sampling};
  std::vector<const char*> stops = {};
  bool ignore_end = false;
};

pumice_sampling drawn(uint64_t seed) {
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 0.9f;
  sampling.top_k = 20;
  sampling.top_p = 0.8f;
  sampling.min_p = 0.01f;
  sampling.repeat_penalty = 1.2f;
  sampling.seed = seed;
  sampling.log_probabilities = 4;
  return sampling;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({{"--logprobs", "3"}});
  all.back().sampling.log_probabilities = 3;
  all.push_back({{"--ignore-eos"}, {sizeof(pumice_sampling)}, {}, true});
  for (uint64_t seed : {1, 77}) {
    all.push_back({{"--temp", "0.9", "--top-k", "20", "--top-p", "0.8", "--min-p", "0.01", "--repeat-penalty",
                    "1.2", "--logprobs", "4", "--seed", std::to_string(seed)},
                   drawn(seed)});
  }
  return all;
}

struct Program {
  const DeviceHandle& device = shared_device();

  SessionHandle open(const std::string& path) const {
    pumice_session_options options = {sizeof options};
    options.cache = PUMICE_CACHE_F32; // as `pumice generate` has it
    return make_session(load(device.get(), path).get(), options);
  }
};

// `request` has the prompt that the command's `prompt` gives.
void check_agree(const std::string& path, const std::vector<std::string>& prompt, pumice_session* session,
                 pumice_request request, const Case& each) {
  std::vector<std::string> arguments = {"generate", path, "-n", std::to_string(count), "--json"};
  arguments.insert(arguments.end(), prompt.begin(), prompt.end());
  arguments.insert(arguments.end(), each.options.begin(), each.options.end());
  request.new_conversation = true;
  request.max_tokens = count;
  request.ignore_end = each.ignore_end;
  request.sampling = &each.sampling;
  request.stops = each.stops.data();
  request.stop_count = each.stops.size();
  const Written by_command = written_by_command(command_json(arguments));
  const Written by_session = written_by_session(session, request);
  CHECK(by_command.ids == by_session.ids);
  CHECK(by_command.text == by_session.text);
  CHECK(by_command.end == by_session.end);
  CHECK(by_command.log_probabilities == by_session.log_probabilities);
}

void check_prompt(const std::string& path, const std::string& prompt, std::vector<Case> all) {
  CAPTURE(path);
  const Program program;
  const SessionHandle session = program.open(path);
  pumice_request request = {sizeof request};
  request.text = prompt.c_str();
  for (const Case& each : all) {
    CAPTURE(each.options.back());
    check_agree(path, {"--prompt", prompt}, session.get(), request, each);
  }
}

bool is_decoder(const std::filesystem::path& folder) {
  const ModelFile file = require(ModelFile::open(folder));
  const ModelShape shape = require(open_model_definition(file))->shape();
  return shape.has_decoder() && !shape.encoder;
}

} // namespace

TEST_CASE("the shipped models and a story continue texts alike") {
  std::vector<Case> all = cases();
  all.push_back({{"--stop", "the", "--stop", "a"}, {sizeof(pumice_sampling)}, {"the", "a"}});
  all.push_back({{"--temp", "0.9", "--seed", "5", "--stop", "."}, {sizeof(pumice_sampling)}, {"."}});
  all.back().sampling.temperature = 0.9f;
  all.back().sampling.seed = 5;
  for (const std::string& path : {stories, fixtures().story().string()})
    check_prompt(path, "Once upon a time", all);
  check_prompt((pretrained_folder() / "chat-2m.gguf").string(), "What does a cow say", cases());
}

TEST_CASE("each sample of a prompt is the text of its seed") {
  const Program program;
  const SessionHandle session = program.open(stories);
  const json texts = command_json({"generate", stories, "--prompt", "Once", "-n", "8", "--samples", "3",
                                   "--temp", "1", "--seed", "20", "--json"})["sequences"];
  REQUIRE(texts.size() == 3);
  for (size_t i = 0; i < texts.size(); ++i) {
    pumice_sampling sampling = {sizeof sampling};
    sampling.temperature = 1;
    sampling.seed = 20 + i;
    pumice_request request = {sizeof request};
    request.text = "Once";
    request.new_conversation = true;
    request.max_tokens = 8;
    request.sampling = &sampling;
    CHECK(written_by_command(texts[i]) == written_by_session(session.get(), request));
  }
}

TEST_CASE("every decoder of the fixtures continues tokens alike" * doctest::test_suite("long")) {
  const Program program;
  const std::vector<uint32_t> ids = {5, 9, 3, 7, 11};
  pumice_request request = {sizeof request};
  request.tokens = ids.data();
  request.token_count = ids.size();
  std::vector<std::string> paths;
  for (const std::string& name : fixtures().models()) {
    const std::filesystem::path folder = fixtures().model(name);
    if (is_decoder(folder)) paths.push_back(folder.string());
  }
  for (const std::string& name : fixtures().ggufs()) paths.push_back(fixtures().gguf(name).string());
  for (const std::string& path : paths) {
    CAPTURE(path);
    const SessionHandle session = program.open(path);
    for (const Case& each : cases()) check_agree(path, {"--ids", "5,9,3,7,11"}, session.get(), request, each);
  }
}
