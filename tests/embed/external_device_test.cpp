// Pumice on a Vulkan device that the program renders with.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "support/application.h"
#include "support/embedding.h"
#include "support/random_model.h"
#include "support/timeline.h"

using pumice::VulkanTable;

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

// A program that owns the Vulkan device, as the public interface sees it.
class Program {
public:
  Program() : Program(usual()) {}
  explicit Program(const VkPhysicalDeviceVulkan12Features& features)
      : features_(features), application_(&features_) {}
  Program(const void* features, std::span<const char* const> extensions)
      : application_(features, extensions) {}

  static VkPhysicalDeviceVulkan12Features usual() {
    VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    v12.timelineSemaphore = v12.bufferDeviceAddress = VK_TRUE;
    return v12;
  }

  pumice_vulkan vulkan() {
    const pumice::ExternalDevice& device = application_.device();
    pumice_vulkan own = {sizeof own};
    own.get_instance_proc_addr =
        reinterpret_cast<pumice_get_instance_proc_addr>(device.get_instance_proc_addr);
    own.instance = device.instance;
    own.physical_device = device.physical_device;
    own.device = device.device;
    own.queue_family = device.queue_family;
    own.queue = device.queue;
    own.features = device.features;
    own.extensions = device.extensions.data();
    own.extension_count = static_cast<uint32_t>(device.extensions.size());
    own.lock_user = this;
    own.lock_queue = [](void* user) {
      auto& self = *static_cast<Program*>(user);
      self.queue_.lock();
      ++self.locks;
    };
    own.unlock_queue = [](void* user) { static_cast<Program*>(user)->queue_.unlock(); };
    return own;
  }
  DeviceHandle device(const pumice_allocator* allocator = nullptr) {
    const pumice_vulkan own = vulkan();
    pumice_device_options options = {sizeof options};
    options.vulkan = &own;
    options.allocator = allocator;
    return make_device(options);
  }

  const VulkanTable& vk() const { return application_.table(); }
  VkDevice handle() { return application_.device().device; }
  uint32_t family() { return application_.device().queue_family; }
  std::mutex& queue() { return queue_; }

  void submit(VkCommandBuffer commands) {
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    const std::lock_guard lock(queue_);
    REQUIRE(vk().vkQueueSubmit(application_.device().queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
  }
  void wait() {
    const std::lock_guard lock(queue_);
    REQUIRE(vk().vkQueueWaitIdle(application_.device().queue) == VK_SUCCESS);
  }

  std::atomic<int> locks = 0;

private:
  VkPhysicalDeviceVulkan12Features features_ = {};
  Application application_;
  std::mutex queue_;
};

// Command buffers of a program that has several frames in flight.
class Frames {
public:
  explicit Frames(Program& program) : program_(program) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.queueFamilyIndex = program.family();
    REQUIRE(program.vk().vkCreateCommandPool(program.handle(), &info, nullptr, &pool_) == VK_SUCCESS);
  }
  ~Frames() {
    program_.wait();
    program_.vk().vkDestroyCommandPool(program_.handle(), pool_, nullptr);
  }
  VkCommandBuffer begin() {
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    REQUIRE(program_.vk().vkAllocateCommandBuffers(program_.handle(), &allocate, &buffer) == VK_SUCCESS);
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    REQUIRE(program_.vk().vkBeginCommandBuffer(buffer, &begin) == VK_SUCCESS);
    return buffer;
  }
  void end(VkCommandBuffer buffer) { REQUIRE(program_.vk().vkEndCommandBuffer(buffer) == VK_SUCCESS); }

private:
  Program& program_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
};

SessionHandle small_session(pumice_model* model, pumice_buffer logits = {}) {
  pumice_session_options options = {sizeof options};
  options.context = 192;
  options.chunk = 16;
  options.logits = logits;
  return make_session(model, options);
}

// A buffer of the program that is mapped.
class MappedBuffer {
public:
  MappedBuffer(Program& program, uint64_t bytes, VkBufferUsageFlags usage) : program_(program) {
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
  Program& program_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
};

Story expected_story(uint32_t tokens) {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  return tell(small_session(model.get()).get(), prompt, tokens);
}

} // namespace

TEST_CASE("slices in the program's own command buffers give the same text") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(30);
  CHECK(tell(session.get(), prompt, 30) == expected);
  for (const int under_way : {1, 3, 6}) { // frames; more than four, and there is nothing to record into
    CAPTURE(under_way);
    Frames frames(program);
    begin(session.get(), prompt, 30);
    Story story;
    pumice_slice slice = {sizeof slice};
    pumice_error error;
    int frame = 0;
    do {
      const VkCommandBuffer commands = frames.begin();
      require_ok(pumice_record(session.get(), commands, 1000, &slice, &error), error);
      frames.end(commands);
      take_events(session.get(), story);
      program.submit(commands);
      if (++frame % under_way == 0) program.wait();
    } while (slice.active && frame < 5000);
    CHECK(story == expected);
    CHECK(slice.finished > 0);
    CHECK(slice.measured_us > 0);
  }
  CHECK(program.locks > 0);
}

TEST_CASE("slices that were recorded and not submitted can be discarded") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(20);
  Frames frames(program);
  begin(session.get(), prompt, 20);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  for (int frame = 0; frame == 0 || (slice.active && frame < 5000); ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_record(session.get(), commands, 1500, &slice, &error), error);
    frames.end(commands);
    take_events(session.get(), story);
    // Not so often that a step never comes to its end.
    if ((frame == 2 || frame == 31 || frame == 77) && slice.dispatches > 0) {
      CHECK(pumice_run(session.get(), &error) == PUMICE_NOT_READY);
      pumice_request anew = {sizeof anew};
      anew.text = prompt;
      CHECK(pumice_generate(session.get(), &anew, &error) == PUMICE_NOT_READY);
      require_ok(pumice_discard(session.get(), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  CHECK(story == expected);
}

TEST_CASE("all chunks of a prompt that were recorded together can be discarded") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const std::string chunks = std::string(prompt) + " " + prompt + " " + prompt; // more than can be under way
  const Story expected = tell(session.get(), chunks.c_str(), 5);
  Frames frames(program);
  tell(session.get(), "Once", 1); // in place of the prompt's keys and values
  begin(session.get(), chunks.c_str(), 5);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  for (int frame = 0; frame == 0 || (slice.active && frame < 500); ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_record(session.get(), commands, 1e6f, &slice, &error), error);
    frames.end(commands);
    take_events(session.get(), story);
    if (frame == 0) {
      require_ok(pumice_discard(session.get(), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  CHECK(story == expected);
}

TEST_CASE("logits are copied into a buffer of the program") {
  Program program;
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
      require_ok(pumice_advance(session.get(), 700, nullptr, &slice, &error), error);
      take_events(session.get(), story);
      if (story.tokens.size() > before && !slice.active) CHECK(largest() == story.tokens.back());
    }
    if (!slices) {
      require_ok(pumice_run(session.get(), &error), error);
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
  Program program;
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
  require_ok(pumice_encode(plain.get(), given, pictures, nullptr, 0, &count, &error), error);
  std::vector<float> expected(count);
  require_ok(pumice_encode(plain.get(), given, pictures, expected.data(), count, &count, &error), error);

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
  require_ok(pumice_encode(encoder.get(), from_buffer, pictures, read.data(), read.size(), &count, &error),
             error);
  check_output();
  for (const bool recorded : {false, true}) {
    Frames frames(program);
    require_ok(pumice_encode_begin(encoder.get(), from_buffer, pictures, &error), error);
    pumice_slice slice = {sizeof slice};
    do {
      if (recorded) {
        const VkCommandBuffer commands = frames.begin();
        require_ok(pumice_encode_record(encoder.get(), commands, 50, &slice, &error), error);
        frames.end(commands);
        program.submit(commands);
      } else {
        require_ok(pumice_encode_advance(encoder.get(), 50, nullptr, &slice, &error), error);
      }
      program.wait();
    } while (slice.active);
    require_ok(pumice_encode_read(encoder.get(), read.data(), read.size(), &count, &error), error);
    check_output();
  }

  // What is not submitted is forgotten; the slices that were, before and after, change nothing.
  Frames frames(program);
  require_ok(pumice_encode_begin(encoder.get(), from_buffer, pictures, &error), error);
  pumice_slice slice = {sizeof slice};
  for (int frame = 0; frame == 0 || slice.active; ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_encode_record(encoder.get(), commands, 50, &slice, &error), error);
    frames.end(commands);
    if (frame == 2) {
      REQUIRE(slice.dispatches > 0);
      CHECK(pumice_encode_begin(encoder.get(), from_buffer, pictures, &error) == PUMICE_NOT_READY);
      require_ok(pumice_encode_discard(encoder.get(), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  require_ok(pumice_encode_read(encoder.get(), read.data(), read.size(), &count, &error), error);
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

TEST_CASE("submissions wait for semaphores and signal them") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Timeline timeline(device.get());
  const Story expected = expected_story(10);
  begin(session.get(), prompt, 10);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  uint64_t value = 0;
  do {
    require_ok(timeline.advance(session.get(), 2000, value, value + 1, &slice, &error), error);
    take_events(session.get(), story);
    CHECK(timeline.reaches(++value));
  } while (slice.active);
  CHECK(story == expected);
}

TEST_CASE("semaphores are signalled when too many slices are under way for another one") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(5);
  begin(session.get(), prompt, 5);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  {
    const Timeline timeline(device.get());
    uint64_t value = 1; // for which the first one waits
    do {
      require_ok(timeline.advance(session.get(), 2000, value, value + 1, &slice, &error), error);
      ++value;
    } while (slice.dispatches > 0 && value < 20);
    CHECK(slice.dispatches == 0);
    CHECK(slice.active);
    timeline.signal(1);
    CHECK(timeline.reaches(value));
  }
  require_ok(pumice_run(session.get(), &error), error);
  take_events(session.get(), story);
  CHECK(story == expected);
}

TEST_CASE("memory comes from the program's allocator") {
  Program program;
  struct Heap {
    Program& program;
    std::atomic<uint64_t> bytes = 0, most = 0;
    std::atomic<int> maps = 0;
  } heap{program};
  pumice_allocator allocator = {sizeof allocator};
  allocator.user = &heap;
  allocator.allocate = [](void* user, const pumice_memory_request* request, pumice_memory* memory) {
    auto& own = *static_cast<Heap*>(user);
    VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                              request->device_address ? &flags : nullptr};
    const uint64_t offset = (1000 / request->alignment + 1) * request->alignment;
    info.allocationSize = request->bytes + offset;
    info.memoryTypeIndex = request->memory_type;
    VkDeviceMemory made = VK_NULL_HANDLE;
    if (own.program.vk().vkAllocateMemory(own.program.handle(), &info, nullptr, &made) != VK_SUCCESS)
      return PUMICE_OUT_OF_MEMORY;
    *memory = {made, offset, new uint64_t(request->bytes)};
    own.bytes += request->bytes;
    own.most = std::max<uint64_t>(own.most, own.bytes);
    return PUMICE_OK;
  };
  allocator.free = [](void* user, const pumice_memory* memory) {
    auto& own = *static_cast<Heap*>(user);
    own.bytes -= *static_cast<uint64_t*>(memory->handle);
    delete static_cast<uint64_t*>(memory->handle);
    own.program.vk().vkFreeMemory(own.program.handle(), memory->memory, nullptr);
  };
  allocator.map = [](void* user, const pumice_memory* memory) -> void* {
    auto& own = *static_cast<Heap*>(user);
    void* mapped = nullptr;
    if (own.program.vk().vkMapMemory(own.program.handle(), memory->memory, 0, VK_WHOLE_SIZE, 0, &mapped) !=
        VK_SUCCESS)
      return nullptr;
    ++own.maps;
    return static_cast<std::byte*>(mapped) + memory->offset;
  };
  const Story expected = expected_story(10);
  {
    const DeviceHandle device = program.device(&allocator);
    const ModelHandle model = load(device.get());
    const SessionHandle session = small_session(model.get());
    CHECK(tell(session.get(), prompt, 10) == expected);
    pumice_memory_report report = {sizeof report};
    pumice_error error;
    require_ok(pumice_device_memory(device.get(), &report, &error), error);
    CHECK(report.allocated == heap.bytes);
    CHECK(report.peak == heap.most);
    CHECK(heap.maps > 0);
  }
  CHECK(heap.bytes == 0);
}

TEST_CASE("Pumice waits for a program that holds its queue's lock") {
  Program program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  begin(session.get(), prompt, 10);
  std::atomic<bool> done = false;
  program.queue().lock();
  std::thread generation([&] {
    pumice_error error;
    CHECK(pumice_run(session.get(), &error) == PUMICE_OK);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(done);
  program.queue().unlock();
  generation.join();
  Story story;
  take_events(session.get(), story);
  CHECK(story == expected_story(10));
}

namespace {

DeviceHandle device_with_log(Program& program, std::vector<std::string>& warnings) {
  const pumice_vulkan own = program.vulkan();
  pumice_device_options options = {sizeof options};
  options.vulkan = &own;
  options.log = [](void* user, pumice_log_level level, const char* message) {
    if (level == PUMICE_LOG_WARNING) static_cast<std::vector<std::string>*>(user)->push_back(message);
  };
  options.log_user = &warnings;
  return make_device(options);
}

} // namespace

TEST_CASE("a device with only the required features works, and the log says what the others would bring") {
  VkPhysicalDeviceVulkan12Features least{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  least.timelineSemaphore = VK_TRUE; // no 16-bit storage, no float16, no buffer addresses, no subgroup sizes
  Program program(least);
  std::vector<std::string> warnings;
  const DeviceHandle device = device_with_log(program, warnings);
  const ModelHandle model = load(device.get());
  CHECK(tell(small_session(model.get()).get(), prompt, 10) == expected_story(10));

  REQUIRE_FALSE(warnings.empty());
  std::string all;
  for (const std::string& warning : warnings) {
    CHECK(warning.find('\n') == std::string::npos);
    CHECK(warning.find("not switched on") != std::string::npos);
    all += warning;
  }
  const bool cpu = all.find("bufferDeviceAddress") != std::string::npos;
  CHECK((cpu || all.find("subgroupSizeControl") != std::string::npos));
}

TEST_CASE("a device with the features that Pumice names has no warnings, whatever the program wants itself") {
  const auto instance = *pumice::Instance::create({});
  const pumice::Capabilities chosen = *instance->choose("");
  const auto lookup =
      reinterpret_cast<pumice_get_instance_proc_addr>(instance->table().vkGetInstanceProcAddr);
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.hostQueryReset = VK_TRUE;
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v12};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  pumice_error error;
  for (void* chain :
       {static_cast<void*>(nullptr), static_cast<void*>(&core), static_cast<void*>(&timeline)}) {
    pumice_features* made = nullptr;
    require_ok(pumice_features_create(lookup, instance->handle(), chosen.handle, chain, &made, &error),
               error);
    const std::unique_ptr<pumice_features, Destroy<pumice_features_destroy>> features(made);
    uint32_t count = 0;
    const char* const* names = pumice_features_extensions(made, &count);
    Program program(pumice_features_chain(made), {names, count});
    std::vector<std::string> warnings;
    const DeviceHandle device = device_with_log(program, warnings);
    CHECK(warnings.empty());
    const ModelHandle model = load(device.get());
    CHECK(tell(small_session(model.get()).get(), prompt, 10) == expected_story(10));
  }
  CHECK(v12.timelineSemaphore == VK_TRUE);
  CHECK(timeline.timelineSemaphore == VK_TRUE);
  CHECK(v12.hostQueryReset == VK_TRUE);

  pumice_features* none = nullptr;
  CHECK(pumice_features_create(lookup, instance->handle(), nullptr, nullptr, &none, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message) == "physical_device is NULL");
  CHECK(none == nullptr);
}

namespace {

PFN_vkGetInstanceProcAddr real_lookup = nullptr;

// A device whose queues only copy.
void VKAPI_CALL families_without_compute(VkPhysicalDevice, uint32_t* count,
                                         VkQueueFamilyProperties* families) {
  if (families) families[0] = {VK_QUEUE_TRANSFER_BIT, 1, 64, {1, 1, 1}};
  *count = 1;
}

pumice_function lookup_without_compute(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties") == 0) {
    return reinterpret_cast<pumice_function>(families_without_compute);
  }
  return reinterpret_cast<pumice_function>(real_lookup(instance, name));
}

} // namespace

TEST_CASE("the error names what a program's device lacks") {
  VkPhysicalDeviceVulkan12Features none{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  Program program(none);
  pumice_vulkan vulkan = program.vulkan();
  pumice_device_options options = {sizeof options};
  options.vulkan = &vulkan;
  pumice_device* device = nullptr;
  pumice_error error;
  const auto says = [&](const char* word) {
    return std::string(error.message).find(word) != std::string::npos;
  };
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_UNSUPPORTED);
  CHECK(says("timelineSemaphore"));
  real_lookup = reinterpret_cast<PFN_vkGetInstanceProcAddr>(vulkan.get_instance_proc_addr);
  vulkan.get_instance_proc_addr = lookup_without_compute;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_UNSUPPORTED);
  CHECK(says("does not run compute"));
  vulkan = program.vulkan();
  vulkan.queue = nullptr;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(says("its queue is NULL"));
  vulkan = program.vulkan();
  vulkan.unlock_queue = nullptr;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(says("lock_queue and unlock_queue, or neither"));
  CHECK(device == nullptr);
}

TEST_CASE("Pumice's own device can be used by the program") {
  const DeviceHandle device = make_device();
  pumice_vulkan vulkan = {sizeof vulkan};
  pumice_device_vulkan(device.get(), &vulkan, nullptr);
  CHECK(vulkan.instance);
  CHECK(vulkan.queue);
  VulkanTable table;
  REQUIRE(table.load_global(reinterpret_cast<PFN_vkGetInstanceProcAddr>(vulkan.get_instance_proc_addr)).ok());
  REQUIRE(table.load_instance(vulkan.instance).ok());
  REQUIRE(table.load_device(vulkan.device).ok());
  vulkan.lock_queue(vulkan.lock_user);
  CHECK(table.vkQueueWaitIdle(vulkan.queue) == VK_SUCCESS);
  vulkan.unlock_queue(vulkan.lock_user);
}
