/* Pumice: transformer models on any Vulkan 1.2 device, inside your program.
 *
 * The whole interface, in C. pumice.hpp wraps it in C++ classes. In five steps:
 *
 *   pumice_device_create     a device of Pumice's own, or the one that your program renders with
 *   pumice_model_load        weights onto the device
 *   pumice_session_create    memory for one conversation
 *   pumice_session_generate  a prompt, and how to continue it
 *   pumice_session_run       to the end
 *
 * To talk to a chat model, make a pumice_chat of messages and hand it to pumice_session_generate. That is the
 * first hour. A program that draws frames reads on at pumice_work: what runs a slice at a time.
 *
 * Structures. A structure that later versions may extend begins with its size, which you set. Zero in any
 * other field means the default:
 *     pumice_session_options options = {.struct_size = sizeof options};
 *     options.context = 512;
 * So a program compiled against an older header of the same major version keeps working. pumice_event,
 * pumice_segment, pumice_passage, pumice_fill, pumice_span and pumice_memory_request have no size, because
 * they lie in Pumice's memory and are only read by you. Nor do pumice_error, pumice_buffer, pumice_memory,
 * pumice_stage, pumice_logit_bias and pumice_token_probability, which stay as they are in all versions.
 *
 * Errors. A function that can fail returns a pumice_status and, if the last parameter is not NULL, writes a
 * message to it. After a failure everything is as it was before the call, unless the function says otherwise.
 * A value that makes no sense is PUMICE_INVALID_ARGUMENT, and the message names the field or the parameter.
 * Pumice itself never throws, prints, aborts or exits, and reads no environment variable; the Vulkan loader
 * and drivers may.
 *
 * Ownership. What *_create, *_load and *_finish hand out is the caller's, until the *_destroy of its kind;
 * NULL may be destroyed. A handle that was destroyed, or that is of another kind, is
 * PUMICE_INVALID_ARGUMENT, and destroying it again does nothing, however many were made since (in a process
 * of 32 bits: as long as nothing of the kind has been made at its place). A session keeps its model alive,
 * and a model its device: they may be destroyed in any order. Strings and arrays that you pass in are copied
 * or used before the call returns, unless a field says otherwise.
 *
 * Threads. Devices and models may be used from any number of threads. A session, a batch, an encoder, an
 * embedder, a reranker, a classifier, a tagger, an answerer, a filler, an index, a translator, a captioner, a
 * transcriber or a speaker is used by one thread at a time, with its work; different ones by different
 * threads at the same time. The *_cancel functions may be called from any thread at any time until the
 * *_destroy of their object begins. Pumice has no thread of its own unless it is asked for:
 * pumice_load_start, pumice_session_creation_start, pumice_batch_creation_start, pumice_creation_start,
 * pumice_tune_start, and `threads` and `stages` in options. What runs in the background has a lower priority
 * than the thread that starts it, on Linux, Windows and macOS.
 *
 * Text is UTF-8. Times are microseconds, sizes are bytes, of memory on the device unless a field says
 * otherwise. */
#ifndef PUMICE_H
#define PUMICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Semantic versioning: a program works with every library of the same major version that is at least as new
 * as the header it was compiled with. */
#define PUMICE_VERSION_MAJOR 1
#define PUMICE_VERSION_MINOR 0
#define PUMICE_VERSION_PATCH 0

#if defined(_WIN32) && defined(PUMICE_SHARED)
#ifdef PUMICE_BUILDING
#define PUMICE_API __declspec(dllexport)
#else
#define PUMICE_API __declspec(dllimport)
#endif
#elif defined(__GNUC__) && !defined(_WIN32)
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
typedef struct VkImage_T* VkImage;
#else
typedef uint64_t VkBuffer;
typedef uint64_t VkDeviceMemory;
typedef uint64_t VkSemaphore;
typedef uint64_t VkImage;
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
  PUMICE_NOT_FOUND = 2,        /* a file, device or name that does not exist */
  PUMICE_INVALID_FILE = 3,     /* a file that is damaged or malformed */
  PUMICE_UNSUPPORTED = 4,      /* well formed, but this build or device cannot do it */
  PUMICE_OUT_OF_MEMORY = 5,    /* the host's or the device's, or over a limit that was set */
  PUMICE_DEVICE_LOST = 6,      /* load the model on a new device, then call pumice_session_resume */
  PUMICE_CANCELLED = 7,        /* by a *_cancel function or a callback */
  PUMICE_IO = 8,               /* the operating system, or a read callback, refused a read or a write */
  PUMICE_INTERNAL = 9,         /* a defect in Pumice or in a driver */
  PUMICE_NOT_READY = 10,       /* something must happen first: the message says what */
  PUMICE_CONTEXT_FULL = 11 /* more tokens than pumice_session_options.context; see pumice_session_generate */
} pumice_status;

/* The name of a status, "out of memory"; never NULL. */
PUMICE_API const char* pumice_status_name(pumice_status status);

/* Need not be initialised: a function that takes one writes all of it, also when it succeeds. 1,024 bytes in
 * all versions; later ones may use what is reserved. */
typedef struct pumice_error {
  pumice_status status;
  uint32_t reserved[7]; /* 0 */
  char message[992];    /* one sentence; if several things were tried, a line for each. Cut to fit, always
                           zero-terminated */
} pumice_error;

typedef enum pumice_log_level { PUMICE_LOG_INFO = 0, PUMICE_LOG_WARNING = 1 } pumice_log_level;

/* `message` is valid until the callback returns. May be called from any thread that calls Pumice, or Vulkan.
 */
typedef void (*pumice_log_function)(void* user, pumice_log_level level, const char* message);

/* ======== The first hour ======== */

/* ---- devices ---- */

typedef struct pumice_device pumice_device;
typedef struct pumice_vulkan pumice_vulkan;       /* your own device: see below */
typedef struct pumice_allocator pumice_allocator; /* your own memory: see below */

typedef enum pumice_priority {
  PUMICE_PRIORITY_DEFAULT = 0,
  PUMICE_PRIORITY_LOW = 1,
  PUMICE_PRIORITY_MEDIUM = 2,
  PUMICE_PRIORITY_HIGH = 3,
  PUMICE_PRIORITY_REALTIME = 4
} pumice_priority;

typedef struct pumice_device_options {
  size_t struct_size; /* sizeof(pumice_device_options) */
  /* Your program's device, read during the call only. NULL: Pumice makes its own device, as the next fields
   * say. */
  const pumice_vulkan* vulkan;
  const char* device; /* index, part of the name, or UUID; NULL: the best one */
  pumice_get_instance_proc_addr get_instance_proc_addr; /* NULL: the system's Vulkan loader */
  float queue_priority;            /* 0 to 1, relative to other queues of the same device; 0: 1 */
  pumice_priority global_priority; /* relative to other programs; ignored, with a line in the log, if the
                                      driver does not support it */
  bool validate;                   /* Vulkan's validation layers, whose messages go to the log */
  /* For both kinds of device. */
  const pumice_allocator* allocator; /* copied; NULL: vkAllocateMemory */
  uint64_t memory_limit; /* most bytes allocated at a time; allocating more fails with PUMICE_OUT_OF_MEMORY;
                            0: no limit */
  const char* cache_folder; /* stores compiled kernels and measurements between runs; NULL: not stored */
  pumice_log_function log;  /* NULL: no log */
  void* log_user;
  /* Tuning results that your program ships, of pumice_device_save_tuning: a file, or bytes in memory that are
   * used during the call only. Set at most one. They count where the cache folder has none. It is no error if
   * they are missing, damaged, or of other devices and drivers: a line in the log says so. */
  const char* tuning_file;
  const void* tuning;
  size_t tuning_bytes;
} pumice_device_options;

PUMICE_API pumice_status pumice_device_create(const pumice_device_options* options, pumice_device** device,
                                              pumice_error* error);
PUMICE_API void pumice_device_destroy(pumice_device* device);

/* "llvmpipe (LLVM 15.0.6, 256 bits)"; valid as long as the device. */
PUMICE_API const char* pumice_device_name(const pumice_device* device);

typedef struct pumice_memory_report {
  size_t struct_size;
  uint64_t allocated; /* by Pumice, now */
  uint64_t peak;      /* the most so far */
  uint64_t limit;     /* pumice_device_options.memory_limit; 0: none */
  uint64_t heap;      /* of the device's largest heap */
  uint64_t
      available; /* what can still be allocated: the driver's budget (VK_EXT_memory_budget) if it is plausible
                    for the heap, otherwise the heap less `allocated`; at most what the limit leaves */
} pumice_memory_report;

PUMICE_API pumice_status pumice_device_memory(const pumice_device* device, pumice_memory_report* report,
                                              pumice_error* error);

/* ---- models ---- */

typedef struct pumice_model pumice_model;

typedef struct pumice_source pumice_source;

/* Where a model comes from: set one of path, memory, read and parts. The data must be a GGUF file; a path may
 * also be a Hugging Face folder. */
struct pumice_source {
  size_t struct_size;
  const char* path;   /* of a GGUF model that was split, any part, with the others beside it */
  uint64_t offset;    /* of a GGUF model inside a larger file at `path` */
  uint64_t bytes;     /* size of the model; with a path, 0 means to the end of the file */
  const void* memory; /* `bytes` bytes, aligned to 32; they must outlive the model */
  /* Reads `count` bytes of the model from byte `at` on into `to`. Returns false for an error (PUMICE_IO).
   * Called by the loading thread, and never after the load has ended. The whole model is in the host's memory
   * while it loads; afterwards, everything but the weights stays there. */
  bool (*read)(void* user, uint64_t at, void* to, size_t count);
  void* user;
  const char* name; /* used in messages, for memory and callbacks; NULL: "model" */
  /* All parts of a GGUF model that was split, in any order. They must stay valid as long as the source. */
  const pumice_source* parts;
  size_t part_count;
};

/* Whose memory the weights of a mixture's experts take. */
typedef enum pumice_experts {
  PUMICE_EXPERTS_AUTOMATIC = 0, /* the device's; the host's if all weights together would leave less than an
                                   eighth of a GPU's free memory */
  PUMICE_EXPERTS_DEVICE = 1,
  PUMICE_EXPERTS_HOST = 2, /* kernels read them over the bus. They do not count against
                              pumice_device_options.memory_limit, nor in pumice_memory_report */
} pumice_experts;

/* A stage of a model that is cut by layers over several devices: see pumice_load_options.stages. */
typedef struct pumice_stage {
  pumice_device* device;
  uint32_t layers;   /* of the stage, in the order of the model; 0 in all stages: about as many in each */
  uint32_t reserved; /* 0 */
} pumice_stage;

/* What a decoder is loaded for. An encoder is for vectors and scores anyway. */
typedef enum pumice_purpose {
  PUMICE_FOR_TEXT = 0,    /* to go on with texts: sessions and batches */
  PUMICE_FOR_VECTORS = 1, /* to read whole texts: pumice_embedder_create, pumice_index_create */
  PUMICE_FOR_SCORES = 2,  /* the same with its head: pumice_reranker_create; a masked language model's too:
                             pumice_filler_create */
  PUMICE_FOR_DRAFTS = 3   /* to guess at the tokens of the same model (DeepSeek V3, GLM-4.5, Qwen 3 Next and
                             3.5): loads the layer that was trained to predict further ones, with embeddings
                             and head, as a model of its own for draft_model */
} pumice_purpose;

typedef struct pumice_load_options {
  size_t struct_size;
  /* Called by the loading thread from time to time, with the bytes on the device and the total. If it returns
   * false, the load ends with PUMICE_CANCELLED after at most one more submission. At most 8 MiB go to the
   * device between two calls, or what budget_us and budget_bytes allow, so a program that must not lose
   * frames to a load lets the function wait for the next frame. May be NULL. */
  bool (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
  uint32_t threads; /* threads that pack weights and compile kernels, including the calling one; 0: 1 */
  /* Of a model of texts and pictures (CLIP, SigLIP, LLaVA, Gemma 3), loads the encoder of its pictures
   * instead of what reads texts. Each is a model of its own. */
  bool pictures;
  const char* quantize; /* the type that 16- and 32-bit weights are converted to: "Q8_0", "Q4_0", "Q4_K" ...;
                           NULL: unchanged */
  /* Above 0: measures, for at most so many seconds, the kernels that this model needs and that are not known
   * for this device yet, as pumice_tune_start does. Kernels that are known cost no time. Takes the memory of
   * a small session. `progress` is asked meanwhile, with both numbers equal; if it returns false, what was
   * measured is kept. A failure is a line in the log, and the model is loaded all the same. 0: 2 seconds if
   * pumice_device_options.cache_folder can be written to, otherwise nothing is measured. Below 0: nothing.
   *
   * Before that, where this is not below 0: kernels that this model needs and that were not used with this
   * version of the driver before are tried in small cases, for at most about 0.3 seconds and the compiling
   * that is under way then; the next load tries the others. One whose results are wrong is not used from then
   * on, and named in the log. If there is no other one, loading fails with PUMICE_UNSUPPORTED and a message
   * that names it. What was tried is kept in the cache folder, so that it happens once; without that folder,
   * as long as the device. */
  float tune_seconds;
  pumice_experts experts;
  uint32_t vision; /* 1: of a decoder that sees (Gemma 3, Qwen 2.5-VL), loads the encoder of its pictures too,
                      for sessions with pumice_session_options.pictures; of one that hears (Voxtral), that of
                      its sounds, for such sessions and for transcribers; of a model of texts and pictures in
                      one space (CLIP, SigLIP), for embedders and classifiers of pictures */
  uint32_t stage_count;
  /* Cuts a model with a decoder by layers into stages, each on a device, which hand on their results in the
   * host's memory. The layers of an encoder come before those of its decoder. NULL: it is on one device. The
   * last stage is on the device that the model is loaded on, which also samples. Tokens are the same as on
   * one device of the same driver, to the bit on CPU drivers.
   *
   * For whole steps, each stage but the last has a thread of Pumice's own, which submits to that stage's
   * device. A slice is on the device of one stage, and its budget is of that device's time. Once a step's
   * last slice there has finished, the next slice is on the next stage. So a call may find nothing to submit,
   * and pumice_slice.dispatches is 0, while there is still something to do. Slices on another device than the
   * last stage's are submitted to it by Pumice: pumice_work_record records nothing of them, and the
   * semaphores of pumice_sync do not wait for them.
   *
   * Kernels are neither measured nor checked. A `read` source is read once for each stage. After an error of
   * one stage, such as PUMICE_DEVICE_LOST, all sessions and batches of the model end with a message that
   * names the stage: load the model again, and call pumice_session_resume. */
  const pumice_stage* stages;
  /* Of a GGUF model that sees: llama.cpp's file with the encoder of its pictures (mmproj), which `pictures`
   * and `vision` load. NULL: they are in one folder, or the model reads text only. What it points to must
   * stay valid as long as the source. */
  const pumice_source* mmproj;
  pumice_purpose purpose;
  /* Of a model with a decoder, how many layers have their matrices in the device's memory: the last ones.
   * Those of the layers before them are in the host's, as those of experts are with PUMICE_EXPERTS_HOST. 0:
   * all layers; -1: none. */
  int32_t device_layers;
  /* What the model's settings are to say in place of its file, each "KEY=TYPE:VALUE" as llama.cpp's
   * --override-kv has it: "llama.rope.freq_base=float:500000". TYPE is int, float, bool or str. In a
   * config.json, dots lead into objects: "rope_scaling.factor=float:4". They must stay valid as long as the
   * source. */
  const char* const* settings;
  size_t setting_count;
  /* The most that weights take between two calls of `progress`: microseconds of the device for their copies,
   * and bytes. 0: no limit but the 8 MiB. With either, the device has finished what was copied when
   * `progress` is called. Time is measured, and how much goes to the device at once follows from it: little
   * at first. 128 KiB (or eight rows of a matrix, if they are more) go at least, whatever the budgets. Time
   * is the device's own where `queue` copies and has timestamps; otherwise that until a copy is done, an
   * engine's delay in `submit` included; and where the host writes to the device's memory itself, the host's.
   * Kernels that are tried are no part of it: see tune_seconds. PUMICE_INVALID_ARGUMENT below 0. */
  float budget_us;
  uint32_t budget_bytes;
} pumice_load_options;

/* Loads a model. After a failure, everything it had allocated is freed. */
PUMICE_API pumice_status pumice_model_load(pumice_device* device, const pumice_source* source,
                                           const pumice_load_options* options, pumice_model** model,
                                           pumice_error* error);
PUMICE_API void pumice_model_destroy(pumice_model* model);

typedef struct pumice_model_info {
  size_t struct_size;
  const char* architecture; /* for example "llama"; valid as long as the model */
  bool has_decoder;         /* pumice_session_create, or with an encoder pumice_translator_create,
                               pumice_captioner_create */
  bool has_encoder;         /* pumice_encoder_create */
  bool has_tokenizer;       /* otherwise prompts must be tokens, not text */
  bool has_pictures;        /* pumice_load_options.pictures loads their encoder */
  uint32_t vocabulary;      /* number of tokens */
  uint32_t context;         /* most positions of a sequence */
  uint32_t input_context;   /* most tokens of an encoder's input */
  uint32_t input_values;    /* floats of a picture or sound for the encoder; 0: it reads tokens */
  uint64_t weight_bytes;    /* on the device */
  /* Of texts and pictures in one space: a pair's logit is similarity_scale * the cosine of its vectors +
   * similarity_bias. The scale is 0 if there is no such space. */
  float similarity_scale, similarity_bias;
} pumice_model_info;

PUMICE_API pumice_status pumice_model_get_info(const pumice_model* model, pumice_model_info* info,
                                               pumice_error* error);

/* ---- adapters: one model, many characters ---- */

/* A low-rank adapter (LoRA), which changes what a model writes, and takes a small part of its memory. The
 * model's weights stay as they are: each text of a batch may have another adapter, or none. Any number of
 * sessions and batches share one, from any thread, each with a copy on the device while its texts use it. */
typedef struct pumice_adapter pumice_adapter;

/* Reads an adapter of a model: a folder of Hugging Face's PEFT (adapter_config.json and
 * adapter_model.safetensors), or a GGUF file of llama.cpp; for either form of the model. At any time, also
 * while texts are generated. PUMICE_INVALID_FILE if it is damaged or another model's,
 * PUMICE_NOT_FOUND if it changes what the model does not have, PUMICE_UNSUPPORTED for DoRA, biases, and whole
 * tensors beside it, and for models with an encoder or in stages. */
PUMICE_API pumice_status pumice_adapter_load(pumice_model* model, const char* path, pumice_adapter** adapter,
                                             pumice_error* error);
/* Makes one of several of the same model, which adds what they add, each times its scale. `scales` may be
 * NULL: all 1. */
PUMICE_API pumice_status pumice_adapter_combine(const pumice_adapter* const* adapters, const float* scales,
                                                size_t count, pumice_adapter** combined, pumice_error* error);
/* Texts that use it go on. */
PUMICE_API void pumice_adapter_destroy(pumice_adapter* adapter);

/* ---- sessions: a conversation with a decoder ---- */

typedef struct pumice_session pumice_session;

/* Of keys and values: one type for both, or the keys' and the values'. */
typedef enum pumice_cache_type {
  PUMICE_CACHE_F16 = 0,
  PUMICE_CACHE_F32 = 1,
  PUMICE_CACHE_Q8_0 = 2,
  PUMICE_CACHE_F16_Q8_0 = 3,
  PUMICE_CACHE_Q8_0_F16 = 4,
  PUMICE_CACHE_Q4_0 = 5,
  PUMICE_CACHE_Q8_0_Q4_0 = 6
} pumice_cache_type;

typedef enum pumice_event_type {
  PUMICE_EVENT_TOKEN = 1, /* a token; `text` may be empty: a character may not be complete yet, or the text be
                             the beginning of a stop string */
  PUMICE_EVENT_END =
      2, /* the text has ended: see `finish_reason`; `text` is the rest of the text that no token event had */
  PUMICE_EVENT_PART = 3 /* only of an answer to a chat, whose other events have no text: see `part` */
} pumice_event_type;

/* What a piece of an answer belongs to. What cannot be read as thinking or as a call is content, as it is. */
typedef enum pumice_part {
  PUMICE_PART_NONE = 0,
  PUMICE_PART_CONTENT = 1,  /* `text` comes next in the content */
  PUMICE_PART_THINKING = 2, /* `text` comes next in what the model thinks before it answers */
  PUMICE_PART_TOOL_CALL = 3 /* a whole call: `name`, `text` (its arguments, a JSON object), and `id` */
} pumice_part;

typedef enum pumice_finish_reason {
  PUMICE_FINISH_NONE = 0,
  PUMICE_FINISH_STOP = 1,     /* a stop token, for which there is no token event, or a stop string */
  PUMICE_FINISH_LENGTH = 2,   /* max_tokens were generated */
  PUMICE_FINISH_CONTEXT = 3,  /* the context is full */
  PUMICE_FINISH_CANCELLED = 4 /* pumice_work_cancel */
} pumice_finish_reason;

/* How probable a token was, before biases, penalties and temperature. */
typedef struct pumice_token_probability {
  uint32_t token;
  float log_probability; /* the natural logarithm, at most 0 */
} pumice_token_probability;

/* In Pumice's memory, with all that it points to: valid until the callback returns, or with
 * pumice_session_poll until the next call with this session. */
typedef struct pumice_event {
  pumice_event_type type;
  uint32_t token;    /* of PUMICE_EVENT_TOKEN */
  uint32_t position; /* of the token in the conversation, from 0 */
  pumice_finish_reason finish_reason;
  const char* text; /* what the token adds to the text; never NULL */
  /* With pumice_sampling.log_probabilities: the token's, and those of the most probable tokens, the most
   * probable first. Otherwise 0 and none. */
  float log_probability;
  uint32_t top_count;
  const pumice_token_probability* top;
  uint32_t text_id; /* of a batch: what pumice_batch_add returned */
  uint32_t reused; /* tokens of the text's prompt that were not computed, because the session had read them */
  pumice_part part; /* of PUMICE_EVENT_PART */
  const char* name; /* of a tool call; never NULL */
  const char* id;   /* of a tool call, if the model writes one or its template wants one; never NULL */
} pumice_event;

/* Called during the functions that run a session, and when it is saved, suspended or discarded, by the thread
 * that calls them. With this session, it may call pumice_work_cancel and pumice_session_tokens, and
 * pumice_session_destroy: that cancels the text, and takes effect when the function that runs returns. All
 * others return PUMICE_NOT_READY. */
typedef void (*pumice_event_function)(void* user, const pumice_event* event);

/* A range of a buffer of your program. The buffer must have TRANSFER_SRC (for inputs) or TRANSFER_DST (for
 * outputs) usage, belong to the same VkDevice and the queue family that Pumice uses, and outlive the object
 * that it is given to. */
typedef struct pumice_buffer {
  VkBuffer buffer;
  uint64_t offset; /* a multiple of 4 */
  uint64_t bytes;
} pumice_buffer;

typedef struct pumice_session_options {
  size_t struct_size;
  uint32_t context; /* most tokens of the conversation, at least 2; 0: the model's own, at most 4,096 */
  /* Most tokens of a prompt that are computed in one step; 0: 128, and 512 on a graphics card that has room
   * for it (of a batch: 128). Smaller chunks make each dispatch shorter, which helps with small time budgets,
   * but make reading a prompt slower. */
  uint32_t chunk;
  pumice_cache_type cache;
  pumice_event_function on_event; /* NULL: fetch events with pumice_session_poll */
  void* user;
  /* Runs each kind of step a few times while the session is created, which takes some tenths of a second.
   * Then even the first slices stay within their budgets. If false, the costs of steps are learned while
   * slices run. */
  bool warm_up;
  uint32_t threads; /* threads that compile kernels, including the calling one; 0: 1 */
  /* Called from time to time by the thread that creates the session, with the steps that are done and their
   * number: two for each kernel, because some drivers compile it when it is made, others when it first runs.
   * If it returns false, creating ends with PUMICE_CANCELLED after at most one more kernel. May be NULL. */
  bool (*progress)(void* user, uint64_t done, uint64_t total);
  void* progress_user;
  pumice_buffer
      logits; /* if set, each step copies the logits that its token is chosen from there: f32[vocabulary] */
  /* Pictures that are looked at in one step, at most 64; 0: the session answers no chats that show pictures.
   * For a model of tiles (SmolVLM), each tile is one; a picture's may take several steps. Of a model that
   * hears, a picture is a window of a sound. The model must have been loaded with
   * pumice_load_options.vision. */
  uint32_t pictures;
  /* 1: choose what fits the memory that is free on the device, as `--fit` of the command does: a shorter
   * chunk where none is set, keys and values in Q8_0 where `cache` is F16, and at last a
   * shorter context where none is set. PUMICE_OUT_OF_MEMORY if even that does not fit.
   * pumice_session_estimate_memory tells what would be chosen. Not for models in stages. */
  uint32_t fit;
  /* Not 0: steps guess at so many tokens, at most 31, by what the text has said before, and check them at
   * once, where that is expected to be faster. The text stays the same. Texts with mirostat or DRY are not
   * guessed at; of those with a form, only what fits it. PUMICE_UNSUPPORTED with `logits`. Takes memory for
   * the logits of so many more tokens, for what may follow them, and for the states of recurrent layers. */
  uint32_t drafts;
  /* Adapters that have a place on the device at a time, at most 1,024; 0: texts have none, and everything is
   * as without them. The places are as large as the largest adapter of the model that is there when the
   * session is created, and adapters that come later may change only what one of those changes. Where all of
   * those have F16 numbers, or all BF16, later ones must have such, too. Their memory is not in
   * pumice_session_estimate_memory. PUMICE_INVALID_ARGUMENT if there is no adapter. */
  uint32_t adapters;
  /* With drafts: a smaller model of the same vocabulary on the same device, which guesses too, or the same
   * model loaded with PUMICE_FOR_DRAFTS; NULL: none.
   * Slices of work do not use it, because its guesses are waited for: pumice_session_run does. Its memory is
   * in no estimate. */
  pumice_model* draft_model;
  /* 1: where a new prompt leaves out a part of the conversation, as pumice_request.forget does, what is
   * behind it is not computed again: its keys are rotated to their new positions. The answer is then near to
   * what it would be, and not the same, because what stays has seen what was left out. Slices of work read it
   * again: pumice_session_run shifts. PUMICE_UNSUPPORTED, with the reason, for learned positions, recurrent
   * layers, layers with a window that is shorter than the context, pictures' positions, models in stages, and
   * PUMICE_CACHE_Q8_0 and what is smaller. */
  uint32_t shift;
  uint32_t reserved; /* 0 */
} pumice_session_options;

PUMICE_API pumice_status pumice_session_create(pumice_model* model, const pumice_session_options* options,
                                               pumice_session** session, pumice_error* error);

/* Waits for everything that Pumice has submitted. Command buffers with recorded slices must have finished, or
 * must not be submitted any more. */
PUMICE_API void pumice_session_destroy(pumice_session* session);

/* Added to the logit of a token before anything else. -INFINITY: the token is never chosen. */
typedef struct pumice_logit_bias {
  uint32_t token;
  float bias; /* not NaN */
} pumice_logit_bias;

/* How tokens are chosen. With all fields zero, the most probable token. Applied in this order; see also
 * runtime/README.md. A value outside of its range is an error. */
typedef struct pumice_sampling {
  size_t struct_size;
  float temperature;    /* logits are divided by it; 0 to 1000; 0: always the most probable token */
  uint32_t top_k;       /* only the k most probable tokens, k at most 2^30; 0: all */
  float typical_p;      /* only the most typical tokens with this total probability; 0 to 1; 0: all */
  float top_p;          /* only the most probable tokens with this total probability; 0 to 1; 0: all */
  float min_p;          /* only tokens with at least this share of the largest probability; 0 to 1; 0: all */
  float repeat_penalty; /* divides positive logits and multiplies negative ones, of tokens among the last
                           `repeat_window`; 0.01 to 100; 0: 1, off */
  /* Subtracted from a logit for each time that its token occurs there; -100 to 100. */
  float frequency_penalty;
  float presence_penalty;                /* subtracted once if it occurs there; -100 to 100 */
  uint32_t repeat_window;                /* tokens, at most 4,096; 0: 64 */
  uint64_t seed;                         /* the same seed, prompt and device give the same text */
  const uint32_t* stop_tokens;           /* end the text, in addition to the model's own */
  size_t stop_token_count;               /* with the model's own, at most 16 different ones */
  const uint32_t* banned_tokens;         /* are never chosen */
  size_t banned_token_count;             /* with the biases, at most 1,024 different ones */
  const pumice_logit_bias* logit_biases; /* those of the same token are added up */
  size_t logit_bias_count;
  /* If not 0, events have the log-probabilities of their token and of so many most probable ones; at most 64.
   */
  size_t log_probabilities;
  /* The following do what llama.cpp's options of these names do; see runtime/kernel/sampling_options.def. */
  float
      top_n_sigma; /* only tokens at most so many standard deviations of those left below the best; 0: all */
  float xtc_probability;   /* of leaving out all tokens above the threshold but the last of them; 0: off */
  float xtc_threshold;     /* 0 to 1; 0: 0.1 */
  float dynatemp_range;    /* how far the temperature goes below and above with uncertainty; 0: off */
  float dynatemp_exponent; /* 0: 1 */
  uint32_t mirostat;       /* 2: keeps the surprise at mirostat_tau, in the place of the filters; 0: off */
  float mirostat_tau;      /* bits for each token; 0: 5 */
  float mirostat_eta;      /* how fast it is corrected; 0: 0.1 */
  float dry_multiplier;    /* penalty of a token that goes on with a repetition; 0: off */
  float dry_base;          /* its factor for each further token of the repetition; 0: 1.75 */
  uint32_t dry_allowed_length; /* tokens of a repetition that costs something, at most 256; 0: 2 */
  uint32_t dry_penalty_last_n; /* tokens in which repetitions are looked for, at most 4,096; 0: 4,096 */
  /* Tokens that contain one of these strings end a repetition. NULL: a line end, ":", "\"" and "*". */
  const char* const* dry_sequence_breakers;
  size_t dry_sequence_breaker_count;
  /* The samplers that choose a token, in their order, with ; between them, or as llama.cpp's letters. One
   * that is not named does nothing; penalties and dry can only come first. NULL:
   * "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature" */
  const char* samplers;
} pumice_sampling;

/* What texts for people are drawn with where `pumice chat` and `pumice run` are told nothing else:
 * temperature 0.8, top_k 40, top_p 0.95, min_p 0.05. All other fields are zero. */
PUMICE_API pumice_status pumice_sampling_usual(pumice_sampling* sampling, pumice_error* error);

/* The form that a text must have: exactly one of these is set. Only tokens that fit it are drawn, and the
 * text ends with its form; one that is cut off by max_tokens or the context does not fit yet.
 * runtime/form/README.md says what is supported; anything else is an error with a sentence. The device
 * follows a form that is small by itself, and its texts take the time of texts without one; with a larger
 * form, each token waits for the host to see the one before it. */
typedef struct pumice_form {
  size_t struct_size;
  const char* const* choices; /* one of these texts */
  size_t choice_count;
  const char* regex;       /* the whole text matches it; in the dialect of ECMAScript */
  const char* json_schema; /* JSON that is valid for it; a schema is JSON itself */
  const char* grammar;     /* GBNF as llama.cpp has it, or Lark as llguidance has */
} pumice_form;

typedef struct pumice_chat pumice_chat;

typedef struct pumice_request {
  size_t struct_size;
  /* Added to the conversation in this order; at its beginning, between the special tokens that the model
   * expects around a text. `text` is text: what a player types. `before` and `after` are your own: the
   * special tokens that they spell become those tokens, as the marks of a chat model must. Any of them may be
   * NULL. */
  const char* before;
  const char* text;
  const char* after;
  const uint32_t* tokens; /* added after them */
  size_t token_count;
  bool new_conversation; /* replace the whole conversation; a common beginning is not computed again */
  bool ignore_end;       /* do not stop at the model's own end tokens */
  bool forget;           /* of a chat whose context has no room for an answer: forget its oldest turns, as
                            pumice_chat_forget does, until it has and the prompt fills at most half of it,
                            whatever becomes of the request. What is left is read again, which is seldom */
  uint32_t max_tokens;   /* most tokens to generate; 0: as many as fit the context */
  const pumice_sampling* sampling; /* NULL: the most probable token each time */
  /* Strings that end the text. It ends before the first of them. The conversation keeps the token that
   * completes the string. At most 64 of them, none empty. */
  const char* const* stops;
  size_t stop_count;
  /* Answer this chat, of the same model: its messages are the whole prompt, in place of the conversation and
   * of the texts and tokens above. The beginning that this prompt has in common with the conversation is not
   * computed again, and when an answer becomes a message, its tokens are not cut again. The text ends with
   * the tokens that end a turn, too. However it ends, what came of it becomes the chat's next message, unless
   * nothing came.
   *
   * The pictures of its messages are looked at first, in slices as all else, and only once: their tokens in
   * pumice_session_tokens are numbers from 2^31 on. A saved conversation holds what was seen. A batch answers
   * a chat with pictures if a session has looked at all of them, in the same chat. */
  pumice_chat* chat;
  /* Of the text that is generated; NULL: any. With a chat, it begins after the model's thinking. It needs a
   * token that ends the text, and does not go with `ignore_end`. The first form of a model takes about a
   * tenth of a second. */
  const pumice_form* form;
  /* Of an answer to a chat that has tools: "auto" (NULL: the same), "none" (no call), "required" (at least
   * one call), or the name of the only tool to call. Names and arguments of calls follow the tools' schemas;
   * with "auto", only where pumice_chat_check_calls says so. It needs a token that ends the text. With
   * `form`, no tool is called. */
  const char* tool_choice;
  /* What the answer to a chat begins with; it goes on from there, and this is a part of it. Special tokens
   * that it spells are special tokens. NULL: nothing. PUMICE_INVALID_ARGUMENT if it does not fit the form. */
  const char* prefill;
  /* The text's adapter, of the same model, for which the session or batch was created with `adapters`; NULL:
   * none. What the conversation has read with another adapter, or another scale, is read again. A saved
   * session does not hold it: keys and values that were computed with one are computed again, too. */
  const pumice_adapter* adapter;
  float adapter_scale; /* how much of it, -1,000 to 1,000; 0: 1 */
  uint32_t reserved;   /* 0 */
} pumice_request;

/* Starts a request without computing anything yet. A text that was being generated ends where it is, without
 * an event, and events that were not polled are dropped.
 *
 * Without text and tokens, it goes on with the conversation; in an empty one, and with `new_conversation`,
 * that is PUMICE_INVALID_ARGUMENT. PUMICE_CONTEXT_FULL if the conversation with the new tokens leaves no room
 * for another token: leave something out, and begin a `new_conversation`. A chat with several turns has to
 * leave room for an answer: max_tokens, or else 512, but no more than a quarter of the context (of
 * max_tokens, half): call pumice_chat_forget until it does, or set `forget`. PUMICE_NOT_READY while a
 * recorded slice has not finished. */
PUMICE_API pumice_status pumice_session_generate(pumice_session* session, const pumice_request* request,
                                                 pumice_error* error);

/* Reads the prompt and generates to the end. With nothing to do (there was no request, or its text has
 * ended), returns PUMICE_OK at once, without an event. A context that fills up is no error: the text ends
 * with PUMICE_FINISH_CONTEXT. PUMICE_CANCELLED after pumice_work_cancel. */
PUMICE_API pumice_status pumice_session_run(pumice_session* session, pumice_error* error);

/* The next event; NULL: there is none now. Never waits for the device. For sessions without on_event. */
PUMICE_API const pumice_event* pumice_session_poll(pumice_session* session);

/* The conversation so far: prompts and generated tokens. `capacity` and `count` work as in
 * pumice_model_tokenize.
 */
PUMICE_API pumice_status pumice_session_tokens(const pumice_session* session, uint32_t* tokens,
                                               size_t capacity, size_t* count, pumice_error* error);

/* What might follow a conversation: exactly one of text and tokens is set. */
typedef struct pumice_continuation {
  const char* text; /* as pumice_request.text: it has no special tokens */
  const uint32_t* tokens;
  size_t token_count;
} pumice_continuation;

typedef struct pumice_continuation_score {
  /* The sum of its tokens' log-probabilities. Divided by `tokens`, long ones compare with short ones. */
  float log_probability;
  uint32_t tokens;
} pumice_continuation_score;

/* Tells how probable each of `count` continuations of the conversation is: for a choice among answers, or to
 * rank them. The conversation stays as it is, and a text that is being generated goes on with the next call.
 * The conversation is computed once, and up to eight continuations together. Each has at least one token, and
 * fits the context with the conversation, which is not empty and shows no pictures.
 *
 * The first call takes memory beside what pumice_session_estimate_memory counts, for keys and values of the
 * conversation with each of those continuations; pumice_session_suspend frees it. PUMICE_CANCELLED after
 * pumice_work_cancel. */
PUMICE_API pumice_status pumice_session_score(pumice_session* session,
                                              const pumice_continuation* continuations, size_t count,
                                              pumice_continuation_score* scores, pumice_error* error);

/* ---- chats: messages, which a model's template makes a prompt of ---- */

/* A model that was trained for chats expects a conversation in a form of its own, with marks around each
 * message. The template that comes with the model writes it. A chat has the messages, and a session or a
 * batch answers it: pumice_request.chat. The answer comes in parts (PUMICE_EVENT_PART) and is then the chat's
 * next message.
 *
 * What people and tools write stays text: special tokens that a message spells are never special tokens.
 *
 * A chat belongs to no session, and takes no memory of a device. One thread at a time uses it, with the
 * session or the batch that answers it. While it is being answered, it cannot be changed (PUMICE_NOT_READY).
 */
typedef enum pumice_thinking {
  PUMICE_THINKING_DEFAULT = 0, /* as the template has it */
  PUMICE_THINKING_OFF =
      1, /* the template is asked for answers without it; gpt-oss cannot, and thinks little */
  PUMICE_THINKING_ON = 2
} pumice_thinking;

typedef struct pumice_chat_options {
  size_t struct_size;
  const char* template_name; /* of one of the model's templates; NULL: the one for messages, or for tools */
  const char*
      template_text; /* a template in the language Jinja, in place of the model's; NULL: the model's */
  const char*
      tools;             /* JSON: a list of tools as the template expects them, usually {"type": "function",
                            "function": {"name": ..., "description": ..., "parameters": JSON schema}}; NULL: none */
  const char* variables; /* JSON: an object with all else that the template reads, as {"documents": [...]} */
  pumice_thinking thinking;
  /* 1: the chat keeps the file of each picture that it is given, or its pixels, and pumice_chat_write writes
   * it into the JSON: pixels as a PNG, which takes time. PUMICE_UNSUPPORTED by a library that was built
   * without PUMICE_PICTURE_FILES. */
  uint32_t keep_pictures;
  int64_t local_time; /* for templates that write the date: what the local clock shows, in seconds after it
                         showed 1970-01-01 00:00; 0: the current time, UTC. It stays the same for the chat */
  const char* thinking_marks; /* what the model writes around its thinking, with a comma between:
                                 "<think>,</think>"; NULL: what its template shows, or else this */
} pumice_chat_options;

/* PUMICE_NOT_FOUND if the model has no template, or none of this name; PUMICE_INVALID_FILE if its template is
 * damaged; PUMICE_INVALID_ARGUMENT for one of your own, with line and construct. */
PUMICE_API pumice_status pumice_chat_create(pumice_model* model, const pumice_chat_options* options,
                                            pumice_chat** chat, pumice_error* error);
/* An answer that is being generated goes on. */
PUMICE_API void pumice_chat_destroy(pumice_chat* chat);

/* Whether the calls of answers can only be what the chat's tools allow. PUMICE_UNSUPPORTED, with sentences
 * that name what cannot be held: how this model writes calls, or the schema of a tool, whose arguments are
 * then free. PUMICE_NOT_FOUND without tools. */
PUMICE_API pumice_status pumice_chat_check_calls(const pumice_chat* chat, pumice_error* error);

/* A picture that a message shows. Set pixels with width and height, or file. */
/* The bytes of a pixel. A fourth one is not looked at. */
typedef enum pumice_pixel_order {
  PUMICE_PIXELS_RGB = 0,
  PUMICE_PIXELS_RGBA = 1,
  PUMICE_PIXELS_BGRA = 2
} pumice_pixel_order;

typedef struct pumice_picture {
  size_t struct_size;
  const uint8_t* pixels; /* row by row from the top, as `order` and `row_bytes` say */
  uint32_t width, height;
  const void* file; /* a PNG or a JPEG as it is in a file; PUMICE_UNSUPPORTED by a library that was built
                       without PUMICE_PICTURE_FILES */
  size_t file_bytes;
  size_t row_bytes; /* from a row of `pixels` to the next one; 0: they follow each other */
  pumice_pixel_order order;
  uint32_t reserved; /* 0 */
} pumice_picture;

/* A sound that a message has. */
typedef struct pumice_sound {
  size_t struct_size;
  const float* samples; /* one channel, -1 to 1 */
  size_t count;
  uint32_t rate;     /* samples a second; 0: the model's own */
  uint32_t reserved; /* 0 */
} pumice_sound;

/* Text needs no quoting: what a player types is `content`, as it is. */
typedef struct pumice_message {
  size_t struct_size;
  const char* role;       /* "system", "user", "assistant", "tool", or another one that the template knows */
  const char* content;    /* NULL: "" */
  const char* thinking;   /* of an answer: what was thought before it; NULL: nothing */
  const char* tool_calls; /* of an answer, as JSON: a list of {"type": "function", "function": {"name": ...,
                             "arguments": {...}}}; NULL: none */
  const char* members;    /* all else that the template reads of a message, as JSON: an object such as
                             {"tool_call_id": "a1", "name": "weather"}; NULL: none */
  /* What it shows before its content. The call that adds the message decodes a file, or copies the pixels;
   * the session that answers resizes, cuts into tiles and normalises them, as the processor_config.json or
   * preprocessor_config.json beside the model says, and looks at them, all of it in slices. In an array of
   * them, all have the struct_size of the first. */
  const pumice_picture* pictures;
  size_t picture_count;
  /* The same of a model that hears: what is heard before its content. The call copies the samples; the
   * session computes their spectrum and listens, in slices. */
  const pumice_sound* sounds;
  size_t sound_count;
} pumice_message;

/* Adds a message to the end. With pictures, PUMICE_UNSUPPORTED for a model that does not see, and
 * PUMICE_INVALID_FILE for a file that is damaged or no picture; with sounds, PUMICE_UNSUPPORTED for a model
 * that does not hear, and PUMICE_INVALID_ARGUMENT for a sound that is too short or too long for it. */
PUMICE_API pumice_status pumice_chat_add(pumice_chat* chat, const pumice_message* message,
                                         pumice_error* error);
/* The number of messages. */
PUMICE_API size_t pumice_chat_count(const pumice_chat* chat);
/* Removes `count` messages from `first` on. To have a question answered again, remove the answer. */
PUMICE_API pumice_status pumice_chat_remove(pumice_chat* chat, size_t first, size_t count,
                                            pumice_error* error);
/* Forgets the oldest turn, for a context that is full: the first message of the role "user" with all up to
 * the second one, but not a first message of the role "system". `removed`, which may be NULL, is their
 * number. PUMICE_NOT_FOUND if there is only one turn. */
PUMICE_API pumice_status pumice_chat_forget(pumice_chat* chat, size_t* removed, pumice_error* error);

/* The conversation as JSON, and one from JSON in its place: {"messages": [{"role": "user", "content":
 * "Hi"}]}, with members for "tools" and the other variables. It is what `pumice template --messages` reads.
 * Reading keeps the chat's own variables where the JSON has none. `capacity` and `count` work as in
 * pumice_model_detokenize. */
PUMICE_API pumice_status pumice_chat_read(pumice_chat* chat, const char* json, pumice_error* error);
PUMICE_API pumice_status pumice_chat_write(const pumice_chat* chat, char* json, size_t capacity,
                                           size_t* count, pumice_error* error);
/* A message that is read may have pictures in itself, as {"type": "image_url", "image_url": {"url":
 * "data:image/png;base64,..."}} in the list that is its "content": a PNG or a JPEG. Nothing is fetched.
 * PUMICE_INVALID_ARGUMENT, PUMICE_INVALID_FILE or PUMICE_UNSUPPORTED with the message and the field; the chat
 * is then as it was. It is written so with pumice_chat_options.keep_pictures. Otherwise, and with sounds, a
 * message names each by a checksum, as {"type": "image", "checksum": "..."}, or "audio", and these give a
 * chat one for messages that it reads. */
PUMICE_API pumice_status pumice_chat_add_picture(pumice_chat* chat, const pumice_picture* picture,
                                                 pumice_error* error);
PUMICE_API pumice_status pumice_chat_add_sound(pumice_chat* chat, const pumice_sound* sound,
                                               pumice_error* error);
/* The prompt that the template makes of the messages. PUMICE_INVALID_ARGUMENT if the template refuses them,
 * does not end, or nests too deep: the message has what it says, with line and construct. */
PUMICE_API pumice_status pumice_chat_prompt(const pumice_chat* chat, char* text, size_t capacity,
                                            size_t* count, pumice_error* error);

/* ======== The rest ======== */

/* ---- work: what runs in slices ---- */

/* All that computes on the device can do so a slice at a time, in the time that a frame has left: sessions,
 * batches, encoders, embedders of texts, translators, captioners, transcribers, speakers and measurements.
 * Each hands out its work, which is valid as long as the object and needs no destroying. Whatever the
 * budgets, the results are the same as those of the functions that run to the end, bit for bit. */
typedef struct pumice_work pumice_work;

/* A slice, and what is known of earlier ones. Times are measured on the device. */
typedef struct pumice_slice {
  size_t struct_size;
  bool active;         /* there is more to do: call again */
  uint32_t dispatches; /* kernel launches in this slice; 0: nothing was submitted or recorded */
  float expected_us;   /* expected time of this slice: about as many slices take longer as take less */
  float largest_us;    /* expected time of the largest dispatch of the current step. A slice has at least one
                          dispatch, so it may take this long even if the budget is smaller */
  uint64_t finished;   /* slices of this work that are known to have finished, those of warm_up too */
  float measured_us;   /* time of the last of them; 0: unknown, the device has no timestamps */
  float predicted_us;  /* expected time of that slice */
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
  uint32_t reserved; /* 0 */
} pumice_sync;

/* Submits a slice: as much of the current and following steps as runs within `budget_us` of device time, by
 * all that was learned from earlier slices, with a margin for how much the latest ones varied. Does not wait
 * for the device. Calls the callbacks for slices that have finished. Submits at least one dispatch while
 * there is work, unless four slices are in flight already, or a model in stages waits for one. `sync` and
 * `slice` may be NULL; the semaphores of `sync` are signalled even if there is nothing to submit. */
PUMICE_API pumice_status pumice_work_advance(pumice_work* work, float budget_us, const pumice_sync* sync,
                                             pumice_slice* slice, pumice_error* error);

/* The same, but records the slice into a command buffer of your program. It must be a primary command buffer
 * in the recording state, outside of a render pass, of the queue family that Pumice uses. Submit it once, to
 * the queue that Pumice uses, before the command buffers of later slices. Pumice notices by itself when it
 * has run. Afterwards, the compute pipeline, its descriptor sets and push constants are others than before.
 */
PUMICE_API pumice_status pumice_work_record(pumice_work* work, VkCommandBuffer command_buffer,
                                            float budget_us, pumice_slice* slice, pumice_error* error);

/* Forgets recorded slices whose command buffers will not be submitted, and waits for slices that were. The
 * steps that they belong to start again. */
PUMICE_API pumice_status pumice_work_discard(pumice_work* work, pumice_error* error);

/* Stops what is under way, after at most one more submission. The function that runs to the end, or else the
 * next pumice_work_advance or pumice_work_record, returns PUMICE_CANCELLED once, and the object can be used
 * further. Only what there is now: what begins afterwards forgets it, and with nothing to cancel nothing
 * happens. From any thread, until the destroy function of the object begins. */
PUMICE_API void pumice_work_cancel(pumice_work* work);

/* Generates a slice at a time. After cancelling, the conversation keeps its tokens so far. */
PUMICE_API pumice_work* pumice_session_work(pumice_session* session);

/* ---- in the background: loading models and creating sessions on threads of their own ---- */

/* A load that runs on its own thread. */
typedef struct pumice_load pumice_load;

/* Starts loading. What `source` points to must stay valid until the load is destroyed. options->progress is
 * called from the new thread. */
PUMICE_API pumice_status pumice_load_start(pumice_device* device, const pumice_source* source,
                                           const pumice_load_options* options, pumice_load** load,
                                           pumice_error* error);
/* Whether it has ended, successfully or not, and its progress in bytes; `done` and `total` may be NULL. Never
 * waits. */
PUMICE_API bool pumice_load_poll(pumice_load* load, uint64_t* done, uint64_t* total);
/* Asks it to stop, from any thread; pumice_load_finish then returns PUMICE_CANCELLED. */
PUMICE_API void pumice_load_cancel(pumice_load* load);
/* Waits for the end and returns the model. A second call returns PUMICE_INVALID_ARGUMENT. */
PUMICE_API pumice_status pumice_load_finish(pumice_load* load, pumice_model** model, pumice_error* error);
/* Cancels the load if it has not ended, and waits for it. */
PUMICE_API void pumice_load_destroy(pumice_load* load);

/* Creates a session on a thread of its own. Compiling kernels takes some drivers seconds. */
typedef struct pumice_session_creation pumice_session_creation;

/* `options` is copied. options->progress is called from the new thread. */
PUMICE_API pumice_status pumice_session_creation_start(pumice_model* model,
                                                       const pumice_session_options* options,
                                                       pumice_session_creation** creation,
                                                       pumice_error* error);
/* Whether it has ended, successfully or not, and its progress; `done` and `total` may be NULL. Never waits.
 */
PUMICE_API bool pumice_session_creation_poll(pumice_session_creation* creation, uint64_t* done,
                                             uint64_t* total);
/* Asks it to stop, from any thread; pumice_session_creation_finish then returns PUMICE_CANCELLED. */
PUMICE_API void pumice_session_creation_cancel(pumice_session_creation* creation);
/* Waits for the end and returns the session. A second call returns PUMICE_INVALID_ARGUMENT. */
PUMICE_API pumice_status pumice_session_creation_finish(pumice_session_creation* creation,
                                                        pumice_session** session, pumice_error* error);
/* Cancels it if it has not ended, and waits for it. */
PUMICE_API void pumice_session_creation_destroy(pumice_session_creation* creation);

/* ---- your program's Vulkan device and memory ---- */

/* What Pumice can use of a physical device: for programs that make the VkDevice themselves. */
typedef struct pumice_features pumice_features;

/* `chain` is what you want yourself: your VkDeviceCreateInfo.pNext, or NULL. Features whose structures are
 * there are switched on in them; the structures of others are put before it. It must stay as it is until
 * pumice_features_destroy. PUMICE_UNSUPPORTED if Pumice cannot use the device; the message says why. */
PUMICE_API pumice_status pumice_features_create(pumice_get_instance_proc_addr get_instance_proc_addr,
                                                VkInstance instance, VkPhysicalDevice physical_device,
                                                void* chain, pumice_features** features, pumice_error* error);
PUMICE_API void pumice_features_destroy(pumice_features* features);
/* For VkDeviceCreateInfo.pNext, and for pumice_vulkan.features. Valid until pumice_features_destroy. */
PUMICE_API const void* pumice_features_chain(const pumice_features* features);
/* Extensions to enable in addition to yours, and to name in pumice_vulkan.extensions with them. Among them is
 * what a device of Vulkan 1.2 needs whose instance was made for 1.1: VK_KHR_timeline_semaphore,
 * VK_KHR_spirv_1_4 with VK_KHR_shader_float_controls, and those of the features. */
PUMICE_API const char* const* pumice_features_extensions(const pumice_features* features, uint32_t* count);

/* What Pumice would submit to a queue. The arrays are valid during the call; the handles until the semaphores
 * are signalled. */
typedef struct pumice_submission {
  size_t struct_size;
  const VkCommandBuffer* command_buffers; /* may be none */
  const VkSemaphore* wait;                /* at the stage of all commands */
  const uint64_t* wait_values;            /* of timeline semaphores; 0 of binary ones */
  const VkSemaphore* signal;
  const uint64_t* signal_values;
  uint32_t command_buffer_count;
  uint32_t wait_count;
  uint32_t signal_count;
  uint32_t queue_family;
} pumice_submission;

/* A Vulkan device that your program made and owns. All handles must outlive everything that is created from
 * the pumice_device. */
struct pumice_vulkan {
  size_t struct_size;                                   /* sizeof(pumice_vulkan) */
  pumice_get_instance_proc_addr get_instance_proc_addr; /* of the loader that made the instance; needed */
  VkInstance instance;                                  /* made for Vulkan 1.1 or newer */
  VkPhysicalDevice physical_device;
  VkDevice device;
  uint32_t queue_family; /* of `queue`; it must support compute */
  VkQueue queue;         /* may be NULL with `submit` */
  /* The pNext chain and the extensions of the VkDeviceCreateInfo that the device was made with. Pumice uses
   * no feature that is not enabled there. timelineSemaphore is required. For each other feature that would
   * make kernels faster on this device, a warning in the log says what its absence costs: CPUs need
   * bufferDeviceAddress; GPUs subgroupSizeControl with computeFullSubgroups, shaderIntegerDotProduct, and
   * cooperative matrices with vulkanMemoryModel and shaderFloat16. Without a warning, newer CPU drivers use
   * storageBuffer16BitAccess with shaderFloat16. pumice_features_create makes such a chain. */
  const void* features;
  const char* const* extensions;
  uint32_t extension_count;
  /* Called around every use of the queue, by the thread that uses it. Set both or neither. Pumice never calls
   * lock_queue again before unlock_queue on the same thread. */
  void* lock_user;
  void (*lock_queue)(void* lock_user);
  void (*unlock_queue)(void* lock_user);
  /* For a program that lends nobody its queue and its lock: takes what Pumice would submit, in place of both,
   * and submits it when it likes, also later and on another thread, in the order of the calls for each queue.
   * Called by the thread that computes, and by those that load, several at a time; it must not call Pumice.
   * Functions that wait for the device wait until what they need has been submitted and has run, without a
   * time limit: do not call them on the thread that submits. The destroy functions wait too. What it returns
   * other than PUMICE_OK is passed on to the caller, and nothing may be submitted of it. NULL: Pumice
   * submits. */
  void* submit_user;
  pumice_status (*submit)(void* submit_user, const pumice_submission* submission);
  /* A second queue, of another family or the same, by which weights are copied to the device while a model
   * is loaded: so frames and copies do not wait for each other. `queue` itself: as if there were none. */
  VkQueue copy_queue; /* may be NULL with `submit` */
  uint32_t copy_queue_family;
  uint32_t has_copy_queue; /* 1: there is one; 0: `queue` copies */
};

/* A range of device memory that your program gives to Pumice. */
typedef struct pumice_memory {
  VkDeviceMemory memory;
  uint64_t offset; /* where the range begins in it */
  void* handle;    /* for your own use in free and map; may be NULL */
} pumice_memory;

typedef struct pumice_memory_request {
  uint64_t bytes;
  uint64_t alignment;        /* of the offset */
  uint32_t memory_type_bits; /* the memory types that are allowed, a bit for each */
  uint32_t memory_type;      /* the one of them that Pumice prefers */
  bool host_visible;   /* the memory type must be host-visible and host-coherent; the memory will be mapped */
  bool device_address; /* VkMemoryAllocateFlagsInfo: VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT */
} pumice_memory_request;

/* Allocates device memory in place of vkAllocateMemory. Called from every thread that calls Pumice, possibly
 * from several at the same time. */
struct pumice_allocator {
  size_t struct_size;
  void* user;
  /* Fills `memory`. PUMICE_OUT_OF_MEMORY, or another failure, is passed on to the caller. */
  pumice_status (*allocate)(void* user, const pumice_memory_request* request, pumice_memory* memory);
  void (*free)(void* user, const pumice_memory* memory);
  /* Returns the host address of the first byte of the range, valid until it is freed; NULL: mapping failed.
   */
  void* (*map)(void* user, const pumice_memory* memory);
};

/* The Vulkan handles of a device, for example to make semaphores and buffers. `features`, `extensions`,
 * `submit` and the second queue are not among them. Call the lock functions around your own uses of the
 * queue. Valid until the device and everything created from it is destroyed. */
PUMICE_API pumice_status pumice_device_vulkan(const pumice_device* device, pumice_vulkan* vulkan,
                                              pumice_error* error);

/* ---- pictures of your renderer ---- */

/* A rectangle of a picture that the device has, such as a frame. */
typedef struct pumice_vulkan_image {
  size_t struct_size;
  VkImage image;   /* of one sample, made with VK_IMAGE_USAGE_TRANSFER_SRC_BIT */
  uint32_t format; /* VK_FORMAT_R8G8B8A8_UNORM or _SRGB, VK_FORMAT_B8G8R8A8_UNORM or _SRGB: models read the
                      bytes as they are */
  uint32_t layout; /* VkImageLayout: in which it is when the command buffer runs, and afterwards */
  uint32_t x, y;   /* of the rectangle's first pixel */
  uint32_t width, height;
  uint32_t mip_level, array_layer;
} pumice_vulkan_image;

/* Copies such pictures to the host, by command buffers of your program: for pumice_message.pictures, and all
 * else that takes a pumice_picture. */
typedef struct pumice_picture_copy pumice_picture_copy;

/* For pictures of up to so many pixels on each side, one at a time. */
PUMICE_API pumice_status pumice_picture_copy_create(pumice_device* device, uint32_t width, uint32_t height,
                                                    pumice_picture_copy** copy, pumice_error* error);
/* Waits for nothing. The command buffer is in the recording state, outside of a render pass, of a queue
 * family that can copy and that has the image. The copy waits for all commands before it in the queue. */
PUMICE_API pumice_status pumice_picture_copy_record(pumice_picture_copy* copy,
                                                    const pumice_vulkan_image* image,
                                                    VkCommandBuffer command_buffer, pumice_error* error);
/* What was recorded last, once your program knows that its command buffer has run. The pixels are valid until
 * the copy is recorded again, or destroyed. PUMICE_NOT_READY where nothing was recorded. */
PUMICE_API pumice_status pumice_picture_copy_picture(const pumice_picture_copy* copy, pumice_picture* picture,
                                                     pumice_error* error);
/* Not before command buffers with it have run, or have been dropped. */
PUMICE_API void pumice_picture_copy_destroy(pumice_picture_copy* copy);

/* ---- memory, before it is allocated ---- */

/* Device memory of a model and a session, or a batch, before anything is allocated; of a model in stages, of
 * all its devices together. The host needs only some KiB. */
typedef struct pumice_memory_estimate {
  size_t struct_size;
  uint64_t weights; /* of the model, once for all its sessions; without experts in the host's memory */
  uint64_t cache;   /* keys and values of the session, or of all texts of the batch */
  uint64_t scratch; /* of its steps */
  uint64_t loading; /* taken during loading only, beyond `cache` + `scratch`; freed afterwards */
  uint64_t peak;    /* the most at a time, for the model and one session or batch */
  bool fits;        /* peak is at most pumice_memory_report.available; of stages, on each device */
  uint32_t longest_context; /* the longest context with which it fits; 0: it does not fit at all */
  uint64_t host;            /* of the host, for experts that lie there */
  /* Of the session or batch, with defaults in place of zeros; with pumice_session_options.fit, as chosen. */
  uint32_t context;
  uint32_t chunk;
  pumice_cache_type cache_type;
  uint32_t reserved; /* 0 */
} pumice_memory_estimate;

/* Reads a model's header, and estimates the device memory of the model and one session with these options
 * (NULL: the defaults). */
PUMICE_API pumice_status pumice_session_estimate_memory(pumice_device* device, const pumice_source* source,
                                                        const pumice_load_options* load,
                                                        const pumice_session_options* options,
                                                        pumice_memory_estimate* estimate,
                                                        pumice_error* error);

/* ---- tokens ---- */

/* Special tokens are not text: the beginning of a text, its end, a role in a chat. A text that a player types
 * may spell one ("</s>"). Text stays text, wherever it is handed in: it never gives a special token, unless
 * PUMICE_PARSE_SPECIAL is set, the text is pumice_request.before or after, or an embedder, a reranker, a
 * classifier or an index reads it. */
typedef enum pumice_tokenize_flags {
  PUMICE_ADD_SPECIAL = 1,  /* the special tokens that the model expects around a text */
  PUMICE_PARSE_SPECIAL = 2 /* special tokens that the text spells, such as "<|im_start|>" */
} pumice_tokenize_flags;

/* The tokens of a text. Writes at most `capacity` of them to `tokens`, and the number of all to `count`; it
 * is no error if they do not fit. `flags`: pumice_tokenize_flags, or 0. `tokens` may be NULL if capacity is
 * 0. */
PUMICE_API pumice_status pumice_model_tokenize(const pumice_model* model, const char* text, uint32_t flags,
                                               uint32_t* tokens, size_t capacity, size_t* count,
                                               pumice_error* error);
/* The text of tokens, without special ones. Zero-terminated and cut to `capacity` bytes; `count` is the
 * length of the whole text without the zero. */
PUMICE_API pumice_status pumice_model_detokenize(const pumice_model* model, const uint32_t* tokens,
                                                 size_t token_count, char* text, size_t capacity,
                                                 size_t* count, pumice_error* error);

typedef enum pumice_token_role {
  PUMICE_ROLE_BEGIN = 1,     /* begins a text */
  PUMICE_ROLE_END = 2,       /* each of them ends a text */
  PUMICE_ROLE_UNKNOWN = 3,   /* stands for what the vocabulary lacks */
  PUMICE_ROLE_PADDING = 4,   /* fills up to a length */
  PUMICE_ROLE_SEPARATOR = 5, /* between two texts */
  PUMICE_ROLE_MASK = 6       /* to be guessed */
} pumice_token_role;

/* The tokens that have a role in this model, none or several, as its settings or its tokenizer name them.
 * `tokens`, `capacity` and `count` work as in pumice_model_tokenize. */
PUMICE_API pumice_status pumice_model_role_tokens(const pumice_model* model, pumice_token_role role,
                                                  uint32_t* tokens, size_t capacity, size_t* count,
                                                  pumice_error* error);
/* The token that the vocabulary spells so, special or not: "<|im_end|>". PUMICE_NOT_FOUND if there is none.
 */
PUMICE_API pumice_status pumice_model_find_token(const pumice_model* model, const char* name, uint32_t* token,
                                                 pumice_error* error);
/* Whether a token is special, and how the vocabulary spells it; `special` may be NULL. `name`, `capacity` and
 * `count` work as in pumice_model_detokenize. */
PUMICE_API pumice_status pumice_model_token_name(const pumice_model* model, uint32_t token, bool* special,
                                                 char* name, size_t capacity, size_t* count,
                                                 pumice_error* error);

/* ---- conversations: fork, save, suspend ---- */

/* Creates another session with the same conversation. Its keys and values are copied on the device, not
 * computed again, so that several sessions can begin with the same long prompt. A text that `session`
 * generates goes on there, after the slices under way have been waited for (PUMICE_NOT_READY while a recorded
 * one has not finished); in the fork, pumice_session_generate goes on with the tokens so far. `options` is
 * for the fork, whose cache type must be that of `session`, and whose context must have room for the
 * conversation (or else PUMICE_CONTEXT_FULL); NULL: the options of `session`, without on_event, progress and
 * logits. With another context or chunk, a model whose layers see a window only computes a conversation again
 * that is longer. */
PUMICE_API pumice_status pumice_session_fork(pumice_session* session, const pumice_session_options* options,
                                             pumice_session** fork, pumice_error* error);

/* Saves the conversation with its keys and values to a file, and restores it, into any session of the same
 * model and cache type whose context it fits. A damaged or foreign file is an error. A text that was being
 * generated ends. Continue with pumice_session_generate.
 * Saving replaces an older file only when the new one is complete. A symbolic link stays, and the file that
 * it leads to is replaced; a device or a pipe is written as it is; a folder or a write-protected file is an
 * error. */
PUMICE_API pumice_status pumice_session_save(pumice_session* session, const char* path, pumice_error* error);
PUMICE_API pumice_status pumice_session_restore(pumice_session* session, const char* path,
                                                pumice_error* error);

/* The same without a file: into whatever takes the bytes, and from memory. `write` is called several times,
 * in order; false: PUMICE_IO. `bytes` is used during the call only. */
typedef bool (*pumice_write_function)(void* user, const void* bytes, size_t count);
PUMICE_API pumice_status pumice_session_write(pumice_session* session, pumice_write_function write,
                                              void* user, pumice_error* error);
PUMICE_API pumice_status pumice_session_read(pumice_session* session, const void* bytes, size_t count,
                                             pumice_error* error);

/* Moves the session's keys and values to the host's memory and frees all its device memory. Until
 * pumice_session_resume, only pumice_session_tokens and pumice_session_destroy work; everything else fails
 * with PUMICE_NOT_READY. */
PUMICE_API pumice_status pumice_session_suspend(pumice_session* session, pumice_error* error);

/* Recreates the session: after pumice_session_suspend on the same model, after PUMICE_DEVICE_LOST on a model
 * that was loaded from the same file on a new device. A text that was being generated continues with the
 * tokens that would have come. Keys and values that were not saved are computed again at the next call, which
 * on GPUs may round differently (runtime/README.md, "Which bits are the same"). */
PUMICE_API pumice_status pumice_session_resume(pumice_session* session, pumice_model* model,
                                               pumice_error* error);

/* ---- batches: several texts that are generated in the same steps ---- */

/* Several characters that speak at the same time take little longer than one: each step reads the weights
 * once for all of them. Each gets the same text as alone, whatever the steps and slices that it runs in. */
typedef struct pumice_batch pumice_batch;

typedef struct pumice_batch_options {
  size_t struct_size;
  uint32_t texts;   /* most texts at a time, at most `chunk` and 1,024; further ones wait; 0: 1 */
  uint32_t context; /* as in pumice_session_options, for each text */
  uint32_t chunk;
  pumice_cache_type cache;
  uint32_t threads;
  bool warm_up; /* as there, also for steps of several texts */
  bool (*progress)(void* user, uint64_t done, uint64_t total);
  void* progress_user;
  uint32_t drafts;           /* as there, of each text */
  uint32_t adapters;         /* as there; a text whose adapter finds no place waits until one is free */
  pumice_model* draft_model; /* as there */
  /* Not 0: while texts are generated, the prompts of others are read in pieces, so that no text is expected
   * to wait longer for a token. The pieces are as long as earlier steps tell, and at least one token. In
   * slices, what counts is the time from the first slice of a step until its tokens are known. */
  float max_stall_us;
  /* Keys and values of all texts together, of so many tokens, and at least one text's context; 0: texts times
   * context. What texts begin with alike counts once. A text waits until there is room for its prompt and its
   * max_tokens. In stages, and where one binding is too small for them, there is room for all. */
  uint32_t cache_tokens;
} pumice_batch_options;

/* As pumice_session_estimate_memory, for the model and one batch with these options. */
PUMICE_API pumice_status pumice_batch_estimate_memory(pumice_device* device, const pumice_source* source,
                                                      const pumice_load_options* load,
                                                      const pumice_batch_options* options,
                                                      pumice_memory_estimate* estimate, pumice_error* error);

PUMICE_API pumice_status pumice_batch_create(pumice_model* model, const pumice_batch_options* options,
                                             pumice_batch** batch, pumice_error* error);
PUMICE_API void pumice_batch_destroy(pumice_batch* batch);

/* Creates a batch on a thread of its own, as pumice_session_creation_start does a session; the functions are
 * those of a pumice_session_creation. */
typedef struct pumice_batch_creation pumice_batch_creation;
PUMICE_API pumice_status pumice_batch_creation_start(pumice_model* model, const pumice_batch_options* options,
                                                     pumice_batch_creation** creation, pumice_error* error);
PUMICE_API bool pumice_batch_creation_poll(pumice_batch_creation* creation, uint64_t* done, uint64_t* total);
PUMICE_API void pumice_batch_creation_cancel(pumice_batch_creation* creation);
PUMICE_API pumice_status pumice_batch_creation_finish(pumice_batch_creation* creation, pumice_batch** batch,
                                                      pumice_error* error);
PUMICE_API void pumice_batch_creation_destroy(pumice_batch_creation* creation);

/* Adds a text, also while others are being generated, and between slices: it joins them with the first
 * step that is not under way yet; at most eight are. `text` is its number from then on. The request must
 * bring the whole prompt; `new_conversation` does not matter. The beginning that a prompt has in common with
 * an earlier one of this batch, such as the conversation so far, is not computed again if it is still there.
 */
PUMICE_API pumice_status pumice_batch_add(pumice_batch* batch, const pumice_request* request, uint32_t* text,
                                          pumice_error* error);
/* The same, for a text that goes on with the conversation of a session: what the request brings follows it,
 * or with `new_conversation` and with a chat is the whole prompt. The session's keys and values are copied on
 * the device, if a text may begin at once; otherwise they are computed again. A text that `session` generates
 * goes on there, after the slices under way have been waited for, and so do those of the batch. Both have the
 * same model on the same device, and the same cache type. PUMICE_NOT_READY while a recorded slice of either
 * has not finished. */
PUMICE_API pumice_status pumice_batch_fork(pumice_batch* batch, pumice_session* session,
                                           const pumice_request* request, uint32_t* text,
                                           pumice_error* error);
/* Ends a text, and forgets its events. No error if it has ended already. Does not wait: what the steps under
 * way compute for it is thrown away. */
PUMICE_API pumice_status pumice_batch_drop(pumice_batch* batch, uint32_t text, pumice_error* error);

/* Runs slices to the end of one step, and waits: the next token of each text whose prompt has been read, and
 * at most a chunk of the prompts of others. On CPU drivers, where fewer texts at a time are faster together,
 * texts take turns. `active`, which may be NULL: there is more to do. After PUMICE_CANCELLED, or an error of
 * the device, all texts have ended with PUMICE_FINISH_CANCELLED; more can be added. PUMICE_NOT_READY while a
 * recorded slice has not finished. */
PUMICE_API pumice_status pumice_batch_step(pumice_batch* batch, bool* active, pumice_error* error);

/* The next event of any text, see pumice_event.text_id; NULL: there is none now. Valid until the next call
 * with this batch. */
PUMICE_API const pumice_event* pumice_batch_poll(pumice_batch* batch);

/* Runs them a slice at a time. slice.active: there is a text that has not ended. Cancelling ends all of them:
 * pumice_batch_step, or else the next slice, returns PUMICE_CANCELLED once. */
PUMICE_API pumice_work* pumice_batch_work(pumice_batch* batch);

/* A text of a batch is the prompt and what was generated behind it. These are for texts that run, or whose
 * last event is still to be polled or was polled last.
 *
 * Its tokens so far, as pumice_session_tokens writes those of a session. */
PUMICE_API pumice_status pumice_batch_tokens(const pumice_batch* batch, uint32_t text, uint32_t* tokens,
                                             size_t capacity, size_t* count, pumice_error* error);
/* Saves a text to a file, as pumice_session_save does a session's conversation; the text goes on. A session
 * of the same model and cache type can restore it, and a batch what a session has saved. */
PUMICE_API pumice_status pumice_batch_save(pumice_batch* batch, uint32_t text, const char* path,
                                           pumice_error* error);
PUMICE_API pumice_status pumice_batch_write(pumice_batch* batch, uint32_t text, pumice_write_function write,
                                            void* user, pumice_error* error);
/* Adds a text that goes on with a saved one: what the request brings follows it, or with `new_conversation`
 * and with a chat is the whole prompt. The keys and values that were saved are used if the text may begin at
 * once; otherwise they are computed again. */
PUMICE_API pumice_status pumice_batch_restore(pumice_batch* batch, const char* path,
                                              const pumice_request* request, uint32_t* text,
                                              pumice_error* error);
PUMICE_API pumice_status pumice_batch_read(pumice_batch* batch, const void* bytes, size_t count,
                                           const pumice_request* request, uint32_t* text,
                                           pumice_error* error);

/* ---- encoders ---- */

typedef struct pumice_encoder pumice_encoder;

typedef struct pumice_encoder_options {
  size_t struct_size;
  /* The name of the result. With a row for each token: "last_hidden_state", "hidden_states.N". With a row for
   * each input: "sentence_embedding_mean" or "sentence_embedding_cls", normalised to length 1, and if the
   * model has them "pooler_output", "logits", and in a space of texts and pictures "text_embeds" and
   * "image_embeds", of length 1. NULL: "sentence_embedding_mean". */
  const char* output;
  uint32_t tokens; /* most tokens of all inputs of one step together; 0: as many as one input has at most; for
                      pictures and sounds, as many as `inputs` of them have */
  uint32_t inputs; /* most inputs of one step; 0: 1 */
  /* If set, input values are read from there, f32[inputs, input_values], instead of from pumice_input.values.
   */
  pumice_buffer input_buffer;
  /* If set, the result is also copied there, f32[rows, columns], as many rows as fit. */
  pumice_buffer output_buffer;
} pumice_encoder_options;

PUMICE_API pumice_status pumice_encoder_create(pumice_model* model, const pumice_encoder_options* options,
                                               pumice_encoder** encoder, pumice_error* error);
PUMICE_API void pumice_encoder_destroy(pumice_encoder* encoder);
/* The number of floats in a row of the result. */
PUMICE_API uint32_t pumice_encoder_columns(const pumice_encoder* encoder);

/* Set one of text, tokens, values and pixels. In an array of them, all have the struct_size of the first. */
typedef struct pumice_input {
  size_t struct_size;
  const char* text; /* cut to the longest input that the encoder reads, special tokens included */
  const uint32_t* tokens;
  size_t token_count;
  const float* values; /* of a picture or a sound: pumice_model_info.input_values of them */
  /* A picture, row by row from the top. It is resized and normalised as the processor_config.json or
   * preprocessor_config.json beside the model says, or else as for ViT. */
  const uint8_t* pixels;
  uint32_t width, height;
  size_t row_bytes; /* from a row of `pixels` to the next one; 0: they follow each other */
  pumice_pixel_order order;
  uint32_t reserved; /* 0 */
} pumice_input;

/* Runs inputs in one step and waits. Writes the result, f32[rows, columns], input after input, to `values`:
 * at most `capacity` floats, and the number of all to `count`. PUMICE_CANCELLED after pumice_work_cancel.
 * `values` may be NULL if capacity is 0. */
PUMICE_API pumice_status pumice_encoder_encode(pumice_encoder* encoder, const pumice_input* inputs,
                                               size_t input_count, float* values, size_t capacity,
                                               size_t* count, pumice_error* error);

/* The same a slice at a time: pumice_encoder_begin with the inputs, then slices of pumice_encoder_work until
 * slice.active is false, then pumice_encoder_read. After a discard the inputs start again. */
PUMICE_API pumice_status pumice_encoder_begin(pumice_encoder* encoder, const pumice_input* inputs,
                                              size_t input_count, pumice_error* error);
PUMICE_API pumice_work* pumice_encoder_work(pumice_encoder* encoder);
PUMICE_API pumice_status pumice_encoder_read(pumice_encoder* encoder, float* values, size_t capacity,
                                             size_t* count, pumice_error* error);

/* ---- embedders, rerankers, classifiers, text indexes: what the commands `pumice embed`, `rerank`,
 * `classify`, `fill` and `search` do, with the same results, options and defaults ---- */

/* A text is read as the model's tokenizer reads it: special tokens that it spells become those tokens. One
 * that is too long is cut; `cut`, which may be NULL, is how many were. Texts and pictures take as many steps
 * as needed. Messages name options as the commands do: --query-prefix is query_prefix. */

typedef struct pumice_embedder pumice_embedder;

typedef struct pumice_embedder_options {
  size_t struct_size;
  const char* pooling; /* how the vectors of a text's tokens become one: "mean", "cls" or "last"; NULL: as the
                          model's settings say, or else "mean", and of a decoder "last" */
  int32_t normalize;   /* 1: vectors of length 1; -1: as they come; 0: as the settings say, or else 1 */
  uint32_t dimensions; /* only the first so many numbers of each vector; 0: all */
  const char* prompt;  /* the name of the model's prompt that comes before each text, "query"; NULL: the one
                          that its settings name */
  const char* prefix;  /* comes before each text in place of a prompt; NULL: none */
  uint32_t max_tokens; /* of a text; 0: as the settings say, at most 8,192 */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
  /* 1: of a masked language model trained for it (SPLADE) and loaded with PUMICE_FOR_SCORES, a weight for
   * each token of the vocabulary, most of them 0; pooling, normalize and dimensions have no effect. */
  uint32_t sparse;
  uint32_t reserved; /* 0 */
} pumice_embedder_options;

/* Turns texts into vectors, or pictures, or with pumice_load_options.vision both in one space.
 * PUMICE_UNSUPPORTED for a decoder that was not loaded for it: see pumice_load_options.purpose. */
PUMICE_API pumice_status pumice_embedder_create(pumice_model* model, const pumice_embedder_options* options,
                                                pumice_embedder** embedder, pumice_error* error);
PUMICE_API void pumice_embedder_destroy(pumice_embedder* embedder);
/* The number of floats of a vector. */
PUMICE_API uint32_t pumice_embedder_columns(const pumice_embedder* embedder);
/* Writes a vector for each of `count` texts to `values`, f32[count, columns], and waits. */
PUMICE_API pumice_status pumice_embedder_embed(pumice_embedder* embedder, const char* const* texts,
                                               size_t count, float* values, size_t* cut, pumice_error* error);
/* The same of pictures, which all have the struct_size of the first. */
PUMICE_API pumice_status pumice_embedder_embed_pictures(pumice_embedder* embedder,
                                                        const pumice_picture* pictures, size_t count,
                                                        float* values, pumice_error* error);
/* Texts a slice at a time: pumice_embedder_begin, then slices of pumice_embedder_work until slice.active is
 * false, then pumice_embedder_read, which writes at most `capacity` floats of f32[count, columns], and how
 * many there are to `count`. After a discard, the step under way starts again. */
PUMICE_API pumice_status pumice_embedder_begin(pumice_embedder* embedder, const char* const* texts,
                                               size_t count, size_t* cut, pumice_error* error);
PUMICE_API pumice_work* pumice_embedder_work(pumice_embedder* embedder);
PUMICE_API pumice_status pumice_embedder_read(pumice_embedder* embedder, float* values, size_t capacity,
                                              size_t* count, pumice_error* error);
/* From any thread: a function that runs returns PUMICE_CANCELLED after at most one more step; of slices, the
 * next one. */
PUMICE_API void pumice_embedder_cancel(pumice_embedder* embedder);

typedef struct pumice_reranker pumice_reranker;

typedef struct pumice_reranker_options {
  size_t struct_size;
  const char* instruction; /* of a decoder: what a text has to do for the query; NULL: the model's, or that it
                              answers the query */
  bool raw;            /* the model's logit (of several labels, that of label 1) in place of a probability */
  uint32_t max_tokens; /* of a pair; 0: the model's limit, at most 8,192 */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
  uint32_t reserved;     /* 0 */
} pumice_reranker_options;

/* Scores how well texts answer a query. A score is a probability: of one label the sigmoid of its logit, of
 * several the softmax probability of label 1, of a decoder without labels that of "yes" against "no". Of a
 * model of late interaction (ColBERT) it is a sum of cosines, over the query's tokens. */
PUMICE_API pumice_status pumice_reranker_create(pumice_model* model, const pumice_reranker_options* options,
                                                pumice_reranker** reranker, pumice_error* error);
PUMICE_API void pumice_reranker_destroy(pumice_reranker* reranker);
/* Writes the score of each of `count` texts to `scores`, and waits. */
PUMICE_API pumice_status pumice_reranker_score(pumice_reranker* reranker, const char* query,
                                               const char* const* texts, size_t count, float* scores,
                                               size_t* cut, pumice_error* error);
PUMICE_API void pumice_reranker_cancel(pumice_reranker* reranker);

typedef struct pumice_classifier pumice_classifier;

typedef struct pumice_classifier_options {
  size_t struct_size;
  /* Of a model of texts and pictures in one space, which has no labels of its own and is loaded with
   * pumice_load_options.vision. Others have theirs, and take none. */
  const char* const* labels;
  size_t label_count;
  const char* sentence;  /* that stands for a label, with {} in its place; NULL: "This is a photo of {}." */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
  uint32_t reserved;     /* 0 */
} pumice_classifier_options;

/* Finds how probable each label is for texts or pictures. The probabilities sum to 1, or each label has its
 * own, as the model's settings say; of a regression, they are its results. */
PUMICE_API pumice_status pumice_classifier_create(pumice_model* model,
                                                  const pumice_classifier_options* options,
                                                  pumice_classifier** classifier, pumice_error* error);
PUMICE_API void pumice_classifier_destroy(pumice_classifier* classifier);
PUMICE_API size_t pumice_classifier_label_count(const pumice_classifier* classifier);
/* A label, valid as long as the classifier; NULL if there is none of this index. */
PUMICE_API const char* pumice_classifier_label(const pumice_classifier* classifier, size_t index);
/* Writes the probability of each label for each of `count` texts, f32[count, labels], and waits. */
PUMICE_API pumice_status pumice_classifier_classify(pumice_classifier* classifier, const char* const* texts,
                                                    size_t count, float* probabilities, size_t* cut,
                                                    pumice_error* error);
/* The same of pictures, which all have the struct_size of the first. */
PUMICE_API pumice_status pumice_classifier_classify_pictures(pumice_classifier* classifier,
                                                             const pumice_picture* pictures, size_t count,
                                                             float* probabilities, pumice_error* error);
PUMICE_API void pumice_classifier_cancel(pumice_classifier* classifier);

/* A part of a text. */
typedef struct pumice_span {
  size_t index;      /* of the text that has it, or of the question that it answers */
  size_t begin, end; /* bytes of the text: whole characters, without white space around them */
  float score;       /* a probability */
  uint32_t reserved;
  const char* label; /* NULL: an answer has none */
} pumice_span;

typedef struct pumice_tagger pumice_tagger;

typedef struct pumice_tagger_options {
  size_t struct_size;
  uint32_t
      max_tokens; /* of a window, of which a longer text has several; 0: the model's limit, at most 8,192 */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
} pumice_tagger_options;

/* Finds the parts of texts that have a label, such as names, by a model that labels each token
 * (BertForTokenClassification). */
PUMICE_API pumice_status pumice_tagger_create(pumice_model* model, const pumice_tagger_options* options,
                                              pumice_tagger** tagger, pumice_error* error);
PUMICE_API void pumice_tagger_destroy(pumice_tagger* tagger);
/* Reads `count` texts of any length, and waits. Neighbouring tokens of one label are one part: "B-X" begins
 * one and "I-X" goes on with it, and label "O" is none. The spans come in the order of the texts. They are in
 * Pumice's memory, valid until the next call with this tagger. */
PUMICE_API pumice_status pumice_tagger_tag(pumice_tagger* tagger, const char* const* texts, size_t count,
                                           const pumice_span** spans, size_t* span_count,
                                           pumice_error* error);
PUMICE_API void pumice_tagger_cancel(pumice_tagger* tagger);

typedef struct pumice_answerer pumice_answerer;

typedef struct pumice_answerer_options {
  size_t struct_size;
  uint32_t top;               /* answers to each question; 0: 1 */
  uint32_t max_answer_tokens; /* of the longest answer; 0: 15 */
  uint32_t max_tokens;   /* of a window, with the question, of which a longer text has several; 0: 384, or the
                            model's limit */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
} pumice_answerer_options;

/* Finds the parts of a text that answer a question, by a model that was trained for it
 * (BertForQuestionAnswering). */
PUMICE_API pumice_status pumice_answerer_create(pumice_model* model, const pumice_answerer_options* options,
                                                pumice_answerer** answerer, pumice_error* error);
PUMICE_API void pumice_answerer_destroy(pumice_answerer* answerer);
/* Answers `count` questions from a text of any length, and waits. For each question, in their order, come its
 * answers, best first: whole words, whose score is low where the text has no answer. They are in Pumice's
 * memory, valid until the next call with this answerer. */
PUMICE_API pumice_status pumice_answerer_answer(pumice_answerer* answerer, const char* text,
                                                const char* const* questions, size_t count,
                                                const pumice_span** answers, size_t* answer_count,
                                                pumice_error* error);
PUMICE_API void pumice_answerer_cancel(pumice_answerer* answerer);

typedef struct pumice_filler pumice_filler;

typedef struct pumice_filler_options {
  size_t struct_size;
  uint32_t top;          /* words for each gap; 0: 5 */
  uint32_t max_tokens;   /* of a text; 0: the model's limit, at most 8,192 */
  uint32_t batch_tokens; /* most tokens of a step; 0: 2,048 */
  uint32_t reserved;     /* 0 */
} pumice_filler_options;

/* A word for a gap. */
typedef struct pumice_fill {
  size_t text;  /* its index */
  uint32_t gap; /* of the text's, from 0 */
  uint32_t token;
  float probability;
  uint32_t reserved;
  const char* word; /* without spaces around it */
} pumice_fill;

/* Finds the most probable words for the gaps of texts, by a masked language model such as BERT, which was
 * loaded with PUMICE_FOR_SCORES. */
PUMICE_API pumice_status pumice_filler_create(pumice_model* model, const pumice_filler_options* options,
                                              pumice_filler** filler, pumice_error* error);
PUMICE_API void pumice_filler_destroy(pumice_filler* filler);
/* Fills each gap of `count` texts by itself, and waits. A gap is written as "[MASK]" or "<mask>"; each text
 * has one at least. For each gap, in the order of the texts, come its `top` words, best first. `fills` and
 * their words are in Pumice's memory, valid until the next call with this filler. */
PUMICE_API pumice_status pumice_filler_fill(pumice_filler* filler, const char* const* texts, size_t count,
                                            const pumice_fill** fills, size_t* fill_count, size_t* cut,
                                            pumice_error* error);
PUMICE_API void pumice_filler_cancel(pumice_filler* filler);

/* The passages of the text files in a folder, and their vectors, which are kept in a folder of the index. The
 * command `pumice search` reads what this writes, and the other way round. */
typedef struct pumice_index pumice_index;

typedef struct pumice_index_options {
  size_t struct_size;
  const char* folder;  /* of the texts: all below it that are UTF-8; needed */
  const char* index;   /* where the vectors are kept; NULL: `folder` with ".index" */
  const char* pooling; /* as of an embedder */
  uint32_t dimensions;
  uint32_t max_tokens;
  uint32_t batch_tokens;
  bool rebuild;             /* makes the index again, of all files, with the next update */
  const char* query_prefix; /* comes before each query; NULL: the model's prompt "query" */
  const char* text_prefix;  /* before each passage; NULL: the model's prompt "document" or "passage" */
  uint32_t sparse;          /* 1: compares sparse vectors, as of an embedder */
  uint32_t reserved;        /* 0 */
} pumice_index_options;

PUMICE_API pumice_status pumice_index_create(pumice_model* model, const pumice_index_options* options,
                                             pumice_index** index, pumice_error* error);
PUMICE_API void pumice_index_destroy(pumice_index* index);
/* Brings the index up to date with the folder, and waits: only files that have changed are read. What cannot
 * be read, of files or of passages, is left out. `progress`
 * gets the number of passages done and of all new ones; if it returns false, the update ends with
 * PUMICE_CANCELLED, and the next one goes on there; until then, nothing can be found. It may be NULL.
 * PUMICE_INVALID_ARGUMENT for an index that another model or other options made. */
PUMICE_API pumice_status pumice_index_update(pumice_index* index,
                                             bool (*progress)(void* user, uint64_t done, uint64_t total),
                                             void* user, pumice_error* error);

typedef struct pumice_passage {
  float score; /* the cosine of its vector and the query's; of sparse vectors their product; of late
                  interaction as a reranker's */
  uint32_t reserved;
  uint64_t line;    /* its first in the file, from 1 */
  const char* file; /* in the folder, with / between names */
  const char* text;
} pumice_passage;

/* The best passages for a query, best first, at most `top`, and waits; by sparse vectors, only those that
 * share a token with the query. `passages` and their strings are in Pumice's memory, valid until the next
 * call with this index. PUMICE_NOT_READY before an update. */
PUMICE_API pumice_status pumice_index_search(pumice_index* index, const char* query, size_t top,
                                             const pumice_passage** passages, size_t* count,
                                             pumice_error* error);
PUMICE_API void pumice_index_cancel(pumice_index* index);

/* ---- translators: texts to texts, by an encoder with a decoder ---- */

/* When a search with beams ends (transformers' early_stopping). */
typedef enum pumice_early_stopping {
  PUMICE_EARLY_STOPPING_DEFAULT = 0, /* as in the model's settings */
  PUMICE_EARLY_STOPPING_NO = 1,      /* when a better text is unlikely */
  PUMICE_EARLY_STOPPING_YES = 2,     /* once there are as many complete texts as beams */
  PUMICE_EARLY_STOPPING_NEVER = 3    /* when a better text is impossible */
} pumice_early_stopping;

/* How a translator or a captioner writes. */
typedef struct pumice_writing_options {
  size_t struct_size;
  uint32_t beams;  /* texts that are continued to find the best, at most 64; 0: as in the model's settings */
  uint32_t n_best; /* texts of each input, at most as many as beams; 0: 1 */
  float length_penalty; /* scores are divided by a text's length to this power; 0: as in the settings */
  pumice_early_stopping early_stopping;
  uint32_t no_repeat_ngram;        /* no sequence of so many tokens occurs twice; 0: as in the settings */
  uint32_t max_tokens;             /* of each text; 0: as in the settings, or as many as fit */
  uint32_t inputs;                 /* most inputs that run together; 0: 1 */
  bool scores;                     /* texts have scores without beams, too */
  const pumice_sampling* sampling; /* without beams; NULL: the most probable token each time */
} pumice_writing_options;

/* A text that was written, in Pumice's memory: valid until the next call with the same object. */
typedef struct pumice_written {
  const char* text;       /* without special tokens and the token that ended it */
  const uint32_t* tokens; /* that one included */
  size_t token_count;
  float score; /* the sum of the tokens' logarithms of probabilities, divided as length_penalty says */
  /* With pumice_translator_options.alignment: pairs of a word of the source and the word of this text that
   * comes from it, counted from 0. White space separates words; a Chinese character is one. */
  const uint32_t* alignment;
  size_t alignment_count; /* pairs */
} pumice_written;

typedef struct pumice_translator pumice_translator;

typedef struct pumice_translator_options {
  size_t struct_size;
  /* Languages by their names in English or their codes: "German", "de", "deu_Latn". NULL: the model's. A
   * model that needs one (M2M-100, NLLB) is PUMICE_INVALID_ARGUMENT without it. The target may be any other
   * token, or its id: the translation begins with it. */
  const char* source_language;
  const char* target_language;
  const char* task; /* that the model's settings define, as T5's do: "translation_en_to_de"; NULL: none */
  /* Put before each text. Special tokens that it spells become those tokens, for example the language to
   * translate into, ">>fra<<". NULL: as in the task or the model's settings. */
  const char* prefix;
  /* Fixed terms: a term, a tab and its translation on each line. Where a text has the term as a word, its
   * translation contains the other, which takes at least 2 beams; without beams in `writing`, there are 8. */
  const char* glossary;
  uint32_t input_tokens; /* most tokens of a text; 0: the model's own limit */
  bool sentences;        /* each sentence is translated by itself, and the translations are joined again */
  bool alignment;        /* links words: another pass over each text, in pumice_translator_result */
  const pumice_writing_options* writing; /* NULL: as in the model's settings */
} pumice_translator_options;

PUMICE_API pumice_status pumice_translator_create(pumice_model* model,
                                                  const pumice_translator_options* options,
                                                  pumice_translator** translator, pumice_error* error);
PUMICE_API void pumice_translator_destroy(pumice_translator* translator);

/* Of one sentence, with pumice_translator_options.sentences. */
typedef struct pumice_sentence {
  const char* source;
  const pumice_written* texts; /* best first */
  size_t text_count;
} pumice_sentence;

/* What a text became. In Pumice's memory: valid until the next call with this translator. */
typedef struct pumice_translation {
  const pumice_written* texts; /* best first, at least one; that of a blank text is empty */
  size_t text_count;
  const pumice_sentence* sentences;
  size_t sentence_count;
  bool truncated;    /* the text was too long, and its end was left out */
  bool lacks_a_term; /* of the glossary, because it may have no more tokens */
} pumice_translation;

/* Translates texts and waits; pumice_translator_result then has what they became. PUMICE_CANCELLED after
 * pumice_work_cancel. */
PUMICE_API pumice_status pumice_translator_translate(pumice_translator* translator, const char* const* texts,
                                                     size_t count, pumice_error* error);
/* The translation of one of the last texts, by its index. PUMICE_NOT_READY before all are translated. */
PUMICE_API pumice_status pumice_translator_result(pumice_translator* translator, size_t index,
                                                  const pumice_translation** translation,
                                                  pumice_error* error);

/* The same a slice at a time: pumice_translator_begin with the texts, then slices of pumice_translator_work
 * until slice.active is false, then pumice_translator_result. Each token of a translation with beams, or of a
 * model whose settings have rules for tokens, is chosen by the call that finds its step finished; until then
 * there is nothing to submit, and slice.dispatches is 0. After a discard the translations start again. */
PUMICE_API pumice_status pumice_translator_begin(pumice_translator* translator, const char* const* texts,
                                                 size_t count, pumice_error* error);
PUMICE_API pumice_work* pumice_translator_work(pumice_translator* translator);

/* ---- captioners: pictures to texts ---- */

/* Describes pictures, or reads the text in them: by an encoder of pictures with a decoder (ViT with GPT-2,
 * TrOCR), or by a decoder that reads pictures in its prompt, which must be loaded with
 * pumice_load_options.vision and has no beams. */
typedef struct pumice_captioner pumice_captioner;

typedef struct pumice_captioner_options {
  size_t struct_size;
  /* What a decoder that reads pictures in its prompt continues; "<image>" is the picture. NULL: what the
   * model's chat template makes of "Describe this picture.", or without one a usual prompt. Of a decoder with
   * an encoder, what its text begins with after the start token; of Donut the task, such as "<s_cord-v2>", in
   * that token's place. NULL: what the model's settings say. */
  const char* prompt;
  int64_t local_time;                    /* for that template, as in pumice_chat_options */
  const pumice_writing_options* writing; /* NULL: as in the model's settings */
  const pumice_form* form;               /* of the texts; NULL: any */
} pumice_captioner_options;

PUMICE_API pumice_status pumice_captioner_create(pumice_model* model, const pumice_captioner_options* options,
                                                 pumice_captioner** captioner, pumice_error* error);
PUMICE_API void pumice_captioner_destroy(pumice_captioner* captioner);
/* Writes about pictures and waits: inputs with pixels or, of an encoder with a decoder, values.
 * pumice_captioner_result then has the texts. PUMICE_CANCELLED after pumice_work_cancel. */
PUMICE_API pumice_status pumice_captioner_caption(pumice_captioner* captioner, const pumice_input* pictures,
                                                  size_t count, pumice_error* error);
/* The texts of one of the last pictures, best first, by its index. PUMICE_NOT_READY before all are done. */
PUMICE_API pumice_status pumice_captioner_result(pumice_captioner* captioner, size_t index,
                                                 const pumice_written** texts, size_t* text_count,
                                                 pumice_error* error);
/* The same a slice at a time, as with a translator. */
PUMICE_API pumice_status pumice_captioner_begin(pumice_captioner* captioner, const pumice_input* pictures,
                                                size_t count, pumice_error* error);
PUMICE_API pumice_work* pumice_captioner_work(pumice_captioner* captioner);

/* ---- transcribers: speech to text ---- */

/* Of Whisper's models; of Moonshine, which takes no language, no prompt, no times and no form; and of those
 * that hear letters or parts of words (wav2vec 2.0, Parakeet), which take `beams` alone, at first 1, a
 * transducer not even those. A decoder that hears (Voxtral), loaded with pumice_load_options.vision, takes a
 * language, max_tokens and a form, and gives one segment for the whole sound. Without a tokenizer or letters,
 * segments have tokens and no text. */
typedef struct pumice_transcriber pumice_transcriber;

typedef struct pumice_transcriber_options {
  size_t struct_size;
  const char* language; /* its code, "en"; NULL: detected at the beginning of each sound */
  bool translate;       /* into English */
  bool timestamps;      /* also for a sound that fits one window of the model; longer ones always have them */
  uint32_t beams;       /* at most 64; 0: as in the model's settings */
  uint32_t max_tokens;  /* of a window; 0: as in the model's settings */
  uint32_t windows;     /* decoded together, at most 256; 0: 1. With several, they end where it is quiet, and
                           none goes on from another's text */
  const char* prompt;   /* text that the first window goes on from: names, the topic; NULL: none */
  bool words;           /* when each word was spoken: a second pass over a window, in the call that ends it */
  bool no_previous_text; /* a window is not shown the text before it */
  bool no_fallback;      /* a text that repeats itself or is improbable is not decoded again, at random */
  bool keep_silence;     /* silence between windows is decoded too */
  uint32_t reserved;     /* 0 */
  /* Of each window's text, such as one of a game's commands; NULL: any. It then has no timestamps, and does
   * not go on from the text before it. */
  const pumice_form* form;
} pumice_transcriber_options;

PUMICE_API pumice_status pumice_transcriber_create(pumice_model* model,
                                                   const pumice_transcriber_options* options,
                                                   pumice_transcriber** transcriber, pumice_error* error);
PUMICE_API void pumice_transcriber_destroy(pumice_transcriber* transcriber);

/* A word with the space before it and the marks around it. */
typedef struct pumice_word {
  uint64_t start_us, end_us;
  const char* text;
  float probability;
} pumice_word;

/* What was said in a part of a sound. In Pumice's memory: valid until the callback returns. */
typedef struct pumice_segment {
  uint64_t start_us, end_us;
  const char* text;
  const uint32_t* tokens; /* timestamps included */
  size_t token_count;
  float log_probability;    /* the mean of the tokens' logarithms of probabilities; 0: unknown */
  float no_speech;          /* how probable it is that nobody spoke */
  const pumice_word* words; /* where they were asked for */
  size_t word_count;
  float temperature;       /* that its window was decoded with */
  float compression_ratio; /* how many times smaller its window's text becomes */
} pumice_segment;

/* Called by the functions that transcribe. With this transcriber, it may call pumice_work_cancel, and
 * pumice_transcriber_destroy: that takes effect when the function that runs returns. All others return
 * PUMICE_NOT_READY. */
typedef void (*pumice_segment_function)(void* user, const pumice_segment* segment);

/* Transcribes a sound of any length and waits. `samples`: one channel, -1 to 1, `rate` of them a second; 0:
 * the model's own rate. Calls `on_segment` for each segment, in order, whenever a window of the sound is
 * done. PUMICE_CANCELLED after pumice_work_cancel. */
PUMICE_API pumice_status pumice_transcriber_transcribe(pumice_transcriber* transcriber, const float* samples,
                                                       size_t count, uint32_t rate,
                                                       pumice_segment_function on_segment, void* user,
                                                       pumice_error* error);
/* Only finds out which language is spoken, see pumice_transcriber_language: "" where nothing is spoken.
 * PUMICE_UNSUPPORTED for a model that cannot tell. */
PUMICE_API pumice_status pumice_transcriber_detect(pumice_transcriber* transcriber, const float* samples,
                                                   size_t count, uint32_t rate, pumice_error* error);
/* The code of the language of the current or last sound, as far as it is known, and how probable it is (1 if
 * it was given); `probability` may be NULL. Empty for a model that knows none. Valid until the next call. */
PUMICE_API const char* pumice_transcriber_language(pumice_transcriber* transcriber, float* probability);

/* The same a slice at a time: pumice_transcriber_begin, which copies the samples, then slices of
 * pumice_transcriber_work until slice.active is false. They call `on_segment` when they find a window of the
 * sound done. The host's part of a window, its spectrum, is computed by the call that begins the window,
 * whatever its budget. After a discard the window starts again. */
PUMICE_API pumice_status pumice_transcriber_begin(pumice_transcriber* transcriber, const float* samples,
                                                  size_t count, uint32_t rate,
                                                  pumice_segment_function on_segment, void* user,
                                                  pumice_error* error);
PUMICE_API pumice_work* pumice_transcriber_work(pumice_transcriber* transcriber);

/* ---- speakers: texts to speech ---- */

/* A decoder that writes codes of a sound (OuteTTS 1.0), and a codec that makes the sound of them, chunk by
 * chunk while more codes are written. */
typedef struct pumice_speaker pumice_speaker;

typedef struct pumice_speaker_options {
  size_t struct_size;
  pumice_model* codec; /* DAC, on the same device, whose codes are the model's tokens <|c1_0|> and so on */
  const char* voice;   /* to go on with: the JSON of a profile of OuteTTS, version 3; NULL: any */
  /* NULL: temperature 0.4, top_k 40, top_p 0.9, min_p 0.05, repeat_penalty 1.1. */
  const pumice_sampling* sampling;
  uint64_t seed;       /* without `sampling` */
  uint32_t context;    /* tokens of text, voice and sound together; 0: the model's own, at most 4,096 */
  uint32_t max_tokens; /* of a sound; 0: as many as fit the context */
  /* Of sound that is handed out at a time, at most 60,000; 0: what costs little more than all at once. A
   * chunk is made when the codes of it and of some frames after it are there. The samples are the same. */
  uint32_t chunk_ms;
  uint32_t reserved; /* 0 */
} pumice_speaker_options;

/* PUMICE_UNSUPPORTED for models that do not fit each other. */
PUMICE_API pumice_status pumice_speaker_create(pumice_model* model, const pumice_speaker_options* options,
                                               pumice_speaker** speaker, pumice_error* error);
PUMICE_API void pumice_speaker_destroy(pumice_speaker* speaker);

/* Called by the functions that speak with the next samples of a sound, of one channel, from -1 to 1. They are
 * in Pumice's memory: valid until the callback returns. With this speaker, it may call pumice_work_cancel,
 * and pumice_speaker_destroy: that takes effect when the function that runs returns. All others return
 * PUMICE_NOT_READY. */
typedef void (*pumice_samples_function)(void* user, const float* samples, size_t count);

/* Speaks a text and waits. Calls `on_samples` whenever a chunk is done. A text that is accepted ends the one
 * under way. PUMICE_CANCELLED after pumice_work_cancel. */
PUMICE_API pumice_status pumice_speaker_speak(pumice_speaker* speaker, const char* text,
                                              pumice_samples_function on_samples, void* user,
                                              pumice_error* error);
/* Samples a second. */
PUMICE_API uint32_t pumice_speaker_rate(const pumice_speaker* speaker);
/* Why the last sound ended: PUMICE_FINISH_STOP where the model has ended it. */
PUMICE_API pumice_finish_reason pumice_speaker_finish_reason(const pumice_speaker* speaker);

/* The same a slice at a time: pumice_speaker_begin, then slices of pumice_speaker_work until slice.active is
 * false. They call `on_samples` when they find a chunk done. */
PUMICE_API pumice_status pumice_speaker_begin(pumice_speaker* speaker, const char* text,
                                              pumice_samples_function on_samples, void* user,
                                              pumice_error* error);
PUMICE_API pumice_work* pumice_speaker_work(pumice_speaker* speaker);

/* ---- in the background: all that sees, hears, translates and finds ---- */

/* What to create on a thread of its own: the options of one kind of object, those of the others NULL. They
 * mean what they mean to the create function of that kind, are checked, and are copied with all that they
 * point to. Kernels are compiled then, so that what is used first takes no longer than what comes later.
 * Where memory is as large as what is read, it is made for a picture of 448 x 448 pixels or a second of sound
 * in a prompt, and for the alignment of texts of 64 tokens; what is longer makes it again, with few other
 * kernels. */
typedef struct pumice_creation_options {
  size_t struct_size;
  const pumice_encoder_options* encoder;
  const pumice_embedder_options* embedder;
  const pumice_reranker_options* reranker;
  const pumice_classifier_options* classifier;
  const pumice_tagger_options* tagger;
  const pumice_answerer_options* answerer;
  const pumice_filler_options* filler;
  const pumice_index_options* index;
  const pumice_translator_options* translator;
  const pumice_captioner_options* captioner;
  const pumice_transcriber_options* transcriber;
  const pumice_speaker_options* speaker;
  /* Called from the new thread with how far it is; if it returns false, the creation ends with
   * PUMICE_CANCELLED. NULL: not called. */
  bool (*progress)(void* user, uint64_t done, uint64_t total);
  void* progress_user;
  uint32_t threads; /* threads that compile kernels, including the new one; 0: 1 */
  /* Most tokens of a step, where the kind's own options have a field for that and it is 0, of a decoder that
   * reads pictures or sounds in its prompt or speaks, of the texts that a translator reads together, and of
   * the second pass for alignments and the times of words. A text is never divided for an encoder: a longer
   * one has a step of its own, but in a pumice_encoder, which refuses it. 0: as usual. */
  uint32_t chunk;
  /* 1: runs each kind of step a few times, which takes some tenths of a second. Then even the first slices
   * stay within their budgets. Not steps that are expected to take more than a tenth of a second, and nothing
   * with an encoder's buffers. */
  uint32_t warm_up;
  uint32_t reserved; /* 0 */
} pumice_creation_options;

/* What was created: one of them, the caller's from then on. */
typedef struct pumice_created {
  size_t struct_size;
  pumice_encoder* encoder;
  pumice_embedder* embedder;
  pumice_reranker* reranker;
  pumice_classifier* classifier;
  pumice_tagger* tagger;
  pumice_answerer* answerer;
  pumice_filler* filler;
  pumice_index* index;
  pumice_translator* translator;
  pumice_captioner* captioner;
  pumice_transcriber* transcriber;
  pumice_speaker* speaker;
} pumice_created;

typedef struct pumice_creation pumice_creation;
PUMICE_API pumice_status pumice_creation_start(pumice_model* model, const pumice_creation_options* options,
                                               pumice_creation** creation, pumice_error* error);
/* Whether it has ended, successfully or not, and its progress, whose total may grow; `done` and `total` may
 * be NULL. Never waits. */
PUMICE_API bool pumice_creation_poll(pumice_creation* creation, uint64_t* done, uint64_t* total);
/* Asks it to stop, from any thread; pumice_creation_finish then returns PUMICE_CANCELLED. */
PUMICE_API void pumice_creation_cancel(pumice_creation* creation);
/* Waits for the end and returns the object. A second call returns PUMICE_INVALID_ARGUMENT. */
PUMICE_API pumice_status pumice_creation_finish(pumice_creation* creation, pumice_created* created,
                                                pumice_error* error);
/* Cancels it if it has not ended, and waits for it. */
PUMICE_API void pumice_creation_destroy(pumice_creation* creation);

/* ---- tuning: measuring which kernels are the fastest ---- */

/* Pumice has several kernels for most of the work, and the fastest one depends on the device, its driver and
 * the model. Until they are measured, Pumice takes a safe one, and never one that rounds what it multiplies:
 * those with dot products of bytes and with cooperative matrices, which are the fastest on many GPUs.
 *
 * What was measured counts for everything that is created on the device from then on, or resumed: sessions,
 * batches, encoders, translators, transcribers and speakers, also of models that are loaded already. What
 * there is keeps its kernels. The results are stored in the cache folder, as those of the command `pumice
 * tune` are, and pumice_device_save_tuning writes them to a file that a program can ship. Kernels that give
 * wrong results are not used, and named in the log. So are kernels that a driver crashed or hung with: before
 * a kernel is tried for the first time, its name is written to a file in the cache folder, and a next start
 * that finds it there goes on without that kernel until the driver or Pumice changes. A process that is
 * killed in such a moment leaves the name there too.
 *
 * There are three ways: pumice_load_options.tune_seconds, while a model is loaded; pumice_tune_start, on a
 * thread of its own; and the same with `in_slices`, where the device only works when pumice_work_advance
 * tells it to. Kernels are compiled on the thread, before they are measured, and never in a slice, because
 * the driver may take longer for one than a frame lasts. Drivers that compile when a kernel first runs do it
 * in the queue, though, where other work waits meanwhile. */
typedef struct pumice_tune pumice_tune;

typedef struct pumice_tune_options {
  size_t struct_size;
  float seconds;  /* limit of the time from the start, waiting for slices included; what was measured by then
                     is kept; 0: none */
  bool thorough;  /* as the command `pumice tune`: also what is known already, for more sizes of steps, and
                     with more care. Otherwise what is not known yet, which takes seconds */
  bool in_slices; /* the device's queue must have timestamps */
  /* The sessions to measure for, as in pumice_session_options; but a context of 0 stands for at most 1,024.
   */
  uint32_t context;
  uint32_t chunk;
  pumice_cache_type cache;
  uint32_t reserved; /* 0 */
} pumice_tune_options;

typedef struct pumice_tune_report {
  size_t struct_size;
  uint32_t classes; /* classes of shapes whose fastest kernel was found */
  bool complete;    /* false: the time limit or pumice_work_cancel ended it early */
} pumice_tune_report;

/* Starts measuring the kernels that a model needs. Takes the memory of a small session until it has ended. */
PUMICE_API pumice_status pumice_tune_start(pumice_model* model, const pumice_tune_options* options,
                                           pumice_tune** tune, pumice_error* error);
/* Whether it has ended, successfully or not, and its progress in classes of shapes, of which more may become
 * known; `done` and `total` may be NULL. Never waits. */
PUMICE_API bool pumice_tune_poll(pumice_tune* tune, uint64_t* done, uint64_t* total);
/* Cancelling asks it to stop; what has been measured is kept. With `in_slices`, pumice_work_advance submits a
 * slice of at most about `budget_us` of device time, or one run of a kernel. Budgets below a millisecond make
 * measurements less sure. Often there is nothing to submit, while kernels are compiled and results compared:
 * call it in the next frame again, until slice->active is false. `slice->dispatches` counts runs of a kernel
 * and copies. An error ends the measurement, and pumice_tune_finish returns it too. Nothing can be recorded:
 * PUMICE_UNSUPPORTED. */
PUMICE_API pumice_work* pumice_tune_work(pumice_tune* tune);
/* Waits for the end. PUMICE_OK also after the time limit and pumice_work_cancel: see `report`, which may be
 * NULL. PUMICE_NOT_READY if it waits for more slices. A second call returns PUMICE_INVALID_ARGUMENT. */
PUMICE_API pumice_status pumice_tune_finish(pumice_tune* tune, pumice_tune_report* report,
                                            pumice_error* error);
/* Cancels it if it has not ended, and waits for it. */
PUMICE_API void pumice_tune_destroy(pumice_tune* tune);

/* Writes what is known of a device to a file for pumice_device_options.tuning_file. Results of other devices
 * that are in the file stay there, so that one file serves several. They are of use to a device of the same
 * kind with the same version of its driver, and to this version of Pumice. PUMICE_INVALID_FILE if there is a
 * file that holds something else. Replaces files as pumice_session_save does. */
PUMICE_API pumice_status pumice_device_save_tuning(const pumice_device* device, const char* path,
                                                   pumice_error* error);
/* The same into whatever takes the bytes, of this device alone. `write`: as in pumice_session_write. */
PUMICE_API pumice_status pumice_device_write_tuning(const pumice_device* device, pumice_write_function write,
                                                    void* user, pumice_error* error);

#ifdef __cplusplus
}
#endif

#endif /* PUMICE_H */
