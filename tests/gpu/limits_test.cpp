// Devices that can allocate and reach less at once than a model's largest matrix takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "generate/session.h"
#include "io/formats/gguf_writer.h"
#include "kernel/probe/open_device.h"
#include "step/cache/memory_needs.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"

using namespace pumice;

namespace {

constexpr uint64_t vocabulary = 140000, hidden = 512, feed_forward = 512;

// A llama of one layer whose embedding, which is its head too, is 143 MB of f16.
std::filesystem::path write_model(const TemporaryFolder& folder) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", uint32_t{1});
  writer.add("llama.context_length", uint32_t{256});
  writer.add("llama.embedding_length", static_cast<uint32_t>(hidden));
  writer.add("llama.feed_forward_length", static_cast<uint32_t>(feed_forward));
  writer.add("llama.attention.head_count", uint32_t{8});
  writer.add("llama.attention.head_count_kv", uint32_t{8});
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add("llama.vocab_size", static_cast<uint32_t>(vocabulary));
  std::vector<std::pair<uint64_t, TensorType>> sizes; // elements, in order
  const auto tensor = [&](const char* name, std::vector<uint64_t> shape) {
    const TensorType type = shape.size() == 1 ? TensorType::f32 : TensorType::f16;
    uint64_t count = 1;
    for (uint64_t size : shape) count *= size;
    writer.add_tensor(name, shape, type);
    sizes.emplace_back(count, type);
  };
  tensor("token_embd.weight", {vocabulary, hidden});
  tensor("output_norm.weight", {hidden});
  tensor("blk.0.attn_norm.weight", {hidden});
  tensor("blk.0.ffn_norm.weight", {hidden});
  for (const char* name :
       {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight",
        "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"})
    tensor(name, {hidden, hidden});
  const std::filesystem::path path = folder.path() / "large.gguf";
  REQUIRE(writer.open(path).ok());
  std::mt19937 random(7);
  // Halves of about a normal distribution, drawn from a table: there are many.
  std::vector<uint16_t> table(4096);
  std::normal_distribution<float> normal(0, 0.05f);
  for (uint16_t& value : table) value = float_to_half(normal(random));
  for (const auto& [count, type] : sizes) {
    if (type == TensorType::f32) {
      const std::vector<float> ones(count, 1.0f);
      REQUIRE(writer.write(std::as_bytes(std::span(ones))).ok());
      continue;
    }
    std::vector<uint16_t> values(count);
    for (uint16_t& value : values) value = table[random() % table.size()];
    REQUIRE(writer.write(std::as_bytes(std::span(values))).ok());
  }
  REQUIRE(writer.finish().ok());
  return path;
}

VulkanTable real;
uint64_t forced = 0; // limits; none where it is 0

// No higher than they are: nothing may rely on more.
VKAPI_ATTR void VKAPI_CALL limited_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* found) {
  real.vkGetPhysicalDeviceProperties2(device, found);
  if (!forced) return;
  uint32_t& range = found->properties.limits.maxStorageBufferRange;
  range = static_cast<uint32_t>(std::min<uint64_t>(range, forced));
  for (auto* next = static_cast<VkBaseOutStructure*>(found->pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) continue;
    VkDeviceSize& bytes =
        reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)->maxMemoryAllocationSize;
    bytes = std::min<VkDeviceSize>(bytes, forced);
  }
}

VKAPI_ATTR VkResult VKAPI_CALL limited_allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                                const VkAllocationCallbacks* callbacks,
                                                VkDeviceMemory* memory) {
  if (forced) CHECK(info->allocationSize <= forced);
  return real.vkAllocateMemory(device, info, callbacks, memory);
}

VKAPI_ATTR void VKAPI_CALL limited_bindings(VkDevice device, uint32_t count,
                                            const VkWriteDescriptorSet* writes, uint32_t copies,
                                            const VkCopyDescriptorSet* copied) {
  for (uint32_t i = 0; i < count && forced; ++i) {
    for (uint32_t j = 0; j < writes[i].descriptorCount && writes[i].pBufferInfo; ++j)
      CHECK(writes[i].pBufferInfo[j].range <= forced);
  }
  real.vkUpdateDescriptorSets(device, count, writes, copies, copied);
}

DeviceContext open(const InstanceOptions& options) {
  const auto instance = require(Instance::create(options));
  return require(open_device(instance, require(instance->choose("")), {}));
}

} // namespace

TEST_CASE("matrices that pass what a device can allocate or reach at once are split, and nothing changes") {
  const TemporaryFolder folder;
  const std::filesystem::path path = write_model(folder);
  const DeviceContext plain = open({});
  real = plain.device->table();
  std::vector<uint32_t> expected;
  for (uint64_t mebibytes : {0u, 32u, 128u, 256u, 1024u}) {
    CAPTURE(mebibytes);
    forced = mebibytes << 20;
    InstanceOptions options;
    options.table.vkGetPhysicalDeviceProperties2 = limited_properties;
    options.table.vkAllocateMemory = limited_allocate;
    options.table.vkUpdateDescriptorSets = limited_bindings;
    const DeviceContext context = open(options);
    if (forced) CHECK(context.device->capabilities().max_allocation_bytes <= forced);
    const uint64_t probed = context.device->peak_bytes();
    SessionOptions session_options;
    session_options.size.context = 64;
    const auto planned = require(Model::plan(require(ModelFile::open(path)), context));
    const MemoryNeeds needs =
        require(memory_needs(*planned, require(usual_runners(*planned, session_options.size))));
    CHECK(needs.weights > vocabulary * hidden * 2);

    const auto model = require(Model::load(path, context));
    const auto session = require(Session::create(model, session_options));
    CHECK(context.device->peak_bytes() == std::max(needs.peak(), probed));
    // Tokens of all parts of the table.
    REQUIRE(
        session->prefill(std::vector<uint32_t>{3, 139999, 70000, 131071, 131072, 65535, 100003}, {}).ok());
    std::vector<uint32_t> tokens;
    while (tokens.size() < 6) tokens.push_back(require(session->next()));
    if (!mebibytes) expected = tokens;
    CHECK(tokens == expected);
  }
}
