#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "api/pumice.h"

#include "support/files/paths.h"

// The public interface as a program uses it. A failure fails the test.

inline const std::string stories = stories_model().string();
inline const std::string dates = dates_model().string();

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};
using DeviceHandle = std::unique_ptr<pumice_device, Destroy<pumice_device_destroy>>;
using ModelHandle = std::unique_ptr<pumice_model, Destroy<pumice_model_destroy>>;
using LoadHandle = std::unique_ptr<pumice_load, Destroy<pumice_load_destroy>>;
using SessionHandle = std::unique_ptr<pumice_session, Destroy<pumice_session_destroy>>;
using StartHandle = std::unique_ptr<pumice_session_creation, Destroy<pumice_session_creation_destroy>>;
using BatchStartHandle = std::unique_ptr<pumice_batch_creation, Destroy<pumice_batch_creation_destroy>>;
using CreationHandle = std::unique_ptr<pumice_creation, Destroy<pumice_creation_destroy>>;
using BatchHandle = std::unique_ptr<pumice_batch, Destroy<pumice_batch_destroy>>;
using EncoderHandle = std::unique_ptr<pumice_encoder, Destroy<pumice_encoder_destroy>>;
using EmbedderHandle = std::unique_ptr<pumice_embedder, Destroy<pumice_embedder_destroy>>;
using RerankerHandle = std::unique_ptr<pumice_reranker, Destroy<pumice_reranker_destroy>>;
using ClassifierHandle = std::unique_ptr<pumice_classifier, Destroy<pumice_classifier_destroy>>;
using IndexHandle = std::unique_ptr<pumice_index, Destroy<pumice_index_destroy>>;
using TranscriberHandle = std::unique_ptr<pumice_transcriber, Destroy<pumice_transcriber_destroy>>;
using CaptionerHandle = std::unique_ptr<pumice_captioner, Destroy<pumice_captioner_destroy>>;
using TranslatorHandle = std::unique_ptr<pumice_translator, Destroy<pumice_translator_destroy>>;

inline void require_ok(pumice_status status, const pumice_error& error) {
  if (status != PUMICE_OK) FAIL(std::string(pumice_status_name(status)) << ": " << error.message);
}

// With validation, unless the environment says otherwise: the test program fails if there was a message.
DeviceHandle make_device(pumice_device_options options = {sizeof(pumice_device_options)});
// A device that the program's cases share, with its kernels: making those is most of what a small model's
// steps take. `index`: of several. Cases about what a device loses or has not done yet make their own.
const DeviceHandle& shared_device(size_t index = 0);
ModelHandle load(pumice_device* device, const std::string& path, const pumice_load_options& options);
// Without the check of kernels, unless it is asked for: it takes time and memory on each device that is new.
ModelHandle load(pumice_device* device, const std::string& path = stories, float tune_seconds = -1);
SessionHandle make_session(pumice_model* model,
                           pumice_session_options options = {sizeof(pumice_session_options)});

BatchHandle make_batch(pumice_model* model, pumice_batch_options options);

uint64_t allocated(const pumice_device* device); // bytes on the device
std::vector<uint32_t> tokens_of(const pumice_session* session);

struct Story {
  std::string text;
  std::vector<uint32_t> tokens;
  pumice_finish_reason finish_reason = PUMICE_FINISH_NONE;

  bool operator==(const Story&) const = default;
};

void add_event(const pumice_event& event, Story& story);
// Adds the events that wait.
void take_events(pumice_session* session, Story& story);
// Generates the text of a request, in whole steps or in slices.
Story generated_story(pumice_session* session, const pumice_request& request, bool in_slices = false);
void begin(pumice_session* session, const char* prompt, uint32_t max_tokens,
           const pumice_sampling* sampling = nullptr);
Story tell(pumice_session* session, const char* prompt, uint32_t max_tokens,
           const pumice_sampling* sampling = nullptr);
