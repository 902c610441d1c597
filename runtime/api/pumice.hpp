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
// struct_size.
#ifndef PUMICE_HPP
#define PUMICE_HPP

#include "pumice.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pumice {
inline namespace v1 {

using Vulkan = pumice_vulkan;
using Allocator = pumice_allocator;
using DeviceOptions = pumice_device_options;
using MemoryReport = pumice_memory_report;
using LoadOptions = pumice_load_options;
using ModelInfo = pumice_model_info;
using MemoryEstimate = pumice_memory_estimate;
using Buffer = pumice_buffer;
using SessionOptions = pumice_session_options;
using Sampling = pumice_sampling;
using Request = pumice_request;
using Event = pumice_event;
using Slice = pumice_slice;
using Sync = pumice_sync;
using EncoderOptions = pumice_encoder_options;
using Input = pumice_input;
using TranslatorOptions = pumice_translator_options;

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

template <class Options>
Options sized(Options options) {
  options.struct_size = sizeof options;
  return options;
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

// A device of Pumice's own, or the one that your program renders with. The objects that options.log_user and
// other pointers point to must outlive everything that is created from the device.
class Device : public detail::Owner<pumice_device, pumice_device_destroy> {
public:
  using Owner::Owner;

  static Result<Device> create(const DeviceOptions& options = {}) {
    const DeviceOptions sized = detail::sized(options);
    return detail::owned<Device, pumice_device>(pumice_device_create, &sized);
  }

  const char* name() const { return pumice_device_name(get()); }

  // The handles, to make semaphores and buffers with.
  Vulkan vulkan() const {
    Vulkan handles{};
    pumice_device_vulkan(get(), &handles);
    return handles;
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
    return source;
  }

private:
  std::string path_, name_;
  const void* memory_ = nullptr;
  Reader read_;
  uint64_t offset_ = 0, bytes_ = 0;
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

  // The tokens of a text, by default with the special tokens that the model expects around it.
  Result<std::vector<uint32_t>> tokenize(const std::string& text, bool add_special = true) const {
    return detail::listed<std::vector<uint32_t>>(text.size() + 8, 0, pumice_tokenize, get(), text.c_str(),
                                                 add_special);
  }

  // The text of tokens, without special ones.
  Result<std::string> detokenize(const std::vector<uint32_t>& tokens) const {
    return detail::listed<std::string>(8 * tokens.size(), 1, pumice_detokenize, get(), tokens.data(),
                                       tokens.size());
  }
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
  return detail::made(detail::sized(MemoryEstimate{}), pumice_estimate_memory, device.get(), &from,
                      &sized_load, &sized_session);
}

// A conversation.
class Session {
public:
  // Without `on_event` (and options.on_event), events wait to be fetched by poll().
  static Result<Session> create(const Model& model, const SessionOptions& options = {},
                                EventFunction on_event = nullptr) {
    Session session;
    SessionOptions sized = detail::sized(options);
    if (on_event) {
      session.on_event_ = std::make_unique<EventFunction>(std::move(on_event));
      sized.on_event = [](void* user, const Event* event) { (*static_cast<EventFunction*>(user))(*event); };
      sized.user = session.on_event_.get();
    }
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
    Request sized = detail::sized(request);
    Sampling sampling{};
    if (request.sampling) {
      sampling = detail::sized(*request.sampling);
      sized.sampling = &sampling;
    }
    return detail::call(pumice_generate, get(), &sized);
  }
  // Adds `text` to the conversation and generates at most `max_tokens` tokens; 0: as many as fit.
  Status generate(const std::string& text, uint32_t max_tokens = 0, const Sampling* sampling = nullptr) {
    Request request{};
    request.text = text.c_str();
    request.max_tokens = max_tokens;
    request.sampling = sampling;
    return generate(request);
  }

  // Generates to the end.
  Status run() { return detail::call(pumice_run, get()); }

  // The next event, if there is one. Its text is valid until the next call with this session.
  std::optional<Event> poll() {
    Event event{};
    if (!pumice_poll(get(), &event)) return std::nullopt;
    return event;
  }

  // Submits a slice that is expected to take at most `budget_us` microseconds on the device.
  Result<Slice> advance(float budget_us, const Sync* sync = nullptr) {
    const Sync sized = detail::sized(sync ? *sync : Sync{});
    return detail::made(detail::sized(Slice{}), pumice_advance, get(), budget_us, sync ? &sized : nullptr);
  }
  // Records it into your command buffer.
  Result<Slice> record(VkCommandBuffer command_buffer, float budget_us) {
    return detail::made(detail::sized(Slice{}), pumice_record, get(), command_buffer, budget_us);
  }
  // Forgets slices that were recorded and will not be submitted.
  Status discard() { return detail::call(pumice_discard, get()); }

  // From any thread.
  void cancel() const { pumice_session_cancel(get()); }

  // The conversation so far.
  Result<std::vector<uint32_t>> tokens() const {
    return detail::listed<std::vector<uint32_t>>(512, 0, pumice_session_tokens, get());
  }

  Status save(const std::string& path) { return detail::call(pumice_session_save, get(), path.c_str()); }
  Status restore(const std::string& path) {
    return detail::call(pumice_session_restore, get(), path.c_str());
  }
  // suspend() frees all device memory; resume() allocates it again, also on another device after
  // PUMICE_DEVICE_LOST.
  Status suspend() { return detail::call(pumice_session_suspend, get()); }
  Status resume(const Model& model) { return detail::call(pumice_session_resume, get(), model.get()); }

private:
  using Handle = detail::Owner<pumice_session, pumice_session_destroy>;
  std::unique_ptr<EventFunction> on_event_;
  Handle handle_;
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
    return detail::made(size_t(0), pumice_encode, get(), inputs.data(), inputs.size(), values, capacity);
  }

  // A row for each text.
  Result<std::vector<float>> embed(const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    pointers.reserve(texts.size());
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    std::vector<float> values(texts.size() * columns());
    Status status = detail::call(pumice_embed, get(), pointers.data(), pointers.size(), values.data());
    if (!status.ok()) return status.error();
    return Result<std::vector<float>>(std::move(values));
  }

  // A slice at a time: begin, then advance or record until slice.active is false, then read.
  Status begin(const std::vector<Input>& inputs) {
    return detail::call(pumice_encode_begin, get(), inputs.data(), inputs.size());
  }
  Result<Slice> advance(float budget_us, const Sync* sync = nullptr) {
    const Sync sized = detail::sized(sync ? *sync : Sync{});
    return detail::made(detail::sized(Slice{}), pumice_encode_advance, get(), budget_us,
                        sync ? &sized : nullptr);
  }
  Result<Slice> record(VkCommandBuffer command_buffer, float budget_us) {
    return detail::made(detail::sized(Slice{}), pumice_encode_record, get(), command_buffer, budget_us);
  }
  Status discard() { return detail::call(pumice_encode_discard, get()); }
  Result<std::vector<float>> read() {
    return detail::listed<std::vector<float>>(columns(), 0, pumice_encode_read, get());
  }

  // From any thread.
  void cancel() const { pumice_encoder_cancel(get()); }
};

// Turns a text into another one with an encoder and a decoder.
class Translator : public detail::Owner<pumice_translator, pumice_translator_destroy> {
public:
  using Owner::Owner;

  static Result<Translator> create(const Model& model, const TranslatorOptions& options = {}) {
    const TranslatorOptions sized = detail::sized(options);
    return detail::owned<Translator, pumice_translator>(pumice_translator_create, model.get(), &sized);
  }

  // A translation longer than both 16 KiB and sixteen times its text is computed twice.
  Result<std::string> translate(const std::string& text) {
    return detail::listed<std::string>(std::max<size_t>(16384, 16 * text.size()), 1, pumice_translate, get(),
                                       text.c_str());
  }

  // From any thread.
  void cancel() const { pumice_translator_cancel(get()); }
};

} // namespace v1
} // namespace pumice

#endif // PUMICE_HPP
