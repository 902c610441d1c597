/* A Vulkan loader for tests of the command: the system's, whose devices are GPUs without buffer addresses, so
 * that a CPU driver has the kernels of GPUs, and whose compiler fails with kernels that have dot products of
 * bytes. PUMICE_TEST_COMPILER says how: "crash", "hang", "lose" or, like everything else, not at all. In
 * place of the shader whose code is that of the file PUMICE_TEST_SHADER, it compiles that of the file
 * PUMICE_TEST_WRONG_SHADER, or makes no pipeline of it where that is not set. With PUMICE_TEST_ADDRESSES,
 * devices stay as they are. The driver's version is that of PUMICE_TEST_DRIVER_VERSION, a number, and its
 * VkDriverId that of PUMICE_TEST_DRIVER_ID, if they are set. With PUMICE_TEST_MATRICES, devices have
 * cooperative matrices, and whoever asks for their sizes crashes, as with AMD's driver 2.0.388 for Windows.
 * After PUMICE_TEST_SUBMISSIONS submissions, if it is set, the device is lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next;
static PFN_vkGetDeviceProcAddr next_of_device;
static PFN_vkEnumerateDeviceExtensionProperties get_extensions;
static PFN_vkGetPhysicalDeviceFeatures2 get_features;
static PFN_vkGetPhysicalDeviceProperties get_properties;
static PFN_vkGetPhysicalDeviceProperties2 get_properties2;
static PFN_vkCreateShaderModule create_module;
static PFN_vkCreateComputePipelines create_pipelines;
static PFN_vkQueueSubmit submit;

/* Several threads compile. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Never forgotten: a driver may use a handle again, which is then overwritten here. */
struct modules {
  VkShaderModule all[1024];
  size_t count;
};
static struct modules dot_modules, refused_modules;

static void forget(struct modules* modules, VkShaderModule module) {
  for (size_t i = 0; i < modules->count; ++i) {
    if (modules->all[i] == module) modules->all[i] = VK_NULL_HANDLE;
  }
}

static void add(struct modules* modules, VkShaderModule module) {
  if (modules->count < sizeof modules->all / sizeof *modules->all) modules->all[modules->count++] = module;
}

static int has(const struct modules* modules, VkShaderModule module) {
  for (size_t i = 0; i < modules->count; ++i) {
    if (modules->all[i] == module) return 1;
  }
  return 0;
}

/* VkPhysicalDeviceCooperativeMatrixFeaturesKHR, which older headers lack. */
enum { matrix_features = 1000506000 };
struct matrix_features {
  VkStructureType type;
  void* next;
  VkBool32 matrices, robust;
};

static VKAPI_ATTR VkResult VKAPI_CALL extensions_with_matrices(VkPhysicalDevice device, const char* layer,
                                                               uint32_t* count,
                                                               VkExtensionProperties* answer) {
  const uint32_t room = *count;
  if (!getenv("PUMICE_TEST_MATRICES")) return get_extensions(device, layer, count, answer);
  if (answer) --*count;
  const VkResult result = get_extensions(device, layer, count, answer);
  if (answer && *count < room) strcpy(answer[*count].extensionName, "VK_KHR_cooperative_matrix");
  ++*count;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL crash_with_matrices(VkPhysicalDevice device, uint32_t* count,
                                                          void* answer) {
  (void)device;
  *count = 4;
  if (answer) raise(SIGSEGV);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL features_without_addresses(VkPhysicalDevice device,
                                                             VkPhysicalDeviceFeatures2* features) {
  get_features(device, features);
  for (VkBaseOutStructure* each = (VkBaseOutStructure*)features; each; each = each->pNext) {
    if ((int)each->sType == matrix_features && getenv("PUMICE_TEST_MATRICES"))
      ((struct matrix_features*)each)->matrices = VK_TRUE;
  }
  if (getenv("PUMICE_TEST_ADDRESSES")) return;
  for (VkBaseOutStructure* each = (VkBaseOutStructure*)features; each; each = each->pNext) {
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
  const char *version = getenv("PUMICE_TEST_DRIVER_VERSION"), *id = getenv("PUMICE_TEST_DRIVER_ID");
  get_properties2(device, properties);
  make_gpu(&properties->properties);
  if (version) properties->properties.driverVersion = (uint32_t)atoi(version);
  for (VkBaseOutStructure* each = (VkBaseOutStructure*)properties; each; each = each->pNext) {
    if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) {
      VkPhysicalDeviceDriverProperties* driver = (VkPhysicalDeviceDriverProperties*)each;
      if (version) snprintf(driver->driverInfo, sizeof driver->driverInfo, "version %s", version);
      if (id) driver->driverID = (VkDriverId)atoi(id);
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

/* Whether a shader is that of the file PUMICE_TEST_SHADER. */
static int is_test_shader(const VkShaderModuleCreateInfo* info) {
  static struct code right;
  read_code("PUMICE_TEST_SHADER", &right);
  return right.bytes > 0 && right.bytes == info->codeSize && !memcmp(right.words, info->pCode, right.bytes);
}

static VkResult make_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                            const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
  static struct code wrong;
  const int is_test = is_test_shader(info);
  VkShaderModuleCreateInfo compiled = *info;
  read_code("PUMICE_TEST_WRONG_SHADER", &wrong);
  if (is_test && wrong.bytes > 0) {
    compiled.codeSize = wrong.bytes;
    compiled.pCode = wrong.words;
  }
  const VkResult result = create_module(device, &compiled, callbacks, module);
  if (result != VK_SUCCESS) return result;
  forget(&dot_modules, *module);
  forget(&refused_modules, *module);
  if (has_dot_products(info)) add(&dot_modules, *module);
  if (is_test && wrong.bytes == 0) add(&refused_modules, *module);
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL remember_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                      const VkAllocationCallbacks* callbacks,
                                                      VkShaderModule* module) {
  pthread_mutex_lock(&mutex);
  const VkResult result = make_module(device, info, callbacks, module);
  pthread_mutex_unlock(&mutex);
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_with_some(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                     const VkComputePipelineCreateInfo* infos,
                                                     const VkAllocationCallbacks* callbacks,
                                                     VkPipeline* pipelines) {
  const char* how = getenv("PUMICE_TEST_COMPILER");
  pthread_mutex_lock(&mutex);
  const int refused = has(&refused_modules, infos[0].stage.module);
  const int has_dots = has(&dot_modules, infos[0].stage.module);
  pthread_mutex_unlock(&mutex);
  if (refused) return VK_ERROR_UNKNOWN;
  if (how && has_dots) {
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
  if (getenv("PUMICE_TEST_MATRICES") && !strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"))
    return (PFN_vkVoidFunction)crash_with_matrices; /* which older loaders do not know */
  if (!real) return real;
#define REPLACE(function, place, own)                                                                        \
  if (!strcmp(name, #function)) {                                                                            \
    place = (PFN_##function)real;                                                                            \
    return (PFN_vkVoidFunction)own;                                                                          \
  }
  REPLACE(vkGetDeviceProcAddr, next_of_device, get_device_function)
  REPLACE(vkEnumerateDeviceExtensionProperties, get_extensions, extensions_with_matrices)
  REPLACE(vkGetPhysicalDeviceFeatures2, get_features, features_without_addresses)
  REPLACE(vkGetPhysicalDeviceProperties, get_properties, properties_of_version)
  REPLACE(vkGetPhysicalDeviceProperties2, get_properties2, properties2_of_version)
  REPLACE(vkCreateShaderModule, create_module, remember_module)
  REPLACE(vkCreateComputePipelines, create_pipelines, fail_with_some)
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
