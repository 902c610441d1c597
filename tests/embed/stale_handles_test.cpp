// Handles that were destroyed, after others of their kind were made: languages that collect garbage destroy
// late, and some twice.
#include <functional>
#include <set>
#include <type_traits>
#include <vector>

#include "gpu/instance.h"
#include "support/command/agreement.h"
#include "support/command/chats.h"
#include "support/files/bert_folder.h"
#include "support/files/made_adapter.h"
#include "support/files/speech_folder.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"

namespace {

bool is_no_handle(pumice_status status, const pumice_error& error) {
  return status == PUMICE_INVALID_ARGUMENT &&
         std::string_view(error.message).find("is no handle") != std::string_view::npos;
}

// Makes `count` of a kind, one after the other: memory that is used again comes back with the third. Those
// that take no time to make are more than its allocator has in a block. `knows`: whether the library takes
// one for what it is.
template <class Handle>
void check_kind(const char* kind, int count, void (*destroy)(Handle*), const std::function<Handle*()>& make,
                const std::function<bool(Handle*)>& knows) {
  CAPTURE(std::string(kind));
  std::set<Handle*> stale;
  Handle* last = nullptr;
  for (int i = 0; i < count; ++i) {
    Handle* const made = make();
    REQUIRE(made);
    CHECK_FALSE(stale.contains(made));
    destroy(last);
    CHECK(knows(made));
    if (last) CHECK_FALSE(knows(last));
    destroy(made);
    stale.insert(last = made);
  }
  Handle* const made = make();
  size_t known = 0;
  for (Handle* each : stale) {
    destroy(each);
    known += knows(each);
  }
  CHECK(known == 0);
  // Neither what is of another kind nor other addresses.
  std::vector<void*> others = {&last, reinterpret_cast<char*>(made) + 1, reinterpret_cast<void*>(8)};
  if constexpr (!std::is_same_v<Handle, pumice_device>) others.push_back(shared_device().get());
  for (void* other : others) {
    destroy(static_cast<Handle*>(other));
    CHECK_FALSE(knows(static_cast<Handle*>(other)));
  }
  CHECK(knows(made));
  destroy(made);
}

// The same of what a model makes with options.
template <class Handle, class Options>
void check_made(const char* kind, pumice_model* model, const Options& options,
                pumice_status (*create)(pumice_model*, const Options*, Handle**, pumice_error*),
                void (*destroy)(Handle*), const std::function<pumice_status(Handle*, pumice_error*)>& use,
                int count = 4) {
  check_kind<Handle>(
      kind, count, destroy,
      [&] {
        Handle* made = nullptr;
        pumice_error error;
        require_ok(create(model, &options, &made, &error), error);
        return made;
      },
      [&](Handle* handle) {
        pumice_error error;
        return !is_no_handle(use(handle, &error), error);
      });
}

// The model of a fixture, with a tokenizer.
ModelHandle load_with_tokenizer(const TemporaryFolder& folder, const char* model, const char* tokenizer) {
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(fixtures().model(model) / file, folder.path() / file);
  std::filesystem::copy_file(fixtures().tokenizer(tokenizer) / "tokenizer.json",
                             folder.path() / "tokenizer.json");
  return load_for(shared_device().get(), folder.path().string(), PUMICE_FOR_TEXT);
}

} // namespace

TEST_CASE("stale devices, models, loads and what belongs to them") {
  pumice_error error;
  check_kind<pumice_device>(
      "device", 4, pumice_device_destroy, [] { return make_device().release(); },
      [&](pumice_device* device) {
        return !is_no_handle(pumice_device_memory(device, nullptr, &error), error);
      });
  const DeviceHandle& device = shared_device();
  check_kind<pumice_model>(
      "model", 6, pumice_model_destroy, [&] { return load(device.get()).release(); },
      [&](pumice_model* model) {
        return !is_no_handle(pumice_model_get_info(model, nullptr, &error), error);
      });
  check_kind<pumice_load>(
      "load", 4, pumice_load_destroy,
      [&] {
        pumice_source source = {sizeof source};
        source.path = stories.c_str();
        pumice_load* made = nullptr;
        require_ok(pumice_load_start(device.get(), &source, nullptr, &made, &error), error);
        return made;
      },
      [&](pumice_load* started) {
        return !is_no_handle(pumice_load_finish(started, nullptr, &error), error);
      });
  check_kind<pumice_picture_copy>(
      "picture copy", 100, pumice_picture_copy_destroy,
      [&] {
        pumice_picture_copy* made = nullptr;
        require_ok(pumice_picture_copy_create(device.get(), 16, 16, &made, &error), error);
        return made;
      },
      [&](pumice_picture_copy* copy) {
        return !is_no_handle(pumice_picture_copy_picture(copy, nullptr, &error), error);
      });
  const auto instance = *pumice::Instance::create({});
  const pumice::Capabilities chosen = *instance->choose("");
  const auto lookup =
      reinterpret_cast<pumice_get_instance_proc_addr>(instance->table().vkGetInstanceProcAddr);
  check_kind<pumice_features>(
      "features", 100, pumice_features_destroy,
      [&] {
        pumice_features* made = nullptr;
        require_ok(pumice_features_create(lookup, instance->handle(), chosen.handle, nullptr, &made, &error),
                   error);
        return made;
      },
      [](pumice_features* features) { return pumice_features_chain(features) != nullptr; });
}

TEST_CASE("stale sessions, batches, chats and adapters") {
  pumice_error error;
  const ModelHandle model = load(shared_device().get());
  pumice_session_options session = {sizeof session};
  session.context = 32;
  session.chunk = 8;
  check_made<pumice_session, pumice_session_options>(
      "session", model.get(), session, pumice_session_create, pumice_session_destroy,
      [](pumice_session* made, pumice_error* why) {
        return pumice_session_tokens(made, nullptr, 0, nullptr, why);
      });
  check_made<pumice_session_creation, pumice_session_options>(
      "session creation", model.get(), session, pumice_session_creation_start,
      pumice_session_creation_destroy, [](pumice_session_creation* made, pumice_error* why) {
        return pumice_session_creation_finish(made, nullptr, why);
      });
  check_kind<pumice_work>(
      "work", 4, [](pumice_work* work) { pumice_session_destroy(reinterpret_cast<pumice_session*>(work)); },
      [&] { return pumice_session_work(make_session(model.get(), session).release()); },
      [&](pumice_work* work) {
        return !is_no_handle(pumice_work_advance(work, -1, nullptr, nullptr, &error), error);
      });
  pumice_batch_options batch = {sizeof batch};
  batch.context = 32;
  check_made<pumice_batch, pumice_batch_options>(
      "batch", model.get(), batch, pumice_batch_create, pumice_batch_destroy,
      [](pumice_batch* made, pumice_error* why) { return pumice_batch_drop(made, 99, why); });
  check_made<pumice_batch_creation, pumice_batch_options>(
      "batch creation", model.get(), batch, pumice_batch_creation_start, pumice_batch_creation_destroy,
      [](pumice_batch_creation* made, pumice_error* why) {
        return pumice_batch_creation_finish(made, nullptr, why);
      });
  pumice_tune_options tune = {sizeof tune};
  tune.seconds = 0.01f;
  check_made<pumice_tune, pumice_tune_options>(
      "tune", model.get(), tune, pumice_tune_start, pumice_tune_destroy,
      [](pumice_tune* made, pumice_error* why) { return pumice_tune_finish(made, nullptr, why); }, 3);
  pumice_chat_options chat = {sizeof chat};
  chat.template_text = "{{ messages }}";
  check_made<pumice_chat, pumice_chat_options>(
      "chat", model.get(), chat, pumice_chat_create, pumice_chat_destroy,
      [](pumice_chat* made, pumice_error* why) { return pumice_chat_check_calls(made, why); }, 2000);

  const TemporaryFolder folder;
  const std::string path = (folder.path() / "adapter").string();
  write_gguf_adapter(make_adapter(require(pumice::ModelFile::open(stories)), {"ffn_up"}, 4, 62), path,
                     [](const std::string& module) { return module; });
  check_kind<pumice_adapter>(
      "adapter", 6, pumice_adapter_destroy,
      [&] {
        pumice_adapter* made = nullptr;
        require_ok(pumice_adapter_load(model.get(), path.c_str(), &made, &error), error);
        return made;
      },
      [&](pumice_adapter* adapter) {
        pumice_adapter* combined = nullptr;
        const pumice_status status = pumice_adapter_combine(&adapter, nullptr, 1, &combined, &error);
        pumice_adapter_destroy(combined);
        return !is_no_handle(status, error);
      });
}

TEST_CASE("stale handles of what reads texts") {
  const auto folder_of = [](const TemporaryFolder& folder, uint32_t labels, bool masked) {
    BertFolder bert;
    bert.labels = labels;
    bert.masked = masked;
    REQUIRE(bert.write(folder));
    return load_for(shared_device().get(), folder.path().string(),
                    masked ? PUMICE_FOR_SCORES : PUMICE_FOR_TEXT);
  };
  const TemporaryFolder plain, one, two, masks, names, answers, texts;
  const ModelHandle bert = folder_of(plain, 0, false);
  check_made<pumice_encoder, pumice_encoder_options>(
      "encoder", bert.get(), {sizeof(pumice_encoder_options)}, pumice_encoder_create, pumice_encoder_destroy,
      [](pumice_encoder* made, pumice_error* why) { return pumice_encoder_begin(made, nullptr, 0, why); });
  check_made<pumice_embedder, pumice_embedder_options>(
      "embedder", bert.get(), {sizeof(pumice_embedder_options)}, pumice_embedder_create,
      pumice_embedder_destroy, [](pumice_embedder* made, pumice_error* why) {
        return pumice_embedder_begin(made, nullptr, 1, nullptr, why);
      });
  const std::string path = texts.path().string();
  pumice_index_options index = {sizeof index};
  index.folder = path.c_str();
  check_made<pumice_index, pumice_index_options>(
      "index", bert.get(), index, pumice_index_create, pumice_index_destroy,
      [](pumice_index* made, pumice_error* why) {
        return pumice_index_search(made, nullptr, 1, nullptr, nullptr, why);
      });
  pumice_creation_options creation = {sizeof creation};
  const pumice_encoder_options encoder = {.struct_size = sizeof encoder};
  creation.encoder = &encoder;
  check_made<pumice_creation, pumice_creation_options>(
      "creation", bert.get(), creation, pumice_creation_start, pumice_creation_destroy,
      [](pumice_creation* made, pumice_error* why) { return pumice_creation_finish(made, nullptr, why); });
  const ModelHandle scores = folder_of(one, 1, false);
  check_made<pumice_reranker, pumice_reranker_options>(
      "reranker", scores.get(), {sizeof(pumice_reranker_options)}, pumice_reranker_create,
      pumice_reranker_destroy, [](pumice_reranker* made, pumice_error* why) {
        return pumice_reranker_score(made, nullptr, nullptr, 0, nullptr, nullptr, why);
      });
  const ModelHandle labels = folder_of(two, 2, false);
  check_made<pumice_classifier, pumice_classifier_options>(
      "classifier", labels.get(), {sizeof(pumice_classifier_options)}, pumice_classifier_create,
      pumice_classifier_destroy, [](pumice_classifier* made, pumice_error* why) {
        return pumice_classifier_classify(made, nullptr, 1, nullptr, nullptr, why);
      });
  const ModelHandle fills = folder_of(masks, 0, true);
  check_made<pumice_filler, pumice_filler_options>(
      "filler", fills.get(), {sizeof(pumice_filler_options)}, pumice_filler_create, pumice_filler_destroy,
      [](pumice_filler* made, pumice_error* why) {
        return pumice_filler_fill(made, nullptr, 1, nullptr, nullptr, nullptr, why);
      });
  const ModelHandle tags = load_with_tokenizer(names, "bert-tokens", "bert-uncased");
  check_made<pumice_tagger, pumice_tagger_options>(
      "tagger", tags.get(), {sizeof(pumice_tagger_options)}, pumice_tagger_create, pumice_tagger_destroy,
      [](pumice_tagger* made, pumice_error* why) {
        return pumice_tagger_tag(made, nullptr, 1, nullptr, nullptr, why);
      });
  const ModelHandle finds = load_with_tokenizer(answers, "roberta-answers", "roberta");
  check_made<pumice_answerer, pumice_answerer_options>(
      "answerer", finds.get(), {sizeof(pumice_answerer_options)}, pumice_answerer_create,
      pumice_answerer_destroy, [](pumice_answerer* made, pumice_error* why) {
        return pumice_answerer_answer(made, nullptr, nullptr, 1, nullptr, nullptr, why);
      });
}

TEST_CASE("stale handles of what translates, sees, hears and speaks") {
  const DeviceHandle& device = shared_device();
  const ModelHandle translates = load(device.get(), dates);
  check_made<pumice_translator, pumice_translator_options>(
      "translator", translates.get(), {sizeof(pumice_translator_options)}, pumice_translator_create,
      pumice_translator_destroy, [](pumice_translator* made, pumice_error* why) {
        return pumice_translator_begin(made, nullptr, 1, why);
      });
  const TemporaryFolder pictures;
  write_word_folder(pictures, "vit-gpt2");
  const ModelHandle sees = load(device.get(), pictures.path().string());
  check_made<pumice_captioner, pumice_captioner_options>(
      "captioner", sees.get(), {sizeof(pumice_captioner_options)}, pumice_captioner_create,
      pumice_captioner_destroy, [](pumice_captioner* made, pumice_error* why) {
        return pumice_captioner_begin(made, nullptr, 1, why);
      });
  const WhisperFolder speech;
  const ModelHandle hears = load(device.get(), speech.path().string());
  check_made<pumice_transcriber, pumice_transcriber_options>(
      "transcriber", hears.get(), {sizeof(pumice_transcriber_options)}, pumice_transcriber_create,
      pumice_transcriber_destroy, [](pumice_transcriber* made, pumice_error* why) {
        return pumice_transcriber_detect(made, nullptr, 1, 0, why);
      });
  const SpeechFolder voice;
  const ModelHandle writes = load(device.get(), voice.path().string()),
                    codec = load(device.get(), voice.codec().string());
  pumice_speaker_options options = {sizeof options};
  options.codec = codec.get();
  check_made<pumice_speaker, pumice_speaker_options>(
      "speaker", writes.get(), options, pumice_speaker_create, pumice_speaker_destroy,
      [](pumice_speaker* made, pumice_error* why) {
        return pumice_speaker_begin(made, nullptr, nullptr, nullptr, why);
      });
}
