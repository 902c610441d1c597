// Pumice on a Vulkan device that the program renders with.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "support/vulkan/vulkan_program.h"

using pumice::VulkanTable;

TEST_CASE("memory comes from the program's allocator") {
  VulkanProgram program;
  struct Heap {
    VulkanProgram& program;
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
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  begin(session.get(), prompt, 10);
  std::atomic<bool> done = false;
  program.queue().lock();
  std::thread generation([&] {
    pumice_error error;
    CHECK(pumice_session_run(session.get(), &error) == PUMICE_OK);
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

// An engine that submits on a thread of its own, a little later.
class Engine {
public:
  explicit Engine(VulkanProgram& program) : program_(program), thread_([this] { run(); }) {}
  ~Engine() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  pumice_vulkan vulkan() {
    pumice_vulkan own = program_.vulkan();
    own.queue = VK_NULL_HANDLE;
    own.lock_user = nullptr;
    own.lock_queue = own.unlock_queue = nullptr;
    own.submit_user = this;
    own.submit = [](void* user, const pumice_submission* submission) {
      return static_cast<Engine*>(user)->take(*submission);
    };
    return own;
  }

  std::atomic<int> submitted = 0;
  std::atomic<bool> refuses = false;

private:
  struct Copy {
    std::vector<VkCommandBuffer> commands;
    std::vector<VkSemaphore> wait, signal;
    std::vector<uint64_t> wait_values, signal_values;
  };

  pumice_status take(const pumice_submission& submission) {
    if (refuses) return PUMICE_OUT_OF_MEMORY;
    CHECK(submission.struct_size == sizeof submission);
    CHECK(submission.queue_family == program_.family());
    const auto copy = [](const auto* from, uint32_t count) { return std::vector(from, from + count); };
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({copy(submission.command_buffers, submission.command_buffer_count),
                          copy(submission.wait, submission.wait_count),
                          copy(submission.signal, submission.signal_count),
                          copy(submission.wait_values, submission.wait_count),
                          copy(submission.signal_values, submission.signal_count)});
    }
    changed_.notify_all();
    return PUMICE_OK;
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Copy next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      submit(next);
      ++submitted;
    }
  }
  void submit(const Copy& next) {
    const std::vector<VkPipelineStageFlags> stages(next.wait.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = static_cast<uint32_t>(next.wait.size());
    values.pWaitSemaphoreValues = next.wait_values.data();
    values.signalSemaphoreValueCount = static_cast<uint32_t>(next.signal.size());
    values.pSignalSemaphoreValues = next.signal_values.data();
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    info.waitSemaphoreCount = values.waitSemaphoreValueCount;
    info.pWaitSemaphores = next.wait.data();
    info.pWaitDstStageMask = stages.data();
    info.commandBufferCount = static_cast<uint32_t>(next.commands.size());
    info.pCommandBuffers = next.commands.data();
    info.signalSemaphoreCount = values.signalSemaphoreValueCount;
    info.pSignalSemaphores = next.signal.data();
    program_.submit(info);
  }

  VulkanProgram& program_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace

TEST_CASE("an engine that lends nobody its queue submits what Pumice hands over, later") {
  VulkanProgram program;
  Engine engine(program);
  for (const uint32_t copies : {0u, 1u}) {
    pumice_vulkan own = engine.vulkan();
    own.has_copy_queue = copies;
    own.copy_queue_family = own.queue_family;
    pumice_device_options options = {sizeof options};
    options.vulkan = &own;
    const DeviceHandle device = make_device(options);
    const ModelHandle model = load(device.get());
    const SessionHandle session = small_session(model.get());
    const Story expected = expected_story(20);
    CHECK(tell(session.get(), prompt, 20) == expected);

    begin(session.get(), prompt, 20);
    Story story;
    pumice_slice slice = {sizeof slice};
    pumice_error error;
    do {
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 1000, nullptr, &slice, &error),
                 error);
      take_events(session.get(), story);
    } while (slice.active);
    CHECK(story == expected);

    const int before = engine.submitted;
    CHECK(before > 0);
    engine.refuses = true;
    begin(session.get(), prompt, 5);
    CHECK(pumice_session_run(session.get(), &error) == PUMICE_OUT_OF_MEMORY);
    CHECK_MESSAGE(std::string(error.message).find("the application did not submit") == 0, error.message);
    CHECK(engine.submitted == before);
    engine.refuses = false;
    CHECK(tell(session.get(), prompt, 20) == expected);
  }
  CHECK(program.locks == 0);

  pumice_vulkan both = engine.vulkan();
  both.lock_queue = both.unlock_queue = [](void*) {};
  pumice_device_options options = {sizeof options};
  options.vulkan = &both;
  pumice_device* device = nullptr;
  pumice_error error;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT);
  both = engine.vulkan();
  both.submit = nullptr;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT); // and no queue
  both = program.vulkan();
  both.has_copy_queue = 1;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT); // which is NULL
  both.has_copy_queue = 2;
  CHECK(pumice_device_create(&options, &device, &error) == PUMICE_INVALID_ARGUMENT);
}

namespace {

DeviceHandle device_with_log(VulkanProgram& program, std::vector<std::string>& warnings) {
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
  VulkanProgram program(least);
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
    VulkanProgram program(pumice_features_chain(made), {names, count});
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

PFN_vkCreateInstance real_create_instance = nullptr;

VkResult VKAPI_CALL create_old_instance(const VkInstanceCreateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkInstance* instance) {
  VkApplicationInfo application = *info->pApplicationInfo;
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo old = *info;
  old.pApplicationInfo = &application;
  return real_create_instance(&old, callbacks, instance);
}

} // namespace

TEST_CASE("a device whose instance was made for Vulkan 1.1 works with the extensions that Pumice names") {
  pumice::VulkanTable table;
  REQUIRE(table.load_global(*pumice::open_vulkan_loader()).ok());
  real_create_instance = std::exchange(table.vkCreateInstance, create_old_instance);
  pumice::InstanceOptions options;
  options.table = table;
  const auto instance = *pumice::Instance::create(options);
  const auto lookup = reinterpret_cast<pumice_get_instance_proc_addr>(table.vkGetInstanceProcAddr);
  pumice_features* made = nullptr;
  pumice_error error;
  require_ok(pumice_features_create(lookup, instance->handle(), instance->choose("")->handle, nullptr, &made,
                                    &error),
             error);
  const std::unique_ptr<pumice_features, Destroy<pumice_features_destroy>> features(made);
  uint32_t count = 0;
  const char* const* names = pumice_features_extensions(made, &count);
  {
    VulkanProgram program(pumice_features_chain(made), {names, count}, table);
    const bool offered = program.vk().vkGetDeviceProcAddr(program.handle(), "vkWaitSemaphores") != nullptr;
    REQUIRE_FALSE(offered);
    std::vector<std::string> warnings;
    const DeviceHandle device = device_with_log(program, warnings);
    for (const std::string& each : warnings) CHECK(each.find("Vulkan 1.1") != std::string::npos); // of CPUs
    const ModelHandle model = load(device.get());
    CHECK(tell(small_session(model.get()).get(), prompt, 10) == expected_story(10));
  }
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  timeline.timelineSemaphore = VK_TRUE;
  const char* const only = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
  VulkanProgram program(&timeline, {&only, 1}, table);
  pumice_device* refused = nullptr;
  const pumice_vulkan own = program.vulkan();
  pumice_device_options device_options = {sizeof device_options};
  device_options.vulkan = &own;
  CHECK(pumice_device_create(&device_options, &refused, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("VK_KHR_spirv_1_4") != std::string::npos);
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
  VulkanProgram program(none);
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

namespace {

// A picture that the program's renderer has made, in a layout of its choice.
class Rendered {
public:
  Rendered(VulkanProgram& program, VkFormat format, uint32_t width, uint32_t height) : program_(program) {
    const auto function = [&](const char* name) {
      return program.vk().vkGetInstanceProcAddr(program.vulkan().instance, name);
    };
    const auto create = reinterpret_cast<PFN_vkCreateImage>(function("vkCreateImage"));
    const auto needs =
        reinterpret_cast<PFN_vkGetImageMemoryRequirements>(function("vkGetImageMemoryRequirements"));
    const auto bind = reinterpret_cast<PFN_vkBindImageMemory>(function("vkBindImageMemory"));
    const auto layout =
        reinterpret_cast<PFN_vkGetImageSubresourceLayout>(function("vkGetImageSubresourceLayout"));
    destroy_ = reinterpret_cast<PFN_vkDestroyImage>(function("vkDestroyImage"));
    VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent = {width, height, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_LINEAR; // so that the test can write it
    info.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    info.initialLayout = VK_IMAGE_LAYOUT_PREINITIALIZED;
    REQUIRE(create(program.handle(), &info, nullptr, &image_) == VK_SUCCESS);
    VkMemoryRequirements memory;
    needs(program.handle(), image_, &memory);
    VkPhysicalDeviceMemoryProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    program.vk().vkGetPhysicalDeviceMemoryProperties2(program.vulkan().physical_device, &all);
    const VkPhysicalDeviceMemoryProperties& types = all.memoryProperties;
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocate.allocationSize = memory.size;
    constexpr VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    while (!(memory.memoryTypeBits >> allocate.memoryTypeIndex & 1) ||
           (types.memoryTypes[allocate.memoryTypeIndex].propertyFlags & wanted) != wanted)
      REQUIRE(++allocate.memoryTypeIndex < types.memoryTypeCount);
    REQUIRE(program.vk().vkAllocateMemory(program.handle(), &allocate, nullptr, &memory_) == VK_SUCCESS);
    REQUIRE(bind(program.handle(), image_, memory_, 0) == VK_SUCCESS);
    void* mapped = nullptr;
    REQUIRE(program.vk().vkMapMemory(program.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped) == VK_SUCCESS);
    const VkImageSubresource part = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    VkSubresourceLayout rows;
    layout(program.handle(), image_, &part, &rows);
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t i = 0; i < width * 4; ++i)
        static_cast<uint8_t*>(mapped)[rows.offset + y * rows.rowPitch + i] = byte_at(i / 4, y, i % 4);
    }
  }
  ~Rendered() {
    program_.wait();
    destroy_(program_.handle(), image_, nullptr);
    program_.vk().vkFreeMemory(program_.handle(), memory_, nullptr);
  }

  static uint8_t byte_at(uint32_t x, uint32_t y, uint32_t i) {
    return static_cast<uint8_t>(x * 7 + y * 31 + i * 101);
  }
  VkImage image() const { return image_; }
  void change_layout(VkCommandBuffer commands, VkImageLayout to) {
    VkImageMemoryBarrier barrier{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_HOST_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT;
    barrier.oldLayout = VK_IMAGE_LAYOUT_PREINITIALIZED;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image_;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    program_.vk().vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_HOST_BIT,
                                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr, 0, nullptr, 1,
                                       &barrier);
  }

private:
  VulkanProgram& program_;
  VkImage image_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  PFN_vkDestroyImage destroy_ = nullptr;
};

} // namespace

TEST_CASE("a picture of the program's renderer is copied to the host in its own command buffer") {
  VulkanProgram program;
  Frames frames(program);
  const DeviceHandle device = program.device();
  pumice_error error;
  pumice_picture_copy* copy = nullptr;
  require_ok(pumice_picture_copy_create(device.get(), 33, 20, &copy, &error), error);
  pumice_picture picture = {sizeof picture};
  CHECK(pumice_picture_copy_picture(copy, &picture, &error) == PUMICE_NOT_READY);
  for (const VkFormat format : {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_B8G8R8A8_SRGB}) {
    Rendered rendered(program, format, 33, 20);
    pumice_vulkan_image image = {sizeof image};
    image.image = rendered.image();
    image.format = format;
    image.layout = VK_IMAGE_LAYOUT_GENERAL;
    image.x = 2;
    image.y = 3;
    image.width = 31;
    image.height = 17;
    const VkCommandBuffer commands = frames.begin();
    rendered.change_layout(commands, VK_IMAGE_LAYOUT_GENERAL);
    require_ok(pumice_picture_copy_record(copy, &image, commands, &error), error);
    frames.end(commands);
    program.submit(commands);
    program.wait();
    require_ok(pumice_picture_copy_picture(copy, &picture, &error), error);
    CHECK(picture.width == 31);
    CHECK(picture.height == 17);
    CHECK(picture.order == (format == VK_FORMAT_R8G8B8A8_UNORM ? PUMICE_PIXELS_RGBA : PUMICE_PIXELS_BGRA));
    size_t wrong = 0;
    for (uint32_t y = 0; y < 17; ++y) {
      for (uint32_t x = 0; x < 31; ++x) {
        for (uint32_t i = 0; i < 4; ++i)
          wrong += picture.pixels[(y * 31 + x) * 4 + i] != Rendered::byte_at(x + 2, y + 3, i);
      }
    }
    CHECK(wrong == 0);
    const auto refused = [&](auto change, pumice_status status, const char* says) {
      pumice_vulkan_image other = image;
      change(other);
      CHECK(pumice_picture_copy_record(copy, &other, commands, &error) == status);
      CHECK(std::string(error.message).find(says) != std::string::npos);
    };
    refused([](auto& each) { each.format = VK_FORMAT_R5G6B5_UNORM_PACK16; }, PUMICE_UNSUPPORTED,
            "image->format");
    refused([](auto& each) { each.width = 34; }, PUMICE_INVALID_ARGUMENT, "34 x 17");
    refused([](auto& each) { each.height = 0; }, PUMICE_INVALID_ARGUMENT, "31 x 0");
    refused([](auto& each) { each.layout = VK_IMAGE_LAYOUT_UNDEFINED; }, PUMICE_INVALID_ARGUMENT,
            "image->layout");
    refused([](auto& each) { each.image = VK_NULL_HANDLE; }, PUMICE_INVALID_ARGUMENT, "image->image");
  }
  pumice_picture_copy_destroy(copy);
  pumice_picture_copy* none = nullptr;
  CHECK(pumice_picture_copy_create(device.get(), 0, 20, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_picture_copy_picture(copy, &picture, &error) == PUMICE_INVALID_ARGUMENT); // it was destroyed
}
