/* Pumice: transformer models on any Vulkan 1.2 device, inside your program.
 *
 * The whole interface, in C. pumice.hpp is the same as C++ classes. In five steps:
 *
 *   pumice_device_create   a device of Pumice's own, or the one that your program renders with
 *   pumice_model_load      weights onto the device; or pumice_load_start, while your program goes on
 *   pumice_session_create  memory for one conversation
 *   pumice_generate        a prompt, and how to go on from it
 *   pumice_run             to the end; or, in a program that has frames to draw, a slice at a time:
 *                          pumice_advance (Pumice submits) or pumice_record (into your command buffer)
 *
 * Structures. Every structure that is handed in begins with its size and takes zero for "the default":
 *     pumice_session_options options = {.struct_size = sizeof options};
 *     options.context = 512;
 * so that a program compiled against an older header of the same major version goes on working.
 *
 * Errors. What can fail returns a pumice_status and, where the last parameter is not NULL, writes a sentence
 * to it. After a failure everything is as it was before the call unless a function says otherwise. Nothing is
 * thrown, printed, aborted or exited, and no environment variable is read, by Pumice itself; Vulkan's loader
 * and drivers are not Pumice.
 *
 * Ownership. What *_create, *_load and *_finish hand out is the caller's, until the *_destroy of its kind;
 * NULL may be destroyed. A session keeps its model alive, and a model its device: they may be destroyed in
 * any order. Strings and arrays that are handed in are copied or used before the call returns, unless a field
 * says otherwise.
 *
 * Threads. Devices and models may be used from any number of threads. A session, an encoder or a translator
 * is used by one thread at a time; different ones by different threads at the same time. The *_cancel
 * functions may be called from any thread at any time until the *_destroy of their object begins. Pumice has
 * no thread of its own unless it is asked for: pumice_load_start, and pumice_load_options.threads.
 *
 * Text is UTF-8. Times are microseconds, sizes are bytes, of memory on the device unless a field says
 * otherwise. */
#ifndef PUMICE_H
#define PUMICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Semantic versions: within a major version, programs and libraries fit as long as the library is not the
 * older one. */
#define PUMICE_VERSION_MAJOR 1
#define PUMICE_VERSION_MINOR 0
#define PUMICE_VERSION_PATCH 0

#if defined(_WIN32) && defined(PUMICE_SHARED)
#ifdef PUMICE_BUILDING
#define PUMICE_API __declspec(dllexport)
#else
#define PUMICE_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define PUMICE_API __attribute__((visibility("default")))
#else
#define PUMICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Vulkan's handles, as <vulkan/vulkan.h> declares them; it is not needed, and may come before or after
 * this ---- */

#ifndef VULKAN_CORE_H_
typedef struct VkInstance_T* VkInstance;
typedef struct VkPhysicalDevice_T* VkPhysicalDevice;
typedef struct VkDevice_T* VkDevice;
typedef struct VkQueue_T* VkQueue;
typedef struct VkCommandBuffer_T* VkCommandBuffer;
#if UINTPTR_MAX > 0xffffffff
typedef struct VkBuffer_T* VkBuffer;
typedef struct VkDeviceMemory_T* VkDeviceMemory;
typedef struct VkSemaphore_T* VkSemaphore;
#else
typedef uint64_t VkBuffer;
typedef uint64_t VkDeviceMemory;
typedef uint64_t VkSemaphore;
#endif
#endif

typedef void (*pumice_function)(void);
/* vkGetInstanceProcAddr: PFN_vkGetInstanceProcAddr, but for the calling convention of 32-bit Windows. */
typedef pumice_function (*pumice_get_instance_proc_addr)(VkInstance instance, const char* name);

/* ---- versions, errors ---- */

/* The version of the library that is running: major, minor and patch, each where it is not NULL. */
PUMICE_API void pumice_version(int* major, int* minor, int* patch);

typedef enum pumice_status {
  PUMICE_OK = 0,
  PUMICE_INVALID_ARGUMENT = 1, /* the caller asked for something that makes no sense */
  PUMICE_NOT_FOUND = 2,        /* a file, device or name that is not there */
  PUMICE_INVALID_FILE = 3,     /* a file that is damaged, or not what it says it is */
  PUMICE_UNSUPPORTED = 4,      /* well formed, but this build or device cannot do it */
  PUMICE_OUT_OF_MEMORY = 5,    /* the host's or the device's, or over a limit that was set */
  PUMICE_DEVICE_LOST = 6,      /* load the model on a new device, and go on with pumice_session_resume */
  PUMICE_CANCELLED = 7,        /* as it was asked to be */
  PUMICE_IO = 8,               /* the operating system, or a read callback, refused a read or a write */
  PUMICE_INTERNAL = 9,         /* a defect in Pumice or in a driver */
  PUMICE_NOT_READY = 10        /* something must happen first: the sentence says what */
} pumice_status;

/* The name of a status, "out of memory"; never NULL. */
PUMICE_API const char* pumice_status_name(pumice_status status);

typedef struct pumice_error {
  pumice_status status;
  char message[1020]; /* one sentence, and where several things were tried, a line for each; cut to fit,
                         always ended */
} pumice_error;

typedef enum pumice_log_level { PUMICE_LOG_INFO = 0, PUMICE_LOG_WARNING = 1 } pumice_log_level;

/* `message` is good until the callback returns. May be called from any thread that calls Pumice, or Vulkan.
 */
typedef void (*pumice_log_function)(void* user, pumice_log_level level, const char* message);

/* ---- devices ---- */

typedef struct pumice_device pumice_device;

/* A Vulkan device that your program made and goes on owning. All of it outlives everything that is made from
 * the device. */
typedef struct pumice_vulkan {
  pumice_get_instance_proc_addr get_instance_proc_addr; /* of the loader that made the instance; needed */
  VkInstance instance;                                  /* made for Vulkan 1.2 or newer */
  VkPhysicalDevice physical_device;
  VkDevice device;
  uint32_t queue_family; /* that the queue is of; it has to run compute shaders */
  VkQueue queue;
  /* VkDeviceCreateInfo's pNext and its extensions, as the device was made with them: what is not among them
   * is not used, whatever the hardware has. timelineSemaphore is needed. bufferDeviceAddress,
   * subgroupSizeControl with computeFullSubgroups, shaderIntegerDotProduct, and cooperative matrices with
   * vulkanMemoryModel and shaderFloat16, make kernels faster where there are any. */
  const void* features;
  const char* const* extensions;
  uint32_t extension_count;
  /* Called around every use of the queue, by the thread that uses it; both or neither. They may be called
   * while your program holds other locks of its own, but not from within themselves. */
  void* lock_user;
  void (*lock_queue)(void* lock_user);
  void (*unlock_queue)(void* lock_user);
} pumice_vulkan;

/* Device memory, as your program hands it to Pumice. */
typedef struct pumice_memory {
  VkDeviceMemory memory;
  uint64_t offset; /* where the range begins in it */
  void* handle;    /* your own, for free and map; NULL will do */
} pumice_memory;

typedef struct pumice_memory_request {
  uint64_t bytes;
  uint64_t alignment;        /* of the offset */
  uint32_t memory_type_bits; /* the memory types that will do */
  uint32_t memory_type;      /* the one of them that Pumice would take */
  bool host_visible;   /* the memory type has to be host-visible and host-coherent, and will be mapped */
  bool device_address; /* VkMemoryAllocateFlagsInfo: VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT */
} pumice_memory_request;

/* Where memory comes from, in place of vkAllocateMemory. Called from any thread that calls Pumice, and from
 * several at a time. */
typedef struct pumice_allocator {
  void* user;
  /* Fills `memory`. PUMICE_OUT_OF_MEMORY, or another failure, is passed on to the caller. */
  pumice_status (*allocate)(void* user, const pumice_memory_request* request, pumice_memory* memory);
  void (*free)(void* user, const pumice_memory* memory);
  /* Where the host sees the range's first byte, until it is freed; NULL: it cannot be mapped. */
  void* (*map)(void* user, const pumice_memory* memory);
} pumice_allocator;

typedef enum pumice_priority {
  PUMICE_PRIORITY_DEFAULT = 0,
  PUMICE_PRIORITY_LOW = 1,
  PUMICE_PRIORITY_MEDIUM = 2,
  PUMICE_PRIORITY_HIGH = 3,
  PUMICE_PRIORITY_REALTIME = 4
} pumice_priority;

typedef struct pumice_device_options {
  size_t struct_size; /* sizeof(pumice_device_options) */
  /* Your program's device; NULL: one of Pumice's own, for which the next fields are. Used during the call
   * alone. */
  const pumice_vulkan* vulkan;
  const char* device; /* its index, a part of its name, or its UUID; NULL: the best one */
  pumice_get_instance_proc_addr get_instance_proc_addr; /* NULL: of the machine's Vulkan loader */
  float queue_priority; /* 0 to 1, beside other queues of the same device; 0: 1 */
  pumice_priority
      global_priority; /* beside other programs; left out, with a line in the log, where a driver has none */
  bool validate;       /* Vulkan's validation layers, whose messages go to the log */
  /* Of either kind. */
  const pumice_allocator* allocator; /* copied; NULL: vkAllocateMemory */
  uint64_t
      memory_limit; /* most bytes to be allocated at a time; beyond it, PUMICE_OUT_OF_MEMORY; 0: no limit */
  const char* cache_folder; /* compiled kernels and measurements are kept there between runs; NULL: nowhere */
  pumice_log_function log;  /* NULL: nothing is said */
  void* log_user;
} pumice_device_options;

PUMICE_API pumice_status pumice_device_create(const pumice_device_options* options, pumice_device** device,
                                              pumice_error* error);
PUMICE_API void pumice_device_destroy(pumice_device* device);

/* The handles of a device, Pumice's own or your program's, to make semaphores and buffers with. `features`
 * and `extensions` are NULL. The lock functions are those to be held around uses of the queue outside of
 * Pumice. Good until the device and all that was made from it is destroyed. */
PUMICE_API void pumice_device_vulkan(const pumice_device* device, pumice_vulkan* vulkan);

/* "llvmpipe (LLVM 15.0.6, 256 bits)"; good as long as the device. */
PUMICE_API const char* pumice_device_name(const pumice_device* device);

typedef struct pumice_memory_report {
  size_t struct_size;
  uint64_t allocated; /* by Pumice, now */
  uint64_t peak;      /* the most there has been */
  uint64_t limit;     /* that was set; 0: none */
  uint64_t heap;      /* of the device's largest heap */
  uint64_t available; /* what may still be allocated: what the driver says (VK_EXT_memory_budget), as far as
                         the heap's size bears it out, else the heap less what Pumice has; and no more than
                         the limit leaves */
} pumice_memory_report;

PUMICE_API pumice_status pumice_device_memory(const pumice_device* device, pumice_memory_report* report,
                                              pumice_error* error);

/* ---- models ---- */

typedef struct pumice_model pumice_model;

/* Where a model is: one of a path, memory, or a callback. What begins with "GGUF" is that; a path may also be
 * a Hugging Face folder. */
typedef struct pumice_source {
  size_t struct_size;
  const char* path;
  uint64_t offset;    /* of the model in the file at `path`, which is then a GGUF in a packed file */
  uint64_t bytes;     /* of the model; 0, with a path: to the file's end */
  const void* memory; /* `bytes` of it, aligned to 32, which outlive the model */
  /* Reads `count` bytes from `at` (counted from the model's begin) to `to`: true, or false for PUMICE_IO.
   * Called by the thread that loads, and no more once the model is loaded or has failed to. The model's bytes
   * are kept in the host's memory while it loads, and what is not weights after it. */
  bool (*read)(void* user, uint64_t at, void* to, size_t count);
  void* user;
  const char* name; /* for messages, of memory or a callback; NULL: "model" */
} pumice_source;

typedef struct pumice_load_options {
  size_t struct_size;
  /* Called now and then with bytes on the device and all bytes, by the thread that loads. False:
   * PUMICE_CANCELLED, within one submission to the device. NULL: not. */
  bool (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
  uint32_t threads; /* that pack weights and compile kernels, the calling one among them; 0: it alone */
  const char*
      quantize; /* what weights of 16 or 32 bits become: "Q8_0", "Q4_0", "Q4_K" ...; NULL: they stay */
} pumice_load_options;

/* Loads a model. On any failure, what was allocated has been given back. */
PUMICE_API pumice_status pumice_model_load(pumice_device* device, const pumice_source* source,
                                           const pumice_load_options* options, pumice_model** model,
                                           pumice_error* error);
PUMICE_API void pumice_model_destroy(pumice_model* model);

/* A load on a thread of its own. */
typedef struct pumice_load pumice_load;

/* Starts loading. What `source` points to lasts until the load is destroyed; options->progress is called from
 * the thread. */
PUMICE_API pumice_status pumice_load_start(pumice_device* device, const pumice_source* source,
                                           const pumice_load_options* options, pumice_load** load,
                                           pumice_error* error);
/* Whether it has ended, well or not, and how far it is; `done` and `total` may be NULL. Never waits. */
PUMICE_API bool pumice_load_poll(pumice_load* load, uint64_t* done, uint64_t* total);
/* Asks it to stop, from any thread; pumice_load_finish then says PUMICE_CANCELLED. */
PUMICE_API void pumice_load_cancel(pumice_load* load);
/* Waits for the end, and hands out the model once; called again, PUMICE_INVALID_ARGUMENT. */
PUMICE_API pumice_status pumice_load_finish(pumice_load* load, pumice_model** model, pumice_error* error);
/* Cancels what has not ended, and waits for it. */
PUMICE_API void pumice_load_destroy(pumice_load* load);

typedef struct pumice_model_info {
  size_t struct_size;
  const char* architecture; /* "llama"; good as long as the model */
  bool has_decoder;         /* pumice_session_create, or with an encoder pumice_translator_create */
  bool has_encoder;         /* pumice_encoder_create */
  bool has_tokenizer;       /* else text cannot be handed in, only tokens */
  uint32_t vocabulary;      /* tokens that there are */
  uint32_t context;         /* most positions of a sequence */
  uint32_t input_context;   /* most tokens of an encoder's input */
  uint32_t input_values;    /* floats of an encoder's picture or sound; 0: it reads tokens */
  uint64_t weight_bytes;    /* on the device */
} pumice_model_info;

PUMICE_API pumice_status pumice_model_get_info(const pumice_model* model, pumice_model_info* info,
                                               pumice_error* error);

/* The tokens of a text. Writes as many as `capacity` holds to `tokens` and how many there are to `count`;
 * more than fit is no failure. With `add_special`, with those that the vocabulary puts around a text.
 * `tokens` may be NULL where capacity is 0. */
PUMICE_API pumice_status pumice_tokenize(const pumice_model* model, const char* text, bool add_special,
                                         uint32_t* tokens, size_t capacity, size_t* count,
                                         pumice_error* error);
/* The text of tokens, without special ones, ended by a zero that `count` does not count; as above, cut where
 * it does not fit. */
PUMICE_API pumice_status pumice_detokenize(const pumice_model* model, const uint32_t* tokens,
                                           size_t token_count, char* text, size_t capacity, size_t* count,
                                           pumice_error* error);

/* ---- sessions: a conversation with a decoder ---- */

typedef struct pumice_session pumice_session;

typedef enum pumice_cache_type {
  PUMICE_CACHE_F16 = 0,
  PUMICE_CACHE_F32 = 1,
  PUMICE_CACHE_Q8_0 = 2
} pumice_cache_type;

typedef enum pumice_event_type {
  PUMICE_EVENT_TOKEN = 1, /* a token; `text` may be empty, where a character is not whole yet */
  PUMICE_EVENT_END = 2 /* the text is complete; `finish_reason` says why, and `text` has what was held back */
} pumice_event_type;

typedef enum pumice_finish_reason {
  PUMICE_FINISH_NONE = 0,
  PUMICE_FINISH_STOP = 1,     /* a token that ends a text; it comes as no event of its own */
  PUMICE_FINISH_LENGTH = 2,   /* as many tokens as were asked for */
  PUMICE_FINISH_CONTEXT = 3,  /* the session has no more room */
  PUMICE_FINISH_CANCELLED = 4 /* pumice_session_cancel */
} pumice_finish_reason;

typedef struct pumice_event {
  pumice_event_type type;
  uint32_t token;    /* of PUMICE_EVENT_TOKEN */
  uint32_t position; /* of the token in the conversation, from 0 */
  pumice_finish_reason finish_reason;
  const char* text; /* what the token adds to the text, never NULL; good until the callback returns, or until
                       the next call with this session */
} pumice_event;

/* Called by the thread that is in pumice_run, pumice_advance or pumice_record. It may call
 * pumice_session_cancel, and no other function with this session. */
typedef void (*pumice_event_function)(void* user, const pumice_event* event);

/* A part of a buffer of your program's, made with TRANSFER_SRC (an input) or TRANSFER_DST (an output) usage
 * on the same VkDevice, used by the queue that Pumice uses, and outliving what it is given to. */
typedef struct pumice_buffer {
  VkBuffer buffer;
  uint64_t offset; /* a multiple of 4 */
  uint64_t bytes;
} pumice_buffer;

typedef struct pumice_session_options {
  size_t struct_size;
  uint32_t context; /* most positions of the conversation; 0: the model's own */
  /* Most tokens of a prompt that are computed together; 0: 128. Fewer make each launch shorter, which is what
   * a small time budget needs, and reading a prompt slower. */
  uint32_t chunk;
  pumice_cache_type cache;
  pumice_event_function on_event; /* NULL: events wait to be fetched by pumice_poll */
  void* user;
  /* Runs each kind of step a few times while the session is created, which takes some tenths of a second:
   * then the first slices keep to their budgets too. False: what steps cost is learned on the way. */
  bool warm_up;
  pumice_buffer
      logits; /* f32[vocabulary] of the step that the last token came from are copied there; no buffer: not */
} pumice_session_options;

/* What a session takes, before anything is allocated. All of it is on the device; in the host's memory are
 * some KiB. */
typedef struct pumice_memory_estimate {
  size_t struct_size;
  uint64_t weights;         /* of the model, once for all its sessions */
  uint64_t cache;           /* keys and values of a session */
  uint64_t scratch;         /* what a session's steps need */
  uint64_t loading;         /* more than `cache` and `scratch`, while the model is loaded, and given back */
  uint64_t peak;            /* the most there will be at a time, of a model with one session */
  bool fits;                /* peak is at most what pumice_device_memory calls available */
  uint32_t longest_context; /* most positions with which it would fit; 0: not with any */
} pumice_memory_estimate;

/* Reads a model's header, and says what it and one session with these options (NULL: the defaults) will take
 * on this device. */
PUMICE_API pumice_status pumice_estimate_memory(pumice_device* device, const pumice_source* source,
                                                const pumice_load_options* load,
                                                const pumice_session_options* options,
                                                pumice_memory_estimate* plan, pumice_error* error);

PUMICE_API pumice_status pumice_session_create(pumice_model* model, const pumice_session_options* options,
                                               pumice_session** session, pumice_error* error);
/* Waits for what Pumice has submitted. Command buffers that slices were recorded into must not be submitted
 * any more, and those that were must have finished. */
PUMICE_API void pumice_session_destroy(pumice_session* session);

/* How tokens are chosen; zero everywhere takes the most probable one. Applied in this order; see also
 * README.md. */
typedef struct pumice_sampling {
  size_t struct_size;
  float temperature;       /* logits are divided by it; 0: the largest one is taken */
  uint32_t top_k;          /* keeps the k most probable; 0: all */
  float typical_p;         /* keeps the most typical ones of so much probability; 0: all */
  float top_p;             /* keeps the most probable ones of so much probability; 0: all */
  float min_p;             /* keeps what is at least so probable beside the most probable one; 0: all */
  float repeat_penalty;    /* tokens among the last `repeat_window` are so much less probable; 0: 1, not */
  float frequency_penalty; /* taken from a logit for each time that its token occurs there */
  float presence_penalty;  /* taken from it once */
  uint32_t repeat_window;  /* 0: 64 */
  uint64_t seed;           /* the same seed, prompt and device give the same text */
  const uint32_t* stop_tokens;   /* end the text, beside those that the model names */
  size_t stop_token_count;       /* at most 16 */
  const uint32_t* banned_tokens; /* never come */
  size_t banned_token_count;     /* at most 64 */
} pumice_sampling;

typedef struct pumice_request {
  size_t struct_size;
  const char* text;       /* added to the conversation; with special tokens where it is the first of it */
  const uint32_t* tokens; /* added after the text */
  size_t token_count;
  bool anew;           /* in place of the whole conversation; what both begin with is not computed again */
  uint32_t max_tokens; /* most to be generated; 0: as many as fit */
  bool ignore_end;     /* go on after the model's own end tokens */
  const pumice_sampling* sampling; /* NULL: the most probable token each time */
} pumice_request;

/* Begins to generate: takes the request, computes nothing. What was being generated ends where it is. An
 * empty request goes on with the conversation. PUMICE_NOT_READY while a recorded slice has not finished. */
PUMICE_API pumice_status pumice_generate(pumice_session* session, const pumice_request* request,
                                         pumice_error* error);

/* Reads the prompt and generates to the end. PUMICE_CANCELLED after pumice_session_cancel. */
PUMICE_API pumice_status pumice_run(pumice_session* session, pumice_error* error);

/* The next event that waits, if there is one. Never waits for the device. Of a session without on_event. */
PUMICE_API bool pumice_poll(pumice_session* session, pumice_event* event);

/* What a slice was. Times are of the device. */
typedef struct pumice_slice {
  size_t struct_size;
  bool active;         /* there is more to do: call again */
  uint32_t dispatches; /* in this slice; 0: nothing was submitted or recorded */
  float expected_us;   /* what this slice is expected to take */
  float largest_us; /* what the largest single dispatch of the current step is expected to take: a slice holds
                       at least one dispatch, so this is by how much it may pass its budget */
  uint64_t finished;  /* slices of this session that are known to have finished, since it was made */
  float measured_us;  /* what the last one of them took; 0: not known, the device has no timestamps */
  float predicted_us; /* what that one was expected to take */
} pumice_slice;

/* Semaphores for a submission. */
typedef struct pumice_sync {
  size_t struct_size;
  const VkSemaphore* wait; /* timeline semaphores, or binary ones with the value 0 */
  const uint64_t* wait_values;
  uint32_t wait_count;
  const VkSemaphore* signal;
  const uint64_t* signal_values;
  uint32_t signal_count;
} pumice_sync;

/* Submits as much of the current step, and of those after it, as `budget_us` of device time are expected to
 * hold, and returns without waiting for the device. Costs are learned while slices run. Reports what slices
 * before it have brought. At least one dispatch is submitted while there is something to do, unless four
 * slices are under way already. Any slicing gives the same text, bit for bit, as pumice_run. `sync` and
 * `slice` may be NULL; where nothing is submitted, `sync` is signalled all the same. */
PUMICE_API pumice_status pumice_advance(pumice_session* session, float budget_us, const pumice_sync* sync,
                                        pumice_slice* slice, pumice_error* error);

/* The same, recorded into a command buffer of your program's: primary, in the recording state, outside of a
 * render pass, made for the queue family that Pumice was given, and submitted once, to the queue that Pumice
 * uses, before those of later slices. Pumice sees by itself when it has run. The state of bound pipelines,
 * descriptor sets and push constants of the compute bind point is not kept. */
PUMICE_API pumice_status pumice_record(pumice_session* session, VkCommandBuffer command_buffer,
                                       float budget_us, pumice_slice* slice, pumice_error* error);

/* Forgets slices that were recorded into command buffers that will not be submitted. The step that they were
 * parts of is begun anew. */
PUMICE_API pumice_status pumice_discard(pumice_session* session, pumice_error* error);

/* Stops what is being generated, within one submission: pumice_run returns PUMICE_CANCELLED, and so does the
 * next pumice_advance or pumice_record, once. The conversation stays as far as it has come, and the session
 * can go on. */
PUMICE_API void pumice_session_cancel(pumice_session* session);

/* The conversation so far: the prompts, and the tokens that came as events. As for pumice_tokenize. */
PUMICE_API pumice_status pumice_session_tokens(const pumice_session* session, uint32_t* tokens,
                                               size_t capacity, size_t* count, pumice_error* error);

/* The conversation with its keys and values in a file, and back, for pumice_generate to go on from: into any
 * session of the same model and cache type whose context it fits. A file that is damaged or foreign is
 * refused. What was being generated ends. */
PUMICE_API pumice_status pumice_session_save(pumice_session* session, const char* path, pumice_error* error);
PUMICE_API pumice_status pumice_session_restore(pumice_session* session, const char* path,
                                                pumice_error* error);

/* Moves the session's keys and values to the host's memory and gives all its device memory back. Until it is
 * resumed, only pumice_session_tokens, pumice_session_resume and pumice_session_destroy do anything but fail
 * with PUMICE_NOT_READY. */
PUMICE_API pumice_status pumice_session_suspend(pumice_session* session, pumice_error* error);

/* Makes the session anew on a model: the same one, after it was suspended, or after PUMICE_DEVICE_LOST one
 * that was loaded from the same file on a new device. What was being generated goes on with the tokens that
 * would have come; keys and values that were not saved are computed again, at the next call, which on GPUs
 * may round differently (README.md, "How it is built"). */
PUMICE_API pumice_status pumice_session_resume(pumice_session* session, pumice_model* model,
                                               pumice_error* error);

/* ---- encoders ---- */

typedef struct pumice_encoder pumice_encoder;

typedef struct pumice_encoder_options {
  size_t struct_size;
  /* What comes out: a row for each token, "last_hidden_state" or "hidden_states.N"; or one for each input,
   * "sentence_embedding_mean" or "sentence_embedding_cls", of length one, and as far as the model has them
   * "pooler_output" and "logits". NULL: "sentence_embedding_mean". */
  const char* output;
  uint32_t tokens; /* most of all inputs of one step together; 0: the most that one input has, and of pictures
                      and sounds what all of them have */
  uint32_t inputs; /* most of one step; 0: 1 */
  /* Values are read from there, f32[inputs, input_values], in place of pumice_input.values; none: not. */
  pumice_buffer input_buffer;
  /* The result is copied there as well, f32[rows, columns], as many rows as it can hold; none: not. */
  pumice_buffer output_buffer;
} pumice_encoder_options;

PUMICE_API pumice_status pumice_encoder_create(pumice_model* model, const pumice_encoder_options* options,
                                               pumice_encoder** encoder, pumice_error* error);
PUMICE_API void pumice_encoder_destroy(pumice_encoder* encoder);
/* Numbers in a row of the result. */
PUMICE_API uint32_t pumice_encoder_columns(const pumice_encoder* encoder);

/* One of these. */
typedef struct pumice_input {
  const char* text; /* cut to what the encoder reads at most, its special tokens kept */
  const uint32_t* tokens;
  size_t token_count;
  const float* values; /* of a picture or a sound: pumice_model_info.input_values of them */
} pumice_input;

/* Runs inputs in one step, and writes f32[rows, columns], the inputs' rows one after the other, as far as
 * `capacity` floats go, to `values`, and how many there are to `count`. PUMICE_CANCELLED after
 * pumice_encoder_cancel. `values` may be NULL where capacity is 0. */
PUMICE_API pumice_status pumice_encode(pumice_encoder* encoder, const pumice_input* inputs,
                                       size_t input_count, float* values, size_t capacity, size_t* count,
                                       pumice_error* error);

/* The same a slice at a time: pumice_encode_begin takes the inputs; pumice_encode_advance or
 * pumice_encode_record until slice.active is false; then pumice_encode_read. As the functions of sessions. */
PUMICE_API pumice_status pumice_encode_begin(pumice_encoder* encoder, const pumice_input* inputs,
                                             size_t input_count, pumice_error* error);
PUMICE_API pumice_status pumice_encode_advance(pumice_encoder* encoder, float budget_us,
                                               const pumice_sync* sync, pumice_slice* slice,
                                               pumice_error* error);
PUMICE_API pumice_status pumice_encode_record(pumice_encoder* encoder, VkCommandBuffer command_buffer,
                                              float budget_us, pumice_slice* slice, pumice_error* error);
/* As pumice_discard: the inputs are begun anew. */
PUMICE_API pumice_status pumice_encode_discard(pumice_encoder* encoder, pumice_error* error);
PUMICE_API pumice_status pumice_encode_read(pumice_encoder* encoder, float* values, size_t capacity,
                                            size_t* count, pumice_error* error);
PUMICE_API void pumice_encoder_cancel(pumice_encoder* encoder);

/* A row for each of `count` texts, f32[count, columns]: in as many steps as they need. The encoder's output
 * has to be one that gives a row for each input. */
PUMICE_API pumice_status pumice_embed(pumice_encoder* encoder, const char* const* texts, size_t count,
                                      float* values, pumice_error* error);

/* ---- translators: an encoder with a decoder ---- */

typedef struct pumice_translator pumice_translator;

typedef struct pumice_translator_options {
  size_t struct_size;
  uint32_t beams;         /* 0: as many as the model's own settings say */
  uint32_t input_tokens;  /* most of a text; 0: the model's own limit */
  uint32_t output_tokens; /* most of a translation; 0: the model's own limit */
} pumice_translator_options;

PUMICE_API pumice_status pumice_translator_create(pumice_model* model,
                                                  const pumice_translator_options* options,
                                                  pumice_translator** translator, pumice_error* error);
PUMICE_API void pumice_translator_destroy(pumice_translator* translator);
/* Writes the translation of a text, cut where it does not fit `capacity` bytes with the zero that ends it;
 * `count` is its length without that, and may be NULL. PUMICE_CANCELLED after pumice_translator_cancel. */
PUMICE_API pumice_status pumice_translate(pumice_translator* translator, const char* text, char* translation,
                                          size_t capacity, size_t* count, pumice_error* error);
PUMICE_API void pumice_translator_cancel(pumice_translator* translator);

#ifdef __cplusplus
}
#endif

#endif /* PUMICE_H */
