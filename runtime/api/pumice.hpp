// Pumice as C++ classes. They wrap pumice.h, which documents what everything does, with objects that free
// themselves, results with errors, vectors and strings. Needs C++17 or newer, but neither exceptions nor
// run-time type information. The header calls only C functions, so your program and Pumice may be compiled
// with different compilers and C++ libraries.
//
//   auto device = pumice::Device::create();
//   if (!device.ok()) return fail(device.error().message);
//   auto model = pumice::Model::load(device.value(), pumice::Source::file("model.gguf"));
//   ...
//   auto session = pumice::Session::create(model.value());
//   session.value().generate("Once upon a time", 100);
//   session.value().run();
//
// The structures are those of pumice.h under shorter names. Initialise them with {}; the classes fill in
// struct_size, also of the structures that they point to.
#ifndef PUMICE_HPP
#define PUMICE_HPP

#include "pumice.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace pumice {
inline namespace v1 {

using Vulkan = pumice_vulkan;
using Allocator = pumice_allocator;
using DeviceOptions = pumice_device_options;
using MemoryReport = pumice_memory_report;
using LoadOptions = pumice_load_options;
using Stage = pumice_stage;
using ModelInfo = pumice_model_info;
using MemoryEstimate = pumice_memory_estimate;
using Buffer = pumice_buffer;
using SessionOptions = pumice_session_options;
using Form = pumice_form;
using Sampling = pumice_sampling;
using Request = pumice_request;
using Event = pumice_event;
using ChatOptions = pumice_chat_options;
using Message = pumice_message;
using Picture = pumice_picture;
using Sound = pumice_sound;
using Slice = pumice_slice;
using Sync = pumice_sync;
using BatchOptions = pumice_batch_options;
using EncoderOptions = pumice_encoder_options;
using EmbedderOptions = pumice_embedder_options;
using RerankerOptions = pumice_reranker_options;
using ClassifierOptions = pumice_classifier_options;
using TaggerOptions = pumice_tagger_options;
using AnswererOptions = pumice_answerer_options;
using FillerOptions = pumice_filler_options;
using IndexOptions = pumice_index_options;
using Input = pumice_input;
using LogitBias = pumice_logit_bias;
using ContinuationScore = pumice_continuation_score;
using TokenProbability = pumice_token_probability;
using WritingOptions = pumice_writing_options;
using TranslatorOptions = pumice_translator_options;
using CaptionerOptions = pumice_captioner_options;
using TranscriberOptions = pumice_transcriber_options;
using SpeakerOptions = pumice_speaker_options;
using CreationOptions = pumice_creation_options;
using Segment = pumice_segment;
using TuneOptions = pumice_tune_options;
using TuneReport = pumice_tune_report;

// Why something failed: a status to branch on, never PUMICE_OK, and a sentence for a person.
struct Error {
  pumice_status status = PUMICE_INTERNAL;
  std::string message;
};

// A value, or an Error if there is none. Test it before you ask for the value or the error.
template <class T>
class [[nodiscard]] Result {
public:
  Result(T from) : value_(std::move(from)) {}
  Result(Error from) : error_(std::move(from)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *value_; }
  const T& value() const& { return assert(ok()), *value_; }
  T&& value() && { return assert(ok()), *std::move(value_); }
  const Error& error() const { return assert(!ok()), error_; }

private:
  std::optional<T> value_;
  Error error_;
};

// Success, or an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error from) : error_(std::move(from)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return assert(!ok()), *error_; }

private:
  std::optional<Error> error_;
};

// Callbacks. C functions call them, so they must not throw.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;
using Reader = std::function<bool(uint64_t at, void* to, size_t count)>;
using EventFunction = std::function<void(const Event& event)>;
using SegmentFunction = std::function<void(const Segment& segment)>;
using SamplesFunction = std::function<void(const float* samples, size_t count)>;

namespace detail {

// Owns the result of a *_create function, or nothing.
template <class Handle, void (*destroy)(Handle*)>
class Owner {
public:
  Owner() = default;
  explicit Owner(Handle* handle) : handle_(handle) {}

  explicit operator bool() const { return handle_ != nullptr; }
  Handle* get() const { return handle_.get(); }   // for the C functions
  Handle* release() { return handle_.release(); } // the caller's from now on

private:
  struct Destroy {
    void operator()(Handle* handle) const { destroy(handle); }
  };
  std::unique_ptr<Handle, Destroy> handle_;
};

// Each of these calls `function` with the arguments, followed by pointers to the output and to an error.

template <class... Parameters, class... Arguments>
Status call(pumice_status (*function)(Parameters...), Arguments... arguments) {
  pumice_error error;
  error.message[0] = 0;
  const pumice_status status = function(arguments..., &error);
  if (status == PUMICE_OK) return {};
  return Error{status, error.message};
}

template <class T, class Function, class... Arguments>
Result<T> made(T value, Function function, Arguments... arguments) {
  if (Status status = call(function, arguments..., &value); !status.ok()) return status.error();
  return Result<T>(std::move(value));
}

// `T` owns a Handle, and its constructor takes one.
template <class T, class Handle, class Function, class... Arguments>
Result<T> owned(Function function, Arguments... arguments) {
  Handle* handle = nullptr;
  if (Status status = call(function, arguments..., &handle); !status.ok()) return status.error();
  return T(handle);
}

// A list whose length `function` reports; it is called again if `room` was too small. `zero` is 1 if the list
// ends with a zero that is not counted.
template <class List, class Function, class... Arguments>
Result<List> listed(size_t room, size_t zero, Function function, Arguments... arguments) {
  List list(room, typename List::value_type());
  for (;;) {
    size_t count = 0;
    Status status = call(function, arguments..., list.data(), list.size() + zero, &count);
    if (!status.ok()) return status.error();
    const bool complete = count <= list.size();
    list.resize(count);
    if (complete) return Result<List>(std::move(list));
  }
}

// The bytes that `function` writes.
template <class Function, class... Arguments>
Result<std::vector<unsigned char>> written(Function function, Arguments... arguments) {
  std::vector<unsigned char> bytes;
  const pumice_write_function append = [](void* user, const void* more, size_t count) {
    auto& all = *static_cast<std::vector<unsigned char>*>(user);
    const auto* first = static_cast<const unsigned char*>(more);
    all.insert(all.end(), first, first + count);
    return true;
  };
  Status status = call(function, arguments..., append, static_cast<void*>(&bytes));
  if (!status.ok()) return status.error();
  return Result<std::vector<unsigned char>>(std::move(bytes));
}

template <class Options>
Options sized(Options options) {
  options.struct_size = sizeof options;
  return options;
}

template <class Structure>
std::vector<Structure> all_sized(std::vector<Structure> structures) {
  for (Structure& each : structures) each = sized(each);
  return structures;
}

// A request and the structures that it points to, with their sizes.
struct SizedRequest {
  explicit SizedRequest(const Request& from) : request(sized(from)) {
    if (from.sampling) {
      sampling = sized(*from.sampling);
      request.sampling = &sampling;
    }
    if (from.form) {
      form = sized(*from.form);
      request.form = &form;
    }
  }
  SizedRequest(const SizedRequest&) = delete;

  Request request;
  Sampling sampling{};
  Form form{};
};

// Texts as C functions take them.
inline std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

// `columns` numbers for each text or picture, which `function` writes.
template <class Function, class Handle, class List, class... More>
Result<std::vector<float>> rows(size_t columns, Function function, Handle handle, const List& inputs,
                                More... more) {
  std::vector<float> values(inputs.size() * columns);
  Status status = call(function, handle, inputs.data(), inputs.size(), values.data(), more...);
  if (!status.ok()) return status.error();
  return Result<std::vector<float>>(std::move(values));
}

inline LoadOptions with_progress(LoadOptions options, const Progress& progress) {
  options = sized(options);
  if (!progress) return options;
  options.progress = [](void* user, uint64_t done, uint64_t total) {
    return (*static_cast<const Progress*>(user))(done, total);
  };
  options.user = const_cast<Progress*>(&progress);
  return options;
}

} // namespace detail

// What Pumice can use of a physical device: see pumice_features_create.
class Features : public detail::Owner<pumice_features, pumice_features_destroy> {
public:
  using Owner::Owner;

  static Result<Features> create(pumice_get_instance_proc_addr get_instance_proc_addr, VkInstance instance,
                                 VkPhysicalDevice physical_device, void* chain = nullptr) {
    return detail::owned<Features, pumice_features>(pumice_features_create, get_instance_proc_addr, instance,
                                                    physical_device, chain);
  }
  const void* chain() const { return pumice_features_chain(get()); }
  std::vector<const char*> extensions() const {
    uint32_t count = 0;
    const char* const* names = pumice_features_extensions(get(), &count);
    return std::vector<const char*>(names, names + count);
  }
};

// A device of Pumice's own, or the one that your program renders with. The objects that options.log_user and
// other pointers point to must outlive everything that is created from the device.
class Device : public detail::Owner<pumice_device, pumice_device_destroy> {
public:
  using Owner::Owner;

  static Result<Device> create(const DeviceOptions& options = {}) {
    DeviceOptions sized = detail::sized(options);
    Vulkan vulkan{};
    if (options.vulkan) {
      vulkan = detail::sized(*options.vulkan);
      sized.vulkan = &vulkan;
    }
    Allocator allocator{};
    if (options.allocator) {
      allocator = detail::sized(*options.allocator);
      sized.allocator = &allocator;
    }
    return detail::owned<Device, pumice_device>(pumice_device_create, &sized);
  }

  const char* name() const { return pumice_device_name(get()); }

  // The handles, to make semaphores and buffers with.
  Vulkan vulkan() const {
    Vulkan handles = detail::sized(Vulkan{});
    pumice_device_vulkan(get(), &handles, nullptr);
    return handles;
  }

  // What was measured on it, to a file or in memory: see pumice_device_save_tuning.
  Status save_tuning(const std::string& path) const {
    return detail::call(pumice_device_save_tuning, get(), path.c_str());
  }
  Result<std::vector<unsigned char>> tuning() const {
    return detail::written(pumice_device_write_tuning, get());
  }

  Result<MemoryReport> memory() const {
    return detail::made(detail::sized(MemoryReport{}), pumice_device_memory, get());
  }
};

// Where a model comes from. Copies names and the function; the memory of Source::memory must outlive the
// model.
class Source {
public:
  // A GGUF file or a Hugging Face folder; or a GGUF model of `bytes` bytes at `offset` in a larger file.
  static Source file(std::string path, uint64_t offset = 0, uint64_t bytes = 0) {
    Source source;
    source.path_ = std::move(path);
    source.offset_ = offset;
    source.bytes_ = bytes;
    return source;
  }
  static Source memory(const void* memory, uint64_t bytes, std::string name = "model") {
    Source source;
    source.memory_ = memory;
    source.bytes_ = bytes;
    source.name_ = std::move(name);
    return source;
  }
  static Source reader(Reader read, uint64_t bytes, std::string name = "model") {
    Source source;
    source.read_ = std::move(read);
    source.bytes_ = bytes;
    source.name_ = std::move(name);
    return source;
  }
  // All parts of a GGUF model that was split, in any order.
  static Source parts(std::vector<Source> parts) {
    Source source;
    source.parts_ = std::move(parts);
    return source;
  }

  // For the C functions; valid until this object changes or moves.
  pumice_source c() const {
    pumice_source source = detail::sized(pumice_source{});
    if (!path_.empty()) source.path = path_.c_str();
    if (!name_.empty()) source.name = name_.c_str();
    source.offset = offset_;
    source.bytes = bytes_;
    source.memory = memory_;
    if (read_) {
      source.read = [](void* user, uint64_t at, void* to, size_t count) {
        return (*static_cast<const Reader*>(user))(at, to, count);
      };
      source.user = const_cast<Reader*>(&read_);
    }
    c_parts_.clear();
    for (const Source& part : parts_) c_parts_.push_back(part.c());
    source.parts = parts_.empty() ? nullptr : c_parts_.data();
    source.part_count = c_parts_.size();
    return source;
  }

private:
  std::string path_, name_;
  const void* memory_ = nullptr;
  Reader read_;
  uint64_t offset_ = 0, bytes_ = 0;
  std::vector<Source> parts_;
  mutable std::vector<pumice_source> c_parts_; // what c() points to
};

// Weights on a device.
class Model : public detail::Owner<pumice_model, pumice_model_destroy> {
public:
  using Owner::Owner;

  static Result<Model> load(const Device& device, const Source& source, const LoadOptions& options = {},
                            const Progress& progress = nullptr) {
    const pumice_source from = source.c();
    const LoadOptions sized = detail::with_progress(options, progress);
    return detail::owned<Model, pumice_model>(pumice_model_load, device.get(), &from, &sized);
  }

  Result<ModelInfo> info() const {
    return detail::made(detail::sized(ModelInfo{}), pumice_model_get_info, get());
  }

  // The tokens of a text, by default with the special tokens that the model expects around it. `flags` as for
  // pumice_model_tokenize.
  Result<std::vector<uint32_t>> tokenize(const std::string& text, uint32_t flags = PUMICE_ADD_SPECIAL) const {
    return detail::listed<std::vector<uint32_t>>(text.size() + 8, 0, pumice_model_tokenize, get(),
                                                 text.c_str(), flags);
  }

  // The tokens with a role: those that begin a text, those that end one ...
  Result<std::vector<uint32_t>> role_tokens(pumice_token_role role) const {
    return detail::listed<std::vector<uint32_t>>(16, 0, pumice_model_role_tokens, get(), role);
  }
  // The token that the vocabulary spells so: "<|im_end|>".
  Result<uint32_t> find_token(const std::string& name) const {
    return detail::made(uint32_t(0), pumice_model_find_token, get(), name.c_str());
  }
  // How the vocabulary spells a token.
  Result<std::string> token_name(uint32_t token) const {
    return detail::listed<std::string>(256, 1, pumice_model_token_name, get(), token,
                                       static_cast<bool*>(nullptr));
  }

  // The text of tokens, without special ones.
  Result<std::string> detokenize(const std::vector<uint32_t>& tokens) const {
    return detail::listed<std::string>(8 * tokens.size(), 1, pumice_model_detokenize, get(), tokens.data(),
                                       tokens.size());
  }
};

// Copies pictures of the application's renderer to the host, in its command buffers: see pumice_picture_copy.
class PictureCopy : public detail::Owner<pumice_picture_copy, pumice_picture_copy_destroy> {
public:
  using Owner::Owner;

  static Result<PictureCopy> create(const Device& device, uint32_t width, uint32_t height) {
    return detail::owned<PictureCopy, pumice_picture_copy>(pumice_picture_copy_create, device.get(), width,
                                                           height);
  }
  Status record(const pumice_vulkan_image& image, VkCommandBuffer command_buffer) {
    const pumice_vulkan_image sized = detail::sized(image);
    return detail::call(pumice_picture_copy_record, get(), &sized, command_buffer);
  }
  // What was recorded last, once the command buffer has run.
  Result<Picture> picture() const {
    return detail::made(detail::sized(Picture{}), pumice_picture_copy_picture, get());
  }
};

// A low-rank adapter of a model: Request::adapter, with SessionOptions::adapters or BatchOptions::adapters.
class Adapter : public detail::Owner<pumice_adapter, pumice_adapter_destroy> {
public:
  using Owner::Owner;

  static Result<Adapter> load(const Model& model, const std::string& path) {
    return detail::owned<Adapter, pumice_adapter>(pumice_adapter_load, model.get(), path.c_str());
  }
  // One that adds what these add. `scales`: one for each; none: all 1.
  static Result<Adapter> combine(const std::vector<const Adapter*>& adapters,
                                 const std::vector<float>& scales = {}) {
    std::vector<const pumice_adapter*> all;
    for (const Adapter* each : adapters) all.push_back(each->get());
    const float* factors = scales.size() == all.size() && !all.empty() ? scales.data() : nullptr;
    return detail::owned<Adapter, pumice_adapter>(pumice_adapter_combine, all.data(), factors, all.size());
  }
};

// A conversation in messages, which sessions and batches answer: see pumice_chat.
class Chat : public detail::Owner<pumice_chat, pumice_chat_destroy> {
public:
  using Owner::Owner;

  static Result<Chat> create(const Model& model, const ChatOptions& options = {}) {
    const ChatOptions sized = detail::sized(options);
    return detail::owned<Chat, pumice_chat>(pumice_chat_create, model.get(), &sized);
  }

  Status add(const Message& message) {
    const Message sized = detail::sized(message);
    return detail::call(pumice_chat_add, get(), &sized);
  }
  Status add(const std::string& role, const std::string& content) {
    Message message{};
    message.role = role.c_str();
    message.content = content.c_str();
    return add(message);
  }
  // With pictures, which come before the content.
  Status add(const std::string& role, const std::string& content, std::vector<Picture> pictures) {
    const std::vector<Picture> sized = detail::all_sized(std::move(pictures));
    Message message{};
    message.role = role.c_str();
    message.content = content.c_str();
    message.pictures = sized.data();
    message.picture_count = sized.size();
    return add(message);
  }
  // With sounds, which are heard before the content.
  Status add(const std::string& role, const std::string& content, std::vector<Sound> sounds) {
    const std::vector<Sound> sized = detail::all_sized(std::move(sounds));
    Message message{};
    message.role = role.c_str();
    message.content = content.c_str();
    message.sounds = sized.data();
    message.sound_count = sized.size();
    return add(message);
  }
  // A picture or a sound for messages that read() reads.
  Status add_picture(const Picture& picture) {
    const Picture sized = detail::sized(picture);
    return detail::call(pumice_chat_add_picture, get(), &sized);
  }
  Status add_sound(const Sound& sound) {
    const Sound sized = detail::sized(sound);
    return detail::call(pumice_chat_add_sound, get(), &sized);
  }
  size_t count() const { return pumice_chat_count(get()); }
  Status remove(size_t first, size_t count = 1) {
    return detail::call(pumice_chat_remove, get(), first, count);
  }
  // Forgets the oldest turn. Returns how many messages that were.
  Result<size_t> forget() { return detail::made(size_t(0), pumice_chat_forget, get()); }

  // The conversation as JSON, and one from JSON in its place.
  Result<std::string> write() const { return detail::listed<std::string>(4096, 1, pumice_chat_write, get()); }
  Status read(const std::string& json) { return detail::call(pumice_chat_read, get(), json.c_str()); }
  // What the template makes of it.
  Result<std::string> prompt() const {
    return detail::listed<std::string>(4096, 1, pumice_chat_prompt, get());
  }
  // Whether the calls of answers can only be what the tools allow; else sentences that say what is not held.
  Status check_calls() const { return detail::call(pumice_chat_check_calls, get()); }
};

// A load that runs on its own thread, which calls `progress` and the reader.
class Load {
public:
  static Result<Load> start(const Device& device, Source source, const LoadOptions& options = {},
                            Progress progress = nullptr) {
    Load load;
    load.inputs_ = std::make_unique<Inputs>();
    Inputs& inputs = *load.inputs_;
    inputs.source = std::move(source);
    inputs.progress = std::move(progress);
    inputs.from = inputs.source.c();
    const LoadOptions sized = detail::with_progress(options, inputs.progress);
    auto handle = detail::owned<Handle, pumice_load>(pumice_load_start, device.get(), &inputs.from, &sized);
    if (!handle.ok()) return handle.error();
    load.handle_ = std::move(handle).value();
    return Result<Load>(std::move(load));
  }

  Load() = default;
  Load(Load&&) = default;
  Load& operator=(Load&& from) {
    handle_ = std::move(from.handle_); // ends the thread, which reads the inputs
    inputs_ = std::move(from.inputs_);
    return *this;
  }

  explicit operator bool() const { return bool(handle_); }
  pumice_load* get() const { return handle_.get(); }

  // Whether it has ended, successfully or not, and its progress in bytes. The pointers may be null.
  bool poll(uint64_t* done = nullptr, uint64_t* total = nullptr) const {
    return pumice_load_poll(get(), done, total);
  }
  void cancel() const { pumice_load_cancel(get()); }

  // Waits for the end and returns the model. Call it once.
  Result<Model> finish() const { return detail::owned<Model, pumice_model>(pumice_load_finish, get()); }

private:
  struct Inputs {
    Source source;
    Progress progress;
    pumice_source from{};
  };
  using Handle = detail::Owner<pumice_load, pumice_load_destroy>;
  std::unique_ptr<Inputs> inputs_; // outlives the thread
  Handle handle_;
};

// The memory that a model and one session of it will take, before either is created.
inline Result<MemoryEstimate> estimate_memory(const Device& device, const Source& source,
                                              const LoadOptions& load = {},
                                              const SessionOptions& session = {}) {
  const pumice_source from = source.c();
  const LoadOptions sized_load = detail::sized(load);
  const SessionOptions sized_session = detail::sized(session);
  return detail::made(detail::sized(MemoryEstimate{}), pumice_session_estimate_memory, device.get(), &from,
                      &sized_load, &sized_session);
}

// The same for a model and one batch of it.
inline Result<MemoryEstimate> estimate_batch_memory(const Device& device, const Source& source,
                                                    const LoadOptions& load = {},
                                                    const BatchOptions& batch = {}) {
  const pumice_source from = source.c();
  const LoadOptions sized_load = detail::sized(load);
  const BatchOptions sized_batch = detail::sized(batch);
  return detail::made(detail::sized(MemoryEstimate{}), pumice_batch_estimate_memory, device.get(), &from,
                      &sized_load, &sized_batch);
}

// What texts for people are drawn with where nobody says otherwise.
inline Sampling usual_sampling() {
  Sampling usual = detail::sized(Sampling{});
  (void)pumice_sampling_usual(&usual, nullptr);
  return usual;
}

// What runs in slices, whatever it computes. Belongs to the object that hands it out, and is valid as long.
class Work {
public:
  explicit Work(pumice_work* work) : work_(work) {}
  pumice_work* get() const { return work_; }

  // Submits a slice that is expected to take at most `budget_us` microseconds on the device.
  Result<Slice> advance(float budget_us, const Sync* sync = nullptr) const {
    const Sync sized = detail::sized(sync ? *sync : Sync{});
    return detail::made(detail::sized(Slice{}), pumice_work_advance, work_, budget_us,
                        sync ? &sized : nullptr);
  }
  // Records it into your command buffer.
  Result<Slice> record(VkCommandBuffer command_buffer, float budget_us) const {
    return detail::made(detail::sized(Slice{}), pumice_work_record, work_, command_buffer, budget_us);
  }
  // Forgets slices that were recorded and will not be submitted.
  Status discard() const { return detail::call(pumice_work_discard, work_); }
  // From any thread.
  void cancel() const { pumice_work_cancel(work_); }

private:
  pumice_work* work_;
};

// A conversation.
class Session {
public:
  // Without `on_event` (and options.on_event), events wait to be fetched by poll().
  static Result<Session> create(const Model& model, const SessionOptions& options = {},
                                EventFunction on_event = nullptr) {
    Session session;
    const SessionOptions sized = session.with_function(options, std::move(on_event));
    auto handle = detail::owned<Handle, pumice_session>(pumice_session_create, model.get(), &sized);
    if (!handle.ok()) return handle.error();
    session.handle_ = std::move(handle).value();
    return Result<Session>(std::move(session));
  }

  Session() = default;
  Session(Session&&) = default;
  Session& operator=(Session&& from) {
    handle_ = std::move(from.handle_); // before the function that it calls
    on_event_ = std::move(from.on_event_);
    return *this;
  }

  explicit operator bool() const { return bool(handle_); }
  pumice_session* get() const { return handle_.get(); }

  // Starts a request without computing anything yet.
  Status generate(const Request& request) {
    const detail::SizedRequest sized(request);
    return detail::call(pumice_session_generate, get(), &sized.request);
  }
  // Adds `text` to the conversation and generates at most `max_tokens` tokens; 0: as many as fit.
  Status generate(const std::string& text, uint32_t max_tokens = 0, const Sampling* sampling = nullptr) {
    Request request{};
    request.text = text.c_str();
    request.max_tokens = max_tokens;
    request.sampling = sampling;
    return generate(request);
  }
  // Answers a chat.
  Status generate(const Chat& chat, uint32_t max_tokens = 0, const Sampling* sampling = nullptr) {
    Request request{};
    request.chat = chat.get();
    request.max_tokens = max_tokens;
    request.sampling = sampling;
    return generate(request);
  }

  // Generates to the end.
  Status run() { return detail::call(pumice_session_run, get()); }

  // The next event, or null. Valid until the next call with this session.
  const Event* poll() { return pumice_session_poll(get()); }

  // Generates a slice at a time; cancel() keeps the tokens so far.
  Work work() const { return Work(pumice_session_work(get())); }

  // The conversation so far.
  Result<std::vector<uint32_t>> tokens() const {
    return detail::listed<std::vector<uint32_t>>(512, 0, pumice_session_tokens, get());
  }

  // How probable each of these texts is as what follows the conversation, which stays as it is.
  Result<std::vector<ContinuationScore>> score(const std::vector<std::string>& continuations) {
    std::vector<pumice_continuation> all(continuations.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = {continuations[i].c_str(), nullptr, 0};
    std::vector<ContinuationScore> scores(all.size());
    Status status = detail::call(pumice_session_score, get(), all.data(), all.size(), scores.data());
    if (!status.ok()) return status.error();
    return Result<std::vector<ContinuationScore>>(std::move(scores));
  }

  Status save(const std::string& path) { return detail::call(pumice_session_save, get(), path.c_str()); }
  Status restore(const std::string& path) {
    return detail::call(pumice_session_restore, get(), path.c_str());
  }
  // The same in memory.
  Result<std::vector<unsigned char>> save() { return detail::written(pumice_session_write, get()); }
  Status restore(const void* bytes, size_t count) {
    return detail::call(pumice_session_read, get(), bytes, count);
  }

  // Another session with the same conversation. Its events wait to be fetched by poll().
  Result<Session> fork() {
    auto handle = detail::owned<Handle, pumice_session>(pumice_session_fork, get(),
                                                        static_cast<const SessionOptions*>(nullptr));
    if (!handle.ok()) return handle.error();
    Session session;
    session.handle_ = std::move(handle).value();
    return Result<Session>(std::move(session));
  }
  // suspend() frees all device memory; resume() allocates it again, also on another device after
  // PUMICE_DEVICE_LOST.
  Status suspend() { return detail::call(pumice_session_suspend, get()); }
  Status resume(const Model& model) { return detail::call(pumice_session_resume, get(), model.get()); }

private:
  friend class SessionCreation;
  using Handle = detail::Owner<pumice_session, pumice_session_destroy>;

  SessionOptions with_function(const SessionOptions& options, EventFunction on_event) {
    SessionOptions sized = detail::sized(options);
    if (!on_event) return sized;
    on_event_ = std::make_unique<EventFunction>(std::move(on_event));
    sized.on_event = [](void* user, const Event* event) { (*static_cast<EventFunction*>(user))(*event); };
    sized.user = on_event_.get();
    return sized;
  }

  std::unique_ptr<EventFunction> on_event_;
  Handle handle_;
};

// A session that is created on a thread of its own.
class SessionCreation {
public:
  static Result<SessionCreation> start(const Model& model, const SessionOptions& options = {},
                                       EventFunction on_event = nullptr) {
    SessionCreation creation;
    const SessionOptions sized = creation.session_.with_function(options, std::move(on_event));
    auto handle =
        detail::owned<Handle, pumice_session_creation>(pumice_session_creation_start, model.get(), &sized);
    if (!handle.ok()) return handle.error();
    creation.handle_ = std::move(handle).value();
    return Result<SessionCreation>(std::move(creation));
  }

  SessionCreation() = default;
  SessionCreation(SessionCreation&&) = default;
  SessionCreation& operator=(SessionCreation&& from) {
    handle_ = std::move(from.handle_); // ends the thread, which may call the function
    session_ = std::move(from.session_);
    return *this;
  }

  // Whether it has ended, successfully or not, and its progress. The pointers may be null.
  bool poll(uint64_t* done = nullptr, uint64_t* total = nullptr) const {
    return pumice_session_creation_poll(handle_.get(), done, total);
  }
  void cancel() const { pumice_session_creation_cancel(handle_.get()); }

  // Waits for the end and returns the session. Call it once.
  Result<Session> finish() {
    auto handle =
        detail::owned<Session::Handle, pumice_session>(pumice_session_creation_finish, handle_.get());
    if (!handle.ok()) return handle.error();
    session_.handle_ = std::move(handle).value();
    return Result<Session>(std::move(session_));
  }

private:
  using Handle = detail::Owner<pumice_session_creation, pumice_session_creation_destroy>;
  Session session_; // has the function that the session will call
  Handle handle_;
};

// Several texts that are generated in the same steps.
class Batch : public detail::Owner<pumice_batch, pumice_batch_destroy> {
public:
  using Owner::Owner;

  static Result<Batch> create(const Model& model, const BatchOptions& options = {}) {
    const BatchOptions sized = detail::sized(options);
    return detail::owned<Batch, pumice_batch>(pumice_batch_create, model.get(), &sized);
  }

  // Adds a text and returns its number, which its events have as text_id.
  Result<uint32_t> add(const Request& request) {
    const detail::SizedRequest sized(request);
    return detail::made(uint32_t(0), pumice_batch_add, get(), &sized.request);
  }
  // The same for one that goes on with a session's conversation, whose keys and values are copied.
  Result<uint32_t> fork(const Session& session, const Request& request) {
    const detail::SizedRequest sized(request);
    return detail::made(uint32_t(0), pumice_batch_fork, get(), session.get(), &sized.request);
  }
  Status drop(uint32_t text) { return detail::call(pumice_batch_drop, get(), text); }

  // The tokens of a text so far, its prompt included.
  Result<std::vector<uint32_t>> tokens(uint32_t text) const {
    return detail::listed<std::vector<uint32_t>>(0, 0, pumice_batch_tokens, get(), text);
  }
  // A text with its keys and values, to a file and from it: restore() adds one that goes on with it.
  Status save(uint32_t text, const std::string& path) {
    return detail::call(pumice_batch_save, get(), text, path.c_str());
  }
  Result<uint32_t> restore(const std::string& path, const Request& request) {
    const detail::SizedRequest sized(request);
    return detail::made(uint32_t(0), pumice_batch_restore, get(), path.c_str(), &sized.request);
  }
  // The same in memory.
  Result<std::vector<unsigned char>> save(uint32_t text) {
    return detail::written(pumice_batch_write, get(), text);
  }
  Result<uint32_t> restore(const void* bytes, size_t count, const Request& request) {
    const detail::SizedRequest sized(request);
    return detail::made(uint32_t(0), pumice_batch_read, get(), bytes, count, &sized.request);
  }

  // Runs one step of all texts and waits. Returns whether there is more to do.
  Result<bool> step() { return detail::made(false, pumice_batch_step, get()); }

  // The next event of any text, or null. Valid until the next call with this batch.
  const Event* poll() { return pumice_batch_poll(get()); }

  // Runs the texts a slice at a time; cancel() ends all of them.
  Work work() const { return Work(pumice_batch_work(get())); }
};

// A batch that is created on a thread of its own.
class BatchCreation : public detail::Owner<pumice_batch_creation, pumice_batch_creation_destroy> {
public:
  using Owner::Owner;

  static Result<BatchCreation> start(const Model& model, const BatchOptions& options = {}) {
    const BatchOptions sized = detail::sized(options);
    return detail::owned<BatchCreation, pumice_batch_creation>(pumice_batch_creation_start, model.get(),
                                                               &sized);
  }

  // Whether it has ended, successfully or not, and its progress. The pointers may be null.
  bool poll(uint64_t* done = nullptr, uint64_t* total = nullptr) const {
    return pumice_batch_creation_poll(get(), done, total);
  }
  void cancel() const { pumice_batch_creation_cancel(get()); }

  // Waits for the end and returns the batch. Call it once.
  Result<Batch> finish() { return detail::owned<Batch, pumice_batch>(pumice_batch_creation_finish, get()); }
};

// Turns texts, pictures or sounds into vectors.
class Encoder : public detail::Owner<pumice_encoder, pumice_encoder_destroy> {
public:
  using Owner::Owner;

  static Result<Encoder> create(const Model& model, const EncoderOptions& options = {}) {
    const EncoderOptions sized = detail::sized(options);
    return detail::owned<Encoder, pumice_encoder>(pumice_encoder_create, model.get(), &sized);
  }

  // The number of floats in a row of the result.
  uint32_t columns() const { return pumice_encoder_columns(get()); }

  // Runs inputs in one step. Writes their rows, one after the other, to `values`, at most `capacity` floats.
  // Returns the number of all floats.
  Result<size_t> encode(const std::vector<Input>& inputs, float* values, size_t capacity) {
    const std::vector<Input> sized = detail::all_sized(inputs);
    return detail::made(size_t(0), pumice_encoder_encode, get(), sized.data(), sized.size(), values,
                        capacity);
  }

  // A slice at a time: begin, then slices of work() until slice.active is false, then read.
  Status begin(const std::vector<Input>& inputs) {
    const std::vector<Input> sized = detail::all_sized(inputs);
    return detail::call(pumice_encoder_begin, get(), sized.data(), sized.size());
  }
  Result<std::vector<float>> read() {
    return detail::listed<std::vector<float>>(columns(), 0, pumice_encoder_read, get());
  }

  Work work() const { return Work(pumice_encoder_work(get())); }
};

// Turns texts or pictures into vectors.
class Embedder : public detail::Owner<pumice_embedder, pumice_embedder_destroy> {
public:
  using Owner::Owner;

  static Result<Embedder> create(const Model& model, const EmbedderOptions& options = {}) {
    const EmbedderOptions sized = detail::sized(options);
    return detail::owned<Embedder, pumice_embedder>(pumice_embedder_create, model.get(), &sized);
  }

  // The number of floats of a vector.
  uint32_t columns() const { return pumice_embedder_columns(get()); }
  // The vectors, one after the other. `cut`: how many of the texts were too long.
  Result<std::vector<float>> embed(const std::vector<std::string>& texts, size_t* cut = nullptr) {
    return detail::rows(columns(), pumice_embedder_embed, get(), detail::pointers_to(texts), cut);
  }
  Result<std::vector<float>> embed_pictures(const std::vector<Picture>& pictures) {
    return detail::rows(columns(), pumice_embedder_embed_pictures, get(), detail::all_sized(pictures));
  }

  // A slice at a time: begin, then slices of work() until slice.active is false, then read, which gives the
  // vectors one after the other.
  Status begin(const std::vector<std::string>& texts) {
    const std::vector<const char*> pointers = detail::pointers_to(texts);
    return detail::call(pumice_embedder_begin, get(), pointers.data(), pointers.size(),
                        static_cast<size_t*>(nullptr));
  }
  Work work() const { return Work(pumice_embedder_work(get())); }
  Result<std::vector<float>> read() {
    return detail::listed<std::vector<float>>(0, 0, pumice_embedder_read, get());
  }

  // From any thread.
  void cancel() const { pumice_embedder_cancel(get()); }
};

// Scores how well texts answer a query.
class Reranker : public detail::Owner<pumice_reranker, pumice_reranker_destroy> {
public:
  using Owner::Owner;

  static Result<Reranker> create(const Model& model, const RerankerOptions& options = {}) {
    const RerankerOptions sized = detail::sized(options);
    return detail::owned<Reranker, pumice_reranker>(pumice_reranker_create, model.get(), &sized);
  }

  // A score for each text.
  Result<std::vector<float>> score(const std::string& query, const std::vector<std::string>& texts,
                                   size_t* cut = nullptr) {
    const std::vector<const char*> pointers = detail::pointers_to(texts);
    std::vector<float> scores(texts.size());
    Status status = detail::call(pumice_reranker_score, get(), query.c_str(), pointers.data(),
                                 pointers.size(), scores.data(), cut);
    if (!status.ok()) return status.error();
    return Result<std::vector<float>>(std::move(scores));
  }

  // From any thread.
  void cancel() const { pumice_reranker_cancel(get()); }
};

// Finds how probable labels are for texts or pictures.
class Classifier : public detail::Owner<pumice_classifier, pumice_classifier_destroy> {
public:
  using Owner::Owner;

  static Result<Classifier> create(const Model& model, const ClassifierOptions& options = {}) {
    const ClassifierOptions sized = detail::sized(options);
    return detail::owned<Classifier, pumice_classifier>(pumice_classifier_create, model.get(), &sized);
  }

  std::vector<std::string> labels() const {
    std::vector<std::string> all(pumice_classifier_label_count(get()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = pumice_classifier_label(get(), i);
    return all;
  }
  // The probability of each label for each text or picture, one after the other.
  Result<std::vector<float>> classify(const std::vector<std::string>& texts, size_t* cut = nullptr) {
    return detail::rows(pumice_classifier_label_count(get()), pumice_classifier_classify, get(),
                        detail::pointers_to(texts), cut);
  }
  Result<std::vector<float>> classify_pictures(const std::vector<Picture>& pictures) {
    return detail::rows(pumice_classifier_label_count(get()), pumice_classifier_classify_pictures, get(),
                        detail::all_sized(pictures));
  }

  // From any thread.
  void cancel() const { pumice_classifier_cancel(get()); }
};

// A part of a text.
struct Span {
  size_t index = 0;          // of the text, or of the question that it answers
  size_t begin = 0, end = 0; // bytes of the text
  float score = 0;
  std::string label; // empty: an answer
};

namespace detail {

inline std::vector<Span> copied(const pumice_span* spans, size_t count) {
  std::vector<Span> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(
        {spans[i].index, spans[i].begin, spans[i].end, spans[i].score, spans[i].label ? spans[i].label : ""});
  return all;
}

} // namespace detail

// Finds the parts of texts that have a label, such as names.
class Tagger : public detail::Owner<pumice_tagger, pumice_tagger_destroy> {
public:
  using Owner::Owner;

  static Result<Tagger> create(const Model& model, const TaggerOptions& options = {}) {
    const TaggerOptions sized = detail::sized(options);
    return detail::owned<Tagger, pumice_tagger>(pumice_tagger_create, model.get(), &sized);
  }

  // In the order of the texts.
  Result<std::vector<Span>> tag(const std::vector<std::string>& texts) {
    const std::vector<const char*> pointers = detail::pointers_to(texts);
    const pumice_span* spans = nullptr;
    size_t count = 0;
    Status status = detail::call(pumice_tagger_tag, get(), pointers.data(), pointers.size(), &spans, &count);
    if (!status.ok()) return status.error();
    return detail::copied(spans, count);
  }

  // From any thread.
  void cancel() const { pumice_tagger_cancel(get()); }
};

// Finds the parts of a text that answer questions.
class Answerer : public detail::Owner<pumice_answerer, pumice_answerer_destroy> {
public:
  using Owner::Owner;

  static Result<Answerer> create(const Model& model, const AnswererOptions& options = {}) {
    const AnswererOptions sized = detail::sized(options);
    return detail::owned<Answerer, pumice_answerer>(pumice_answerer_create, model.get(), &sized);
  }

  // Each question's answers, best first, in the order of the questions.
  Result<std::vector<Span>> answer(const std::string& text, const std::vector<std::string>& questions) {
    const std::vector<const char*> pointers = detail::pointers_to(questions);
    const pumice_span* answers = nullptr;
    size_t count = 0;
    Status status = detail::call(pumice_answerer_answer, get(), text.c_str(), pointers.data(),
                                 pointers.size(), &answers, &count);
    if (!status.ok()) return status.error();
    return detail::copied(answers, count);
  }

  // From any thread.
  void cancel() const { pumice_answerer_cancel(get()); }
};

// A word for a gap of a text.
struct Fill {
  size_t text = 0; // its index
  uint32_t gap = 0, token = 0;
  float probability = 0;
  std::string word;
};

// Finds the most probable words for the gaps of texts.
class Filler : public detail::Owner<pumice_filler, pumice_filler_destroy> {
public:
  using Owner::Owner;

  static Result<Filler> create(const Model& model, const FillerOptions& options = {}) {
    const FillerOptions sized = detail::sized(options);
    return detail::owned<Filler, pumice_filler>(pumice_filler_create, model.get(), &sized);
  }

  // Each gap's words, best first, in the order of the texts.
  Result<std::vector<Fill>> fill(const std::vector<std::string>& texts, size_t* cut = nullptr) {
    const std::vector<const char*> pointers = detail::pointers_to(texts);
    const pumice_fill* fills = nullptr;
    size_t count = 0;
    Status status =
        detail::call(pumice_filler_fill, get(), pointers.data(), pointers.size(), &fills, &count, cut);
    if (!status.ok()) return status.error();
    std::vector<Fill> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back({fills[i].text, fills[i].gap, fills[i].token, fills[i].probability, fills[i].word});
    return all;
  }

  // From any thread.
  void cancel() const { pumice_filler_cancel(get()); }
};

// A passage that was found.
struct Passage {
  float score = 0;
  std::string file; // in the folder
  uint64_t line = 0;
  std::string text;
};

// The passages of a folder's texts with their vectors, and the best of them for a query.
class Index : public detail::Owner<pumice_index, pumice_index_destroy> {
public:
  using Owner::Owner;

  static Result<Index> create(const Model& model, const IndexOptions& options) {
    const IndexOptions sized = detail::sized(options);
    return detail::owned<Index, pumice_index>(pumice_index_create, model.get(), &sized);
  }

  // Reads the files that have changed since.
  Status update(const Progress& progress = nullptr) {
    using Function = bool (*)(void*, uint64_t, uint64_t);
    const Function ask = [](void* user, uint64_t done, uint64_t total) {
      return (*static_cast<const Progress*>(user))(done, total);
    };
    return detail::call(pumice_index_update, get(), progress ? ask : Function(nullptr),
                        static_cast<void*>(const_cast<Progress*>(&progress)));
  }
  // The best passages, best first.
  Result<std::vector<Passage>> search(const std::string& query, size_t top = 5) {
    const pumice_passage* found = nullptr;
    size_t count = 0;
    Status status = detail::call(pumice_index_search, get(), query.c_str(), top, &found, &count);
    if (!status.ok()) return status.error();
    std::vector<Passage> passages;
    for (size_t i = 0; i < count; ++i) {
      passages.push_back({found[i].score, found[i].file, found[i].line, found[i].text});
    }
    return Result<std::vector<Passage>>(std::move(passages));
  }

  // From any thread.
  void cancel() const { pumice_index_cancel(get()); }
};

// A text that was written: see pumice_written.
struct Written {
  std::string text;
  std::vector<uint32_t> tokens;
  float score = 0;
  std::vector<std::pair<uint32_t, uint32_t>> alignment; // a word of the source, and one of the text
};

struct Sentence {
  std::string source;
  std::vector<Written> texts; // best first
};

struct Translation {
  std::vector<Written> texts; // best first, at least one
  std::vector<Sentence> sentences;
  bool truncated = false, lacks_a_term = false;

  const std::string& text() const { return texts.front().text; }
};

namespace detail {

inline std::vector<Written> copied(const pumice_written* texts, size_t count) {
  std::vector<Written> all;
  for (const pumice_written* each = texts; each != texts + count; ++each) {
    Written& written = all.emplace_back();
    written.text = each->text;
    written.tokens.assign(each->tokens, each->tokens + each->token_count);
    written.score = each->score;
    for (size_t i = 0; i < each->alignment_count; ++i)
      written.alignment.emplace_back(each->alignment[2 * i], each->alignment[2 * i + 1]);
  }
  return all;
}

// Options and the structures that they point to, with their sizes.
template <class Options>
struct SizedOptions {
  explicit SizedOptions(const Options& from) : options(sized(from)) {
    constexpr bool captions = std::is_same_v<Options, CaptionerOptions>;
    if constexpr (captions || std::is_same_v<Options, TranslatorOptions>) size_writing();
    if constexpr (std::is_same_v<Options, SpeakerOptions>) {
      if (!from.sampling) return;
      sampling = sized(*from.sampling);
      options.sampling = &sampling;
    }
    if constexpr (captions || std::is_same_v<Options, TranscriberOptions>) {
      if (!from.form) return;
      form = sized(*from.form);
      options.form = &form;
    }
  }
  SizedOptions(const SizedOptions&) = delete;

  Options options;
  WritingOptions writing{};
  Sampling sampling{};
  Form form{};

private:
  void size_writing() {
    if (!options.writing) return;
    writing = sized(*options.writing);
    options.writing = &writing;
    if (!writing.sampling) return;
    sampling = sized(*writing.sampling);
    writing.sampling = &sampling;
  }
};

} // namespace detail

// Translates texts.
class Translator : public detail::Owner<pumice_translator, pumice_translator_destroy> {
public:
  using Owner::Owner;

  static Result<Translator> create(const Model& model, const TranslatorOptions& options = {}) {
    const detail::SizedOptions<TranslatorOptions> sized(options);
    return detail::owned<Translator, pumice_translator>(pumice_translator_create, model.get(),
                                                        &sized.options);
  }

  // The best translation of a text.
  Result<std::string> translate(const std::string& text) {
    auto all = translate(std::vector<std::string>{text});
    if (!all.ok()) return all.error();
    return std::move(all.value()[0].texts[0].text);
  }
  // All of several.
  Result<std::vector<Translation>> translate(const std::vector<std::string>& texts) {
    Status status = with_pointers(pumice_translator_translate, texts);
    if (!status.ok()) return status.error();
    std::vector<Translation> all;
    for (size_t i = 0; i < texts.size(); ++i) {
      auto one = result(i);
      if (!one.ok()) return one.error();
      all.push_back(std::move(one).value());
    }
    return Result<std::vector<Translation>>(std::move(all));
  }

  // A slice at a time: begin, then slices of work() until slice.active is
  // false, then result.
  Status begin(const std::vector<std::string>& texts) {
    return with_pointers(pumice_translator_begin, texts);
  }
  Status begin(const std::string& text) { return begin(std::vector<std::string>{text}); }
  // The translation of one of the last texts.
  Result<Translation> result(size_t index = 0) {
    const pumice_translation* from = nullptr;
    Status status = detail::call(pumice_translator_result, get(), index, &from);
    if (!status.ok()) return status.error();
    Translation translation;
    translation.texts = detail::copied(from->texts, from->text_count);
    for (size_t i = 0; i < from->sentence_count; ++i) {
      const pumice_sentence& each = from->sentences[i];
      translation.sentences.push_back({each.source, detail::copied(each.texts, each.text_count)});
    }
    translation.truncated = from->truncated;
    translation.lacks_a_term = from->lacks_a_term;
    return Result<Translation>(std::move(translation));
  }

  Work work() const { return Work(pumice_translator_work(get())); }

private:
  template <class Function>
  Status with_pointers(Function function, const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& each : texts) pointers.push_back(each.c_str());
    return detail::call(function, get(), pointers.data(), pointers.size());
  }
};

// Describes pictures, or reads the text in them.
class Captioner : public detail::Owner<pumice_captioner, pumice_captioner_destroy> {
public:
  using Owner::Owner;

  static Result<Captioner> create(const Model& model, const CaptionerOptions& options = {}) {
    const detail::SizedOptions<CaptionerOptions> sized(options);
    return detail::owned<Captioner, pumice_captioner>(pumice_captioner_create, model.get(), &sized.options);
  }

  // The texts of a picture, best first.
  Result<std::vector<Written>> caption(const Input& picture) {
    const Input sized = detail::sized(picture);
    Status status = detail::call(pumice_captioner_caption, get(), &sized, size_t{1});
    if (!status.ok()) return status.error();
    return result();
  }

  // A slice at a time: begin, then slices of work() until slice.active is
  // false, then result.
  Status begin(const std::vector<Input>& pictures) {
    const std::vector<Input> sized = detail::all_sized(pictures);
    return detail::call(pumice_captioner_begin, get(), sized.data(), sized.size());
  }
  // The texts of one of the last pictures, best first.
  Result<std::vector<Written>> result(size_t index = 0) {
    const pumice_written* texts = nullptr;
    size_t count = 0;
    Status status = detail::call(pumice_captioner_result, get(), index, &texts, &count);
    if (!status.ok()) return status.error();
    return detail::copied(texts, count);
  }

  Work work() const { return Work(pumice_captioner_work(get())); }
};

// Writes down speech.
class Transcriber {
public:
  static Result<Transcriber> create(const Model& model, const TranscriberOptions& options = {}) {
    const detail::SizedOptions<TranscriberOptions> sized(options);
    return detail::owned<Transcriber, pumice_transcriber>(pumice_transcriber_create, model.get(),
                                                          &sized.options);
  }

  Transcriber() = default;
  explicit Transcriber(pumice_transcriber* handle) : handle_(handle) {}
  Transcriber(Transcriber&&) = default;
  Transcriber& operator=(Transcriber&& from) {
    handle_ = std::move(from.handle_); // before the function that it calls
    on_segment_ = std::move(from.on_segment_);
    return *this;
  }

  explicit operator bool() const { return bool(handle_); }
  pumice_transcriber* get() const { return handle_.get(); }

  // `rate`: samples a second; 0: the model's own. Calls `on_segment` for each segment when it is there.
  Status transcribe(const std::vector<float>& samples, uint32_t rate, const SegmentFunction& on_segment) {
    return detail::call(pumice_transcriber_transcribe, get(), samples.data(), samples.size(), rate,
                        call_function, user(on_segment));
  }
  // Only finds out which language is spoken: see language().
  Status detect(const std::vector<float>& samples, uint32_t rate) {
    return detail::call(pumice_transcriber_detect, get(), samples.data(), samples.size(), rate);
  }
  // The language of the current or last sound, and how probable it is.
  std::string language(float* probability = nullptr) {
    return pumice_transcriber_language(get(), probability);
  }

  // A slice at a time: begin, which copies the samples and the function, then slices of work() until
  // slice.active is false.
  Status begin(const std::vector<float>& samples, uint32_t rate, SegmentFunction on_segment) {
    auto function = std::make_unique<SegmentFunction>(std::move(on_segment));
    Status status = detail::call(pumice_transcriber_begin, get(), samples.data(), samples.size(), rate,
                                 call_function, user(*function));
    if (status.ok()) on_segment_ = std::move(function);
    return status;
  }

  Work work() const { return Work(pumice_transcriber_work(get())); }

private:
  using Handle = detail::Owner<pumice_transcriber, pumice_transcriber_destroy>;

  static void call_function(void* user, const Segment* segment) {
    (*static_cast<const SegmentFunction*>(user))(*segment);
  }
  static void* user(const SegmentFunction& function) { return const_cast<SegmentFunction*>(&function); }

  std::unique_ptr<SegmentFunction> on_segment_; // of the sound that begin() was called with
  Handle handle_;
};

// Speaks texts.
class Speaker {
public:
  // `options.codec` is the model that makes the sound.
  static Result<Speaker> create(const Model& model, const SpeakerOptions& options) {
    const detail::SizedOptions<SpeakerOptions> sized(options);
    return detail::owned<Speaker, pumice_speaker>(pumice_speaker_create, model.get(), &sized.options);
  }

  Speaker() = default;
  explicit Speaker(pumice_speaker* handle) : handle_(handle) {}
  Speaker(Speaker&&) = default;
  Speaker& operator=(Speaker&& from) {
    handle_ = std::move(from.handle_); // before the function that it calls
    on_samples_ = std::move(from.on_samples_);
    return *this;
  }

  explicit operator bool() const { return bool(handle_); }
  pumice_speaker* get() const { return handle_.get(); }

  // Calls `on_samples` for each chunk of the sound when it is there.
  Status speak(const std::string& text, const SamplesFunction& on_samples) {
    return detail::call(pumice_speaker_speak, get(), text.c_str(), call_function, user(on_samples));
  }
  uint32_t rate() const { return pumice_speaker_rate(get()); } // samples a second
  // Why the last sound ended.
  pumice_finish_reason finish_reason() const { return pumice_speaker_finish_reason(get()); }

  // A slice at a time: begin, which copies the function, then slices of work() until slice.active is false.
  Status begin(const std::string& text, SamplesFunction on_samples) {
    auto function = std::make_unique<SamplesFunction>(std::move(on_samples));
    Status status = detail::call(pumice_speaker_begin, get(), text.c_str(), call_function, user(*function));
    if (status.ok()) on_samples_ = std::move(function);
    return status;
  }

  Work work() const { return Work(pumice_speaker_work(get())); }

private:
  using Handle = detail::Owner<pumice_speaker, pumice_speaker_destroy>;

  static void call_function(void* user, const float* samples, size_t count) {
    (*static_cast<const SamplesFunction*>(user))(samples, count);
  }
  static void* user(const SamplesFunction& function) { return const_cast<SamplesFunction*>(&function); }

  std::unique_ptr<SamplesFunction> on_samples_; // of the text that begin() was called with
  Handle handle_;
};

// What was created in the background: one of these.
struct Created {
  Encoder encoder;
  Embedder embedder;
  Reranker reranker;
  Classifier classifier;
  Tagger tagger;
  Answerer answerer;
  Filler filler;
  Index index;
  Translator translator;
  Captioner captioner;
  Transcriber transcriber;
  Speaker speaker;
};

// Something that is created on a thread of its own, with all its kernels.
class Creation : public detail::Owner<pumice_creation, pumice_creation_destroy> {
public:
  using Owner::Owner;

  // `options`: those of an Encoder, an Embedder, ... `how`: threads and progress.
  template <class Options>
  static Result<Creation> start(const Model& model, const Options& options, const CreationOptions& how = {}) {
    const detail::SizedOptions<Options> of_kind(options);
    CreationOptions sized = detail::sized(how);
    set(sized, &of_kind.options);
    return detail::owned<Creation, pumice_creation>(pumice_creation_start, model.get(), &sized);
  }

  // Whether it has ended, successfully or not, and its progress. The pointers may be null.
  bool poll(uint64_t* done = nullptr, uint64_t* total = nullptr) const {
    return pumice_creation_poll(get(), done, total);
  }
  void cancel() const { pumice_creation_cancel(get()); }

  // Waits for the end and returns the object. Call it once.
  Result<Created> finish() {
    auto made = detail::made(detail::sized(pumice_created{}), pumice_creation_finish, get());
    if (!made.ok()) return made.error();
    const pumice_created& all = made.value();
    return Created{Encoder(all.encoder),         Embedder(all.embedder),
                   Reranker(all.reranker),       Classifier(all.classifier),
                   Tagger(all.tagger),           Answerer(all.answerer),
                   Filler(all.filler),           Index(all.index),
                   Translator(all.translator),   Captioner(all.captioner),
                   Transcriber(all.transcriber), Speaker(all.speaker)};
  }

private:
  static void set(CreationOptions& all, const EncoderOptions* one) { all.encoder = one; }
  static void set(CreationOptions& all, const EmbedderOptions* one) { all.embedder = one; }
  static void set(CreationOptions& all, const RerankerOptions* one) { all.reranker = one; }
  static void set(CreationOptions& all, const ClassifierOptions* one) { all.classifier = one; }
  static void set(CreationOptions& all, const TaggerOptions* one) { all.tagger = one; }
  static void set(CreationOptions& all, const AnswererOptions* one) { all.answerer = one; }
  static void set(CreationOptions& all, const FillerOptions* one) { all.filler = one; }
  static void set(CreationOptions& all, const IndexOptions* one) { all.index = one; }
  static void set(CreationOptions& all, const TranslatorOptions* one) { all.translator = one; }
  static void set(CreationOptions& all, const CaptionerOptions* one) { all.captioner = one; }
  static void set(CreationOptions& all, const TranscriberOptions* one) { all.transcriber = one; }
  static void set(CreationOptions& all, const SpeakerOptions* one) { all.speaker = one; }
};

// Measures which kernels are the fastest for a model, on a thread of its own.
class Tune : public detail::Owner<pumice_tune, pumice_tune_destroy> {
public:
  using Owner::Owner;

  static Result<Tune> start(const Model& model, const TuneOptions& options = {}) {
    const TuneOptions sized = detail::sized(options);
    return detail::owned<Tune, pumice_tune>(pumice_tune_start, model.get(), &sized);
  }

  // Whether it has ended, successfully or not, and its progress. The pointers may be null.
  bool poll(uint64_t* done = nullptr, uint64_t* total = nullptr) const {
    return pumice_tune_poll(get(), done, total);
  }
  // With options.in_slices, measures a slice at a time. After cancel(), what has been measured is kept.
  Work work() const { return Work(pumice_tune_work(get())); }
  // Waits for the end. Call it once.
  Result<TuneReport> finish() { return detail::made(detail::sized(TuneReport{}), pumice_tune_finish, get()); }
};

} // namespace v1
} // namespace pumice

#endif // PUMICE_HPP
