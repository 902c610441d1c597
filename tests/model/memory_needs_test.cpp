// What a model and a session are said to take, before any of it is allocated.
#include <doctest/doctest.h>

#include "generate/encoder_decoder.h"
#include "step/cache/memory_needs.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/vulkan/fresh_device.h"
#include "task/fitting.h"

using namespace pumice;

namespace {

const std::filesystem::path pretrained = pretrained_folder();
const std::filesystem::path shipped = pretrained / "stories-2m.gguf";

std::shared_ptr<const Model> plan(const std::filesystem::path& path, const DeviceContext& context,
                                  const LoadOptions& load = {}) {
  return require(Model::plan(require(ModelFile::open(path)), context, load));
}

// Devices whose memory the host cannot map take megabytes more while weights are loaded.
constexpr const char* loading_takes_more = "loading this small model takes more memory than its sessions";

SessionSize size_of(uint32_t context, uint32_t chunk = 128, CacheType cache = CacheType::f16) {
  SessionSize size;
  size.context = context;
  size.chunk = chunk;
  size.cache = cache;
  return size;
}

// Plans, allocates and compares. `make` makes the session and returns whatever keeps it alive.
template <class Runners, class Make>
void check_needs(const std::filesystem::path& path, const LoadOptions& load, const Runners& runners,
                 const Make& make) {
  CAPTURE(path.filename().string());
  const DeviceContext context = fresh_device();
  MemoryNeeds needs;
  {
    const auto planned = plan(path, context, load);
    needs = require(memory_needs(*planned, runners(*planned)));
    CHECK(context.device->peak_bytes() == 0);
    CHECK(needs.fits());
  }
  const auto model = require(Model::load(path, context, {}, load));
  CHECK(model->weight_bytes() == needs.weights);
  CHECK(model->host_weight_bytes() == needs.host);
  CHECK(context.device->peak_bytes() == needs.weights + needs.loading);
  const auto session = make(model);
  CHECK(context.device->allocated_bytes() == needs.weights + needs.session());
  CHECK(context.device->peak_bytes() == needs.peak());
  // A model that is loaded says the same of a session.
  const MemoryNeeds loaded = require(memory_needs(*model, runners(*model)));
  CHECK(loaded.session() == needs.session());
  CHECK(loaded.weights == needs.weights);
  CHECK(loaded.context == needs.context);
}

void check_session(const std::filesystem::path& path, const SessionSize& size, const LoadOptions& load = {}) {
  check_needs(
      path, load, [&](const Model& model) { return require(usual_runners(model, size)); },
      [&](const std::shared_ptr<const Model>& model) {
        SessionOptions options;
        options.size = size;
        return require(Session::create(model, options));
      });
}

} // namespace

// The model's own context, and each type of the cache; a long run has more sizes.
TEST_CASE("a session's memory is estimated to the byte") {
  const SessionSize sizes[] = {size_of(0), size_of(64, 16), size_of(200, 128, CacheType::q8_0_f16),
                               size_of(100), size_of(333, 512, CacheType::f32)};
  for (const SessionSize& size : turns_of(sizes, 2)) check_session(shipped, size);
  check_session(fixtures().gguf("random-Q4_K_M"), size_of(100));
  LoadOptions quantised;
  quantised.weights = TensorType::q8_0;
  check_session(fixtures().gguf("random-F16"), size_of(100), quantised);
}

TEST_CASE("experts in the host's memory take none of the device's, and give the same bits") {
  const std::filesystem::path mixture = fixtures().model("mixtral-moe");
  LoadOptions here, there;
  here.experts = ExpertPlacement::device;
  there.experts = ExpertPlacement::host;
  check_session(mixture, size_of(100), here);
  check_session(mixture, size_of(100), there);
  const auto on_device = load_model(mixture, here), on_host = load_model(mixture, there);
  CHECK(on_device->host_weight_bytes() == 0);
  CHECK(on_host->host_weight_bytes() > on_device->weight_bytes() / 4);
  CHECK(on_host->weight_bytes() < on_device->weight_bytes());
  const std::vector<uint32_t> ids = {3, 14, 15, 92, 6, 5, 35};
  CHECK(forward(on_host, ids, 5) == forward(on_device, ids, 5));
  // Another model has nothing to place there.
  CHECK(load_model(shipped, there)->host_weight_bytes() == 0);
}

TEST_CASE(
    "the first layers' matrices in the host's memory take none of the device's, and give the same bits") {
  const std::vector<uint32_t> ids = {3, 14, 15, 92, 6, 5, 35};
  for (const char* name : {"llama-gqa", "qwen3-moe", "gemma4"}) {
    CAPTURE(name);
    const std::filesystem::path path = fixtures().model(name);
    const auto all = load_model(path);
    uint64_t before = 0;
    for (uint32_t layers : {99u, 1u, 0u}) {
      LoadOptions load;
      load.device_layers = layers;
      check_session(path, size_of(100), load);
      const auto some = load_model(path, load);
      CHECK((some->host_weight_bytes() > 0) == (layers != 99));
      CHECK(some->host_weight_bytes() >= before);
      CHECK((some->weight_bytes() < all->weight_bytes()) == (layers != 99));
      CHECK(forward(some, ids, 5) == forward(all, ids, 5));
      before = some->host_weight_bytes() + 1;
    }
  }
}

TEST_CASE("experts leave a GPU without room for them") {
  constexpr uint64_t gigabyte = 1 << 30;
  CHECK(experts_leave_device(9 * gigabyte, 8 * gigabyte, false));
  CHECK(experts_leave_device(8 * gigabyte, 8 * gigabyte, false)); // nothing is left to sessions
  CHECK_FALSE(experts_leave_device(7 * gigabyte, 8 * gigabyte, false));
  CHECK_FALSE(experts_leave_device(9 * gigabyte, 8 * gigabyte, true)); // there is no other memory
}

TEST_CASE("readable tensors are in the estimate") {
  const std::vector<std::string> readable = {"logits", "hidden_states.1"};
  check_needs(
      shipped, {}, [&](const Model& model) { return require(usual_runners(model, size_of(64), readable)); },
      [&](const std::shared_ptr<const Model>& model) {
        RunnerOptions options;
        options.size = size_of(64);
        options.readable = readable;
        return require(Runner::create(model, options));
      });
}

// The model's own sizes, and others with several beams; a long run has one beam too.
TEST_CASE("the memory of an encoder with a decoder is estimated to the byte") {
  struct Sizes {
    uint32_t beams, input_tokens, output_tokens;
  };
  const Sizes all[] = {{1, 0, 0}, {1, 48, 32}, {4, 100, 20}};
  for (const Sizes& sizes : turns_of(all, 2)) {
    CAPTURE(sizes.beams);
    EncoderDecoderOptions options;
    options.beams = sizes.beams;
    options.input_tokens = sizes.input_tokens;
    options.output_tokens = sizes.output_tokens;
    check_needs(
        pretrained / "dates", {},
        [&](const Model& model) { return require(EncoderDecoder::runner_options(model, options)); },
        [&](const std::shared_ptr<const Model>& model) {
          return require(EncoderDecoder::create(model, options));
        });
  }
}

TEST_CASE("the memory of an encoder alone is estimated to the byte") {
  const std::vector<std::string> readable = {"sentence_embedding_mean"};
  for (uint32_t tokens : {0u, 40u}) {
    check_needs(
        fixtures().model("bert"), {},
        [&](const Model& model) {
          return require(usual_runners(model, size_of(tokens, 128, CacheType::f32), readable));
        },
        [&](const std::shared_ptr<const Model>& model) {
          EncoderOptions options;
          options.tokens = tokens;
          options.readable = readable;
          return require(Encoder::create(model, options));
        });
  }
}

TEST_CASE("a graphics card's default chunk is long, and shorter where there is no room for it") {
  Capabilities device;
  for (const VkPhysicalDeviceType type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                          VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU}) {
    device.type = type;
    CHECK(default_chunk(device) == 128);
  }
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  CHECK(default_chunk(device) == 512);

  const auto peak = [](uint32_t chunk) {
    const auto planned = plan(shipped, fresh_device());
    return require(memory_needs(*planned, require(usual_runners(*planned, size_of(512, chunk))))).peak();
  };
  const auto longest = [](uint64_t limit, uint32_t chosen = 128) {
    const auto planned = plan(shipped, fresh_device({limit}));
    return require(with_longest_chunk(*planned, size_of(512, chosen), 512)).chunk;
  };
  if (peak(128) == peak(512)) return skip(loading_takes_more);
  CHECK(longest(peak(512)) == 512);
  CHECK(longest(peak(512) - 1) == 256);
  CHECK(longest(peak(128)) == 128);
  CHECK(longest(peak(128) / 2) == 128); // no room for anything: what was asked for stays
  CHECK(longest(peak(512), 512) == 512);
}

TEST_CASE("with a limit equal to the estimate all fits, and with less nothing is leaked") {
  constexpr uint32_t context = 256;
  SessionOptions options;
  options.size = size_of(context);
  MemoryNeeds needs, smaller;
  {
    const auto planned = plan(shipped, fresh_device());
    needs = require(memory_needs(*planned, require(usual_runners(*planned, options.size))));
    smaller = require(memory_needs(*planned, require(usual_runners(*planned, size_of(context / 2)))));
  }
  if (smaller.loading > smaller.session()) return skip(loading_takes_more);
  REQUIRE(smaller.peak() < needs.peak());
  const DeviceContext enough = fresh_device({needs.peak()});
  const auto model = require(Model::load(shipped, enough));
  CHECK(Session::create(model, options).ok());

  const DeviceContext tight = fresh_device({needs.peak() - 1});
  {
    const auto planned = plan(shipped, tight);
    CHECK_FALSE(require(memory_needs(*planned, require(usual_runners(*planned, options.size)))).fits());
  }
  const auto fits = require(Model::load(shipped, tight));
  const uint64_t before = tight.device->allocated_bytes();
  const auto refused = Session::create(fits, options);
  CHECK(says(refused, {"limit of " + std::to_string(needs.peak() - 1) + " bytes"}) == "");
  CHECK(refused.error().code == Code::out_of_memory);
  CHECK(tight.device->allocated_bytes() == before);
  options.size = size_of(context / 2);
  const auto session = require(Session::create(fits, options));
  CHECK(session->prefill(std::vector<uint32_t>{1, 300, 400}, {}).ok());
  CHECK(session->next().ok());

  const DeviceContext less = fresh_device({needs.weights - 1});
  const auto no_model = Model::load(shipped, less);
  CHECK(no_model.error().code == Code::out_of_memory);
  CHECK(less.device->allocated_bytes() == 0);
}

TEST_CASE("the longest context that fits is found") {
  const SessionSize size = size_of(0, 16);
  MemoryNeeds needs;
  uint32_t longest = 0;
  {
    const auto planned = plan(shipped, fresh_device());
    longest = planned->shape().context;
    CHECK(require(longest_context(*planned, size)) == longest);
    needs = require(memory_needs(*planned, require(usual_runners(*planned, size_of(100, 16)))));
  }
  if (needs.loading > needs.session()) return skip(loading_takes_more);
  const DeviceContext tight = fresh_device({needs.peak()});
  const auto planned = plan(shipped, tight);
  const uint32_t found = require(longest_context(*planned, size));
  CHECK(found >= 100);
  CHECK(found < longest);
  const auto fits = [&](uint32_t context) {
    return require(memory_needs(*planned, require(usual_runners(*planned, size_of(context, 16))))).fits();
  };
  CHECK(fits(found));
  CHECK_FALSE(fits(found + 1));

  const auto model = require(Model::load(shipped, tight));
  CHECK(require(longest_context(*model, size)) == found);
  SessionOptions options;
  options.size = size_of(found, 16);
  CHECK(Session::create(model, options).ok());
  options.size = size_of(found + 1, 16);
  CHECK(Session::create(model, options).error().code == Code::out_of_memory);

  CHECK(require(longest_context(*plan(shipped, fresh_device({needs.weights})), size)) == 0);
}

TEST_CASE(
    "sizes beyond the limits of the model or the device are errors, for the estimate and for the session") {
  const auto planned = plan(shipped, fresh_device());
  const auto runners = require(usual_runners(*planned, size_of(1u << 20)));
  CHECK(says(memory_needs(*planned, runners), {"stories-2m.gguf", "a context of 1048576"}) == "");
}
