// Inputs and results in buffers of the program.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/files/random_model.h"
#include "support/vulkan/vulkan_program.h"

using pumice::VulkanTable;

namespace {

// A buffer of the program that is mapped.
class MappedBuffer {
public:
  MappedBuffer(VulkanProgram& program, uint64_t bytes, VkBufferUsageFlags usage) : program_(program) {
    const VulkanTable& vk = program.vk();
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = bytes;
    info.usage = usage;
    REQUIRE(vk.vkCreateBuffer(program.handle(), &info, nullptr, &buffer_) == VK_SUCCESS);
    VkMemoryRequirements needs;
    vk.vkGetBufferMemoryRequirements(program.handle(), buffer_, &needs);
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocate.allocationSize = needs.size; // lavapipe's first memory type is all there is
    REQUIRE(vk.vkAllocateMemory(program.handle(), &allocate, nullptr, &memory_) == VK_SUCCESS);
    REQUIRE(vk.vkBindBufferMemory(program.handle(), buffer_, memory_, 0) == VK_SUCCESS);
    REQUIRE(vk.vkMapMemory(program.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped_) == VK_SUCCESS);
  }
  ~MappedBuffer() {
    program_.vk().vkDestroyBuffer(program_.handle(), buffer_, nullptr);
    program_.vk().vkFreeMemory(program_.handle(), memory_, nullptr);
  }
  VkBuffer buffer() const { return buffer_; }
  std::byte* bytes() const { return static_cast<std::byte*>(mapped_); }

private:
  VulkanProgram& program_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
};

} // namespace

TEST_CASE("logits are copied into a buffer of the program") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  pumice_model_info info = {sizeof info};
  pumice_error error;
  require_ok(pumice_model_get_info(model.get(), &info, &error), error);
  const uint64_t bytes = uint64_t{info.vocabulary} * 4;
  MappedBuffer memory(program, bytes + 64, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const auto largest = [&] {
    std::vector<float> logits(info.vocabulary);
    std::memcpy(logits.data(), memory.bytes() + 64, bytes);
    return static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin());
  };
  const SessionHandle session = small_session(model.get(), {memory.buffer(), 64, bytes});
  for (const bool slices : {false, true}) {
    begin(session.get(), prompt, 5);
    Story story;
    pumice_slice slice = {sizeof slice, slices};
    while (slice.active) {
      const size_t before = story.tokens.size();
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 700, nullptr, &slice, &error),
                 error);
      take_events(session.get(), story);
      if (story.tokens.size() > before && !slice.active) CHECK(largest() == story.tokens.back());
    }
    if (!slices) {
      require_ok(pumice_session_run(session.get(), &error), error);
      take_events(session.get(), story);
      CHECK(largest() == story.tokens.back());
    }
    CHECK(story.tokens.size() == 5);
  }
  pumice_session_options options = {sizeof options};
  options.logits = {memory.buffer(), 64, bytes - 4};
  pumice_session* refused = nullptr;
  CHECK(pumice_session_create(model.get(), &options, &refused, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.logits.bytes") != std::string::npos);
}

TEST_CASE("pictures are read from a buffer of the program, and results copied into another one") {
  const TemporaryFolder folder;
  write_random_model(folder, {{"model_type", "vit"},
                              {"image_size", 24},
                              {"patch_size", 8},
                              {"num_channels", 3},
                              {"hidden_size", 32},
                              {"intermediate_size", 64},
                              {"num_attention_heads", 2},
                              {"num_hidden_layers", 2},
                              {"layer_norm_eps", 1e-12},
                              {"hidden_act", "gelu"}});
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get(), folder.path().string());
  pumice_model_info info = {sizeof info};
  pumice_error error;
  require_ok(pumice_model_get_info(model.get(), &info, &error), error);
  REQUIRE(info.input_values == 3 * 24 * 24);
  constexpr size_t pictures = 2;
  std::vector<float> values(pictures * info.input_values);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f);
  const auto make = [&](const pumice_encoder_options& options) {
    pumice_encoder* made = nullptr;
    require_ok(pumice_encoder_create(model.get(), &options, &made, &error), error);
    return EncoderHandle(made);
  };
  pumice_encoder_options options = {sizeof options};
  options.output = "last_hidden_state";
  options.inputs = pictures;
  const EncoderHandle plain = make(options);
  const size_t size = sizeof(pumice_input);
  const pumice_input given[pictures] = {{size, nullptr, nullptr, 0, values.data()},
                                        {size, nullptr, nullptr, 0, values.data() + info.input_values}};
  size_t count = 0;
  require_ok(pumice_encoder_encode(plain.get(), given, pictures, nullptr, 0, &count, &error), error);
  std::vector<float> expected(count);
  require_ok(pumice_encoder_encode(plain.get(), given, pictures, expected.data(), count, &count, &error),
             error);

  const uint64_t in_bytes = values.size() * 4, out_bytes = expected.size() * 4;
  MappedBuffer in(program, in_bytes + 8, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  MappedBuffer out(program, out_bytes + 16, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  std::memcpy(in.bytes() + 8, values.data(), in_bytes);
  options.input_buffer = {in.buffer(), 8, in_bytes};
  options.output_buffer = {out.buffer(), 16, out_bytes};
  const EncoderHandle encoder = make(options);
  const pumice_input from_buffer[pictures] = {{size}, {size}};
  std::vector<float> read(expected.size());
  const auto check_output = [&] {
    CHECK(read == expected);
    CHECK(std::memcmp(out.bytes() + 16, expected.data(), out_bytes) == 0);
    std::memset(out.bytes(), 0, out_bytes + 16);
  };
  require_ok(
      pumice_encoder_encode(encoder.get(), from_buffer, pictures, read.data(), read.size(), &count, &error),
      error);
  check_output();
  for (const bool recorded : {false, true}) {
    Frames frames(program);
    require_ok(pumice_encoder_begin(encoder.get(), from_buffer, pictures, &error), error);
    pumice_slice slice = {sizeof slice};
    do {
      if (recorded) {
        const VkCommandBuffer commands = frames.begin();
        require_ok(pumice_work_record(pumice_encoder_work(encoder.get()), commands, 50, &slice, &error),
                   error);
        frames.end(commands);
        program.submit(commands);
      } else {
        require_ok(pumice_work_advance(pumice_encoder_work(encoder.get()), 50, nullptr, &slice, &error),
                   error);
      }
      program.wait();
    } while (slice.active);
    require_ok(pumice_encoder_read(encoder.get(), read.data(), read.size(), &count, &error), error);
    check_output();
  }

  // What is not submitted is forgotten; the slices that were, before and after, change nothing.
  Frames frames(program);
  require_ok(pumice_encoder_begin(encoder.get(), from_buffer, pictures, &error), error);
  pumice_slice slice = {sizeof slice};
  for (int frame = 0; frame == 0 || slice.active; ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_work_record(pumice_encoder_work(encoder.get()), commands, 50, &slice, &error), error);
    frames.end(commands);
    if (frame == 2) {
      REQUIRE(slice.dispatches > 0);
      CHECK(pumice_encoder_begin(encoder.get(), from_buffer, pictures, &error) == PUMICE_NOT_READY);
      require_ok(pumice_work_discard(pumice_encoder_work(encoder.get()), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  require_ok(pumice_encoder_read(encoder.get(), read.data(), read.size(), &count, &error), error);
  check_output();

  const auto refused = [&](const char* name) {
    pumice_encoder* made = nullptr;
    CHECK(pumice_encoder_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
    CHECK(made == nullptr);
    INFO(error.message);
    CHECK(std::string(error.message).find(name) != std::string::npos);
  };
  options.input_buffer.bytes = in_bytes - 4;
  refused("options.input_buffer.bytes");
  options.input_buffer = {in.buffer(), 2, in_bytes};
  refused("options.input_buffer.offset");
  options.input_buffer = {in.buffer(), 8, in_bytes};
  options.output_buffer.offset = 1;
  refused("options.output_buffer.offset");
  options.output_buffer = {out.buffer(), 0, 0};
  refused("options.output_buffer.bytes");
}
