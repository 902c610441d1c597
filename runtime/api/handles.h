#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/live.h"
#include "api/pumice.h"
#include "form/form_vocabulary.h"
#include "kernel/device_context.h"
#include "model/adapter.h"
#include "model/model.h"
#include "step/batch.h"
#include "text/tokenizer.h"

namespace pumice {
class Session;
}

namespace pumice::api {

// Where messages go. Shared by everything that is made from a device.
class Log {
public:
  Log(pumice_log_function function, void* user) : function_(function), user_(user) {}
  void say(pumice_log_level level, const std::string& message) const {
    if (function_) function_(user_, level, message.c_str());
  }

private:
  pumice_log_function function_;
  void* user_;
};

// The adapters of a model that are there.
class AdapterList {
public:
  void add(const std::shared_ptr<const Adapter>& adapter);
  // Room for all of them in so many places; null for none. `name`: of the option, for messages.
  Result<std::shared_ptr<const AdapterRoom>> room(uint32_t places, const std::string& name) const;

private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<const Adapter>> adapters_;
};

} // namespace pumice::api

struct pumice_adapter : pumice::api::Live<pumice_adapter> {
  std::shared_ptr<const pumice::Adapter> adapter;
  float scale = 1;                                // that was given when it was made of others
  std::shared_ptr<pumice::api::AdapterList> list; // of its model
};

struct pumice_device : pumice::api::Live<pumice_device> {
  pumice::DeviceContext context;
  std::shared_ptr<const pumice::api::Log> log;
};

struct pumice_model : pumice::api::Live<pumice_model> {
  std::shared_ptr<const pumice::Model> model;
  std::shared_ptr<const pumice::Tokenizer> tokenizer; // null where there is none
  std::shared_ptr<pumice::LazyFormVocabulary> forms;  // of the tokenizer
  std::string architecture;
  std::shared_ptr<const pumice::api::Log> log;
  std::vector<uint32_t> ends; // tokens that end a text
  // Of pictures, where the model was loaded with options.vision; otherwise null.
  std::shared_ptr<const pumice::Model> tower;
  std::shared_ptr<pumice::api::AdapterList> adapters = std::make_shared<pumice::api::AdapterList>();
};

namespace pumice::api {

// An error if the model is not a decoder alone, which `user` needs.
Status check_decoder(const pumice_model& model, const char* user);

// An error if the model has no tokenizer.
Status require_tokenizer(const Tokenizer* tokenizer, const Model& model);

// Saves compiled kernels and measurements for the next run, if the device has a cache folder.
void save_pipelines(const DeviceContext& context, const Log& log);

// Opens a source: reads the header of a model, or everything if it comes from a callback.
Result<ModelFile> open_source(const pumice_source* source, const Progress& progress, bool header_only,
                              const char* name = "source");
// A model's file, with that of its pictures' encoder if there is one; of the tower of pictures, that one.
struct ModelSource {
  const pumice_source* source = nullptr;
  const pumice_source* mmproj = nullptr; // may be null

  Result<ModelFile> open(Tower tower, const Progress& progress, bool header_only) const;
};
Result<LoadOptions> read_load_options(const pumice_load_options& options);
// The options for the encoder of a model's pictures, of those for what reads texts.
LoadOptions tower_options(LoadOptions options);
// That encoder as of Model::plan(). unsupported for a model that does not see.
Result<std::shared_ptr<const Model>> plan_tower(const ModelSource& source, const LoadOptions& options,
                                                const DeviceContext& context);
Result<CacheType> read_cache_type(const pumice_cache_type& type);
// The smaller model that guesses at so many tokens; null where none is given.
Result<std::shared_ptr<const Model>> read_draft_model(const pumice_model* model, uint32_t drafts);
Result<SessionOptions> session_options(const pumice_session_options& options, const ModelShape& shape);
pumice_cache_type to_cache_type(CacheType type);
// The size of a session, as pumice_session_options.fit has it, which takes `others` bytes beside its steps.
Result<SessionSize> fitted_size(const pumice_session_options& options, const Model& model, SessionSize size,
                                uint64_t others);
Error no_fit_in_stages();
Result<SessionOptions> batch_options(const pumice_batch_options& options, const ModelShape& shape);

// As call_exclusive(), for what uses a session's conversation from outside of it.
pumice_status with_conversation(pumice_session* session, pumice_error* error,
                                const std::function<Status(Session&)>& body);
// The application's function, which takes the bytes of what is saved.
StateSink sink_of(pumice_write_function write, void* user);

} // namespace pumice::api
