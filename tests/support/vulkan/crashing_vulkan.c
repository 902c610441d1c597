/* A Vulkan loader for tests of the command: the system's, whose devices are GPUs without buffer addresses, so
 * that a CPU driver has the kernels of GPUs, and whose compiler fails with kernels that have dot products of
 * bytes. PUMICE_TEST_COMPILER says how: "crash", "hang", "lose" or, like everything else, not at all. In
 * place of the shader whose code is that of the file PUMICE_TEST_SHADER, it compiles that of the file
 * PUMICE_TEST_WRONG_SHADER. With PUMICE_TEST_ADDRESSES, devices stay as they are. The driver's
 * version is that of PUMICE_TEST_DRIVER_VERSION, a number, if it is set. After PUMICE_TEST_SUBMISSIONS
 * submissions, if it is set, the device is lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next;
static PFN_vkGetDeviceProcAddr next_of_device;
static PFN_vkGetPhysicalDeviceFeatures2 get_features;
static PFN_vkGetPhysicalDeviceProperties get_properties;
static PFN_vkGetPhysicalDeviceProperties2 get_properties2;
static PFN_vkCreateShaderModule create_module;
static PFN_vkCreateComputePipelines create_pipelines;
static PFN_vkQueueSubmit submit;

static VkShaderModule
    dot_modules[1024]; /* never forgotten: a driver may use a handle again, which is then overwritten here */
static size_t dot_count;

static VKAPI_ATTR void VKAPI_CALL features_without_addresses(VkPhysicalDevice device,
                                                             VkPhysicalDeviceFeatures2* features) {
  get_features(device, features);
  if (getenv("PUMICE_TEST_ADDRESSES")) return;
  for (VkBaseOutStructure* each = (VkBaseOutStructure*)features; each; each = each->pNext) {
    if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
      ((VkPhysicalDeviceVulkan12Features*)each)->bufferDeviceAddress = VK_FALSE;
    }
    if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES) {
      ((VkPhysicalDeviceBufferDeviceAddressFeatures*)each)->bufferDeviceAddress = VK_FALSE;
    }
  }
}

static void make_gpu(VkPhysicalDeviceProperties* properties) {
  if (!getenv("PUMICE_TEST_ADDRESSES")) properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

static VKAPI_ATTR void VKAPI_CALL properties_of_version(VkPhysicalDevice device,
                                                        VkPhysicalDeviceProperties* properties) {
  const char* version = getenv("PUMICE_TEST_DRIVER_VERSION");
  get_properties(device, properties);
  make_gpu(properties);
  if (version) properties->driverVersion = (uint32_t)atoi(version);
}

static VKAPI_ATTR void VKAPI_CALL properties2_of_version(VkPhysicalDevice device,
                                                         VkPhysicalDeviceProperties2* properties) {
  const char* version = getenv("PUMICE_TEST_DRIVER_VERSION");
  get_properties2(device, properties);
  make_gpu(&properties->properties);
  if (version) properties->properties.driverVersion = (uint32_t)atoi(version);
  for (VkBaseOutStructure* each = (VkBaseOutStructure*)properties; each; each = each->pNext) {
    if (version && each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES) {
      VkPhysicalDeviceVulkan12Properties* driver = (VkPhysicalDeviceVulkan12Properties*)each;
      snprintf(driver->driverInfo, sizeof driver->driverInfo, "version %s", version);
    }
    if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) {
      /* GPUs without the instruction do not get these kernels. */
      ((VkPhysicalDeviceShaderIntegerDotProductProperties*)each)
          ->integerDotProduct4x8BitPackedSignedAccelerated = VK_TRUE;
    }
  }
}

/* Whether a module declares the capability DotProduct. */
static int has_dot_products(const VkShaderModuleCreateInfo* info) {
  const uint32_t capability = 2u << 16 | 17u, dot_product = 6019;
  for (size_t at = 5; at + 1 < info->codeSize / 4 && info->pCode[at] == capability; at += 2) {
    if (info->pCode[at + 1] == dot_product) return 1;
  }
  return 0;
}

struct code {
  uint32_t words[1 << 16];
  size_t bytes; /* 0: none */
};

static void read_code(const char* variable, struct code* code) {
  const char* path = getenv(variable);
  FILE* file = path ? fopen(path, "rb") : NULL;
  code->bytes = file ? fread(code->words, 1, sizeof code->words, file) : 0;
  if (file) fclose(file);
}

static VkShaderModuleCreateInfo compiled_instead(const VkShaderModuleCreateInfo* info) {
  static struct code right, wrong;
  VkShaderModuleCreateInfo result = *info;
  read_code("PUMICE_TEST_SHADER", &right);
  if (right.bytes == 0 || right.bytes != info->codeSize || memcmp(right.words, info->pCode, right.bytes))
    return result;
  read_code("PUMICE_TEST_WRONG_SHADER", &wrong);
  result.codeSize = wrong.bytes;
  result.pCode = wrong.words;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL remember_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                      const VkAllocationCallbacks* callbacks,
                                                      VkShaderModule* module) {
  const VkShaderModuleCreateInfo compiled = compiled_instead(info);
  const VkResult result = create_module(device, &compiled, callbacks, module);
  if (result != VK_SUCCESS) return result;
  for (size_t i = 0; i < dot_count; ++i) {
    if (dot_modules[i] == *module) dot_modules[i] = VK_NULL_HANDLE;
  }
  if (has_dot_products(info) && dot_count < sizeof dot_modules / sizeof *dot_modules)
    dot_modules[dot_count++] = *module;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_with_dot_products(VkDevice device, VkPipelineCache cache,
                                                             uint32_t count,
                                                             const VkComputePipelineCreateInfo* infos,
                                                             const VkAllocationCallbacks* callbacks,
                                                             VkPipeline* pipelines) {
  const char* how = getenv("PUMICE_TEST_COMPILER");
  for (size_t i = 0; how && i < dot_count; ++i) {
    if (dot_modules[i] != infos[0].stage.module) continue;
    if (!strcmp(how, "crash")) raise(SIGSEGV);
    if (!strcmp(how, "lose")) return VK_ERROR_DEVICE_LOST;
    while (!strcmp(how, "hang")) pause();
  }
  return create_pipelines(device, cache, count, infos, callbacks, pipelines);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit_until_lost(VkQueue queue, uint32_t count,
                                                        const VkSubmitInfo* infos, VkFence fence) {
  static int submissions = 0; /* from one thread at a time: a command has one that submits */
  const char* most = getenv("PUMICE_TEST_SUBMISSIONS");
  if (most && submissions++ >= atoi(most)) return VK_ERROR_DEVICE_LOST;
  return submit(queue, count, infos, fence);
}

static PFN_vkVoidFunction replace(const char* name, PFN_vkVoidFunction real);

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name) {
  return replace(name, next_of_device(device, name));
}

static PFN_vkVoidFunction replace(const char* name, PFN_vkVoidFunction real) {
  if (!real) return real;
#define REPLACE(function, place, own)                                                                        \
  if (!strcmp(name, #function)) {                                                                            \
    place = (PFN_##function)real;                                                                            \
    return (PFN_vkVoidFunction)own;                                                                          \
  }
  REPLACE(vkGetDeviceProcAddr, next_of_device, get_device_function)
  REPLACE(vkGetPhysicalDeviceFeatures2, get_features, features_without_addresses)
  REPLACE(vkGetPhysicalDeviceProperties, get_properties, properties_of_version)
  REPLACE(vkGetPhysicalDeviceProperties2, get_properties2, properties2_of_version)
  REPLACE(vkCreateShaderModule, create_module, remember_module)
  REPLACE(vkCreateComputePipelines, create_pipelines, fail_with_dot_products)
  REPLACE(vkQueueSubmit, submit, submit_until_lost)
  return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (!next) {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) next = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
    if (!next) return NULL;
  }
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)vkGetInstanceProcAddr;
  return replace(name, next(instance, name));
}
