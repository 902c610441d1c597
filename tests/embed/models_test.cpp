// Loading as games load, and what is not a conversation: encoding, embedding, translating.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "convert/conversion.h"
#include "support/embedding.h"
#include "support/files/bert_folder.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"
#include "support/thread_priority.h"
#include "support/translators.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily.";

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ModelHandle load_from(pumice_device* device, const pumice_source& source) {
  pumice_model* model = nullptr;
  pumice_error error;
  require_ok(pumice_model_load(device, &source, nullptr, &model, &error), error);
  return ModelHandle(model);
}

Story story_of(pumice_model* model) {
  pumice_session_options options = {sizeof options};
  options.context = 128;
  return tell(make_session(model, options).get(), prompt, 10);
}

bool read_vector(void* user, uint64_t at, void* to, size_t count) {
  const auto& bytes = *static_cast<const std::vector<char>*>(user);
  if (at > bytes.size() || count > bytes.size() - at) return false;
  std::memcpy(to, bytes.data() + at, count);
  return true;
}

// The stories' model in several files.
std::vector<std::string> split_into(const std::filesystem::path& folder) {
  const pumice::ModelFile file = require(pumice::ModelFile::open(stories));
  pumice::ConversionOptions options;
  options.mixture = require(pumice::find_mixture("Q8_0"));
  options.split_bytes = 1'000'000;
  std::vector<std::string> paths;
  for (const auto& path : require(pumice::convert_gguf(file, folder / "stories.gguf", options, {})).files)
    paths.push_back(path.string());
  return paths;
}

// A file that is read only once it is released: a small one could be loaded before its loading is cancelled.
struct HeldFile {
  std::vector<char> bytes;
  std::atomic<bool> released = false;
};

bool read_held(void* user, uint64_t at, void* to, size_t count) {
  auto& file = *static_cast<HeldFile*>(user);
  file.released.wait(false);
  return read_vector(&file.bytes, at, to, count);
}

} // namespace

TEST_CASE("a model comes from a path, a packed file, memory or a callback") {
  const DeviceHandle device = make_device();
  const Story expected = story_of(load(device.get()).get());
  const std::vector<char> bytes = bytes_of(stories);

  const TemporaryFolder folder;
  const std::string packed = (folder.path() / "game.pak").string();
  {
    std::ofstream pak(packed, std::ios::binary);
    pak << std::string(12345, 'x');
    pak.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    pak << std::string(777, 'y');
  }
  pumice_source source = {sizeof source};
  source.path = packed.c_str();
  source.offset = 12345;
  source.bytes = bytes.size();
  CHECK(story_of(load_from(device.get(), source).get()) == expected);

  void* aligned = std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64);
  std::memcpy(aligned, bytes.data(), bytes.size());
  source = {sizeof source};
  source.memory = aligned;
  source.bytes = bytes.size();
  CHECK(story_of(load_from(device.get(), source).get()) == expected);
  std::free(aligned);

  source = {sizeof source};
  source.read = read_vector;
  source.user = const_cast<std::vector<char>*>(&bytes);
  source.bytes = bytes.size();
  CHECK(story_of(load_from(device.get(), source).get()) == expected);

  pumice_model* model = nullptr;
  pumice_error error;
  source.read = [](void*, uint64_t, void*, size_t) { return false; };
  source.name = "hero.gguf";
  CHECK(pumice_model_load(device.get(), &source, nullptr, &model, &error) == PUMICE_IO);
  CHECK(std::string(error.message).find("hero.gguf") != std::string::npos);
  source.path = packed.c_str();
  CHECK(pumice_model_load(device.get(), &source, nullptr, &model, &error) == PUMICE_INVALID_ARGUMENT);
  source = {sizeof source};
  source.path = "/no/such/model.gguf";
  CHECK(pumice_model_load(device.get(), &source, nullptr, &model, &error) == PUMICE_NOT_FOUND);
  source.path = packed.c_str();
  source.offset = 12346;
  CHECK(pumice_model_load(device.get(), &source, nullptr, &model, &error) == PUMICE_INVALID_FILE);
  CHECK(model == nullptr);
}

TEST_CASE("the parts of a split model come from paths, memory and callbacks, in any order") {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = split_into(folder.path());
  REQUIRE(paths.size() == 3);
  const DeviceHandle device = make_device();
  const Story expected = story_of(load(device.get(), paths[1]).get());
  CHECK(expected.tokens.size() == 10);
  const std::vector<char> second = bytes_of(paths[1]), third = bytes_of(paths[2]);
  const std::unique_ptr<void, void (*)(void*)> aligned(std::aligned_alloc(64, (second.size() + 63) / 64 * 64),
                                                       std::free);
  std::memcpy(aligned.get(), second.data(), second.size());
  pumice_source parts[3] = {{sizeof parts[0]}, {sizeof parts[0]}, {sizeof parts[0]}};
  parts[0].read = read_vector;
  parts[0].user = const_cast<std::vector<char>*>(&third);
  parts[0].bytes = third.size();
  parts[0].name = "third";
  parts[1].path = paths[0].c_str();
  parts[2].memory = aligned.get();
  parts[2].bytes = second.size();
  pumice_source source = {sizeof source};
  source.parts = parts;
  source.part_count = 3;
  CHECK(story_of(load_from(device.get(), source).get()) == expected);
  pumice_memory_estimate estimate = {sizeof estimate};
  pumice_error error;
  require_ok(pumice_session_estimate_memory(device.get(), &source, nullptr, nullptr, &estimate, &error),
             error);
  CHECK(estimate.weights > 1'000'000);

  pumice_model* model = nullptr;
  const auto fails = [&](pumice_status status, const char* what) {
    CHECK(pumice_model_load(device.get(), &source, nullptr, &model, &error) == status);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(what) != std::string::npos);
  };
  source.part_count = 2;
  fails(PUMICE_NOT_FOUND, "third: the model is in 3 parts, and 2 were given, without part 2");
  source.part_count = 0;
  fails(PUMICE_INVALID_ARGUMENT, "source.part_count is 0");
  source.part_count = 3;
  parts[2] = parts[1];
  fails(PUMICE_INVALID_FILE, "part 1 was given twice");
  parts[2].path = nullptr;
  fails(PUMICE_INVALID_ARGUMENT, "source.parts[2] has none of path, memory, read and parts");
  parts[2].parts = parts;
  fails(PUMICE_INVALID_ARGUMENT, "source.parts[2] has parts");
  source.path = paths[0].c_str();
  fails(PUMICE_INVALID_ARGUMENT, "source has several of path, memory, read and parts");
  source = parts[0];
  fails(PUMICE_UNSUPPORTED, "third: this is part 3 of the 3");
}

TEST_CASE("a model loads on a thread of its own, with progress, and can be cancelled") {
  const DeviceHandle device = make_device();
  const Story expected = story_of(load(device.get()).get());
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_load* started = nullptr;
  pumice_error error;
  pumice_load_options options = {sizeof options};
  std::atomic<int> nice = nice_value();
  options.user = &nice;
  options.progress = [](void* user, uint64_t, uint64_t) {
    *static_cast<std::atomic<int>*>(user) = nice_value();
    return true;
  };
  require_ok(pumice_load_start(device.get(), &source, &options, &started, &error), error);
  const LoadHandle load(started);
  uint64_t done = 0, total = 0;
  while (!pumice_load_poll(load.get(), &done, &total)) std::this_thread::yield();
  CHECK(done == total);
  CHECK(total > 1'000'000);
  pumice_model* model = nullptr;
  require_ok(pumice_load_finish(load.get(), &model, &error), error);
  const ModelHandle owner(model);
  CHECK(story_of(model) == expected);
#ifdef __linux__
  CHECK((nice > nice_value() || nice == 19)); // it goes behind this thread
#endif
  CHECK(pumice_load_finish(load.get(), &model, &error) == PUMICE_INVALID_ARGUMENT);

  HeldFile file = {bytes_of(stories)};
  pumice_source held = {sizeof held};
  held.read = read_held;
  held.user = &file;
  held.bytes = file.bytes.size();
  require_ok(pumice_load_start(device.get(), &held, nullptr, &started, &error), error);
  const LoadHandle cancelled(started);
  pumice_load_cancel(started);
  file.released = true;
  file.released.notify_one();
  CHECK(pumice_load_finish(started, &model, &error) == PUMICE_CANCELLED);
  CHECK(model == nullptr);
  require_ok(pumice_load_start(device.get(), &source, nullptr, &started, &error), error);
  pumice_load_destroy(started);
}

TEST_CASE("the memory estimate of a model and a session is what they take") {
  const DeviceHandle device = make_device();
  pumice_error error;
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  for (const uint32_t context : {64u, 512u}) {
    pumice_session_options options = {sizeof options};
    options.context = context;
    pumice_memory_estimate estimate = {sizeof estimate};
    require_ok(pumice_session_estimate_memory(device.get(), &source, nullptr, &options, &estimate, &error),
               error);
    const DeviceHandle fresh = make_device();
    pumice_memory_report before = {sizeof before}, after = {sizeof after};
    require_ok(pumice_device_memory(fresh.get(), &before, &error), error);
    const ModelHandle model = load(fresh.get());
    const SessionHandle session = make_session(model.get(), options);
    tell(session.get(), prompt, 5);
    require_ok(pumice_device_memory(fresh.get(), &after, &error), error);
    const double estimated = static_cast<double>(estimate.peak),
                 peak = static_cast<double>(after.peak - before.allocated);
    CAPTURE(estimated);
    CAPTURE(peak);
    CHECK(std::abs(estimated - peak) <= 0.02 * peak);
    CHECK(estimate.peak == estimate.weights + estimate.cache + estimate.scratch + estimate.loading);
    CHECK(estimate.fits);
    CHECK(estimate.longest_context >= context);
  }
}

TEST_CASE("a session is made to fit the memory that is free") {
  pumice_error error;
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_session_options options = {sizeof options};
  pumice_memory_estimate whole = {sizeof whole};
  pumice_memory_report before = {sizeof before};
  {
    const DeviceHandle device = make_device();
    require_ok(pumice_session_estimate_memory(device.get(), &source, nullptr, &options, &whole, &error),
               error);
    require_ok(pumice_device_memory(device.get(), &before, &error), error);
  }
  CHECK(whole.context > 16);
  CHECK(whole.chunk == 128);
  CHECK(whole.cache_type == PUMICE_CACHE_F16);
  for (const double share : {0.95, 0.6, 0.4}) {
    CAPTURE(share);
    pumice_device_options limited = {sizeof limited};
    const auto session_bytes =
        static_cast<uint64_t>(share * static_cast<double>(whole.cache + whole.scratch));
    limited.memory_limit = before.allocated + whole.weights + session_bytes;
    const DeviceHandle device = make_device(limited);
    pumice_memory_estimate estimate = {sizeof estimate};
    options.fit = 0;
    require_ok(pumice_session_estimate_memory(device.get(), &source, nullptr, &options, &estimate, &error),
               error);
    CHECK(!estimate.fits);
    options.fit = 1;
    require_ok(pumice_session_estimate_memory(device.get(), &source, nullptr, &options, &estimate, &error),
               error);
    CHECK(estimate.fits);
    CHECK((estimate.chunk < 128 || estimate.cache_type == PUMICE_CACHE_Q8_0));
    CHECK((estimate.context == whole.context || estimate.cache_type == PUMICE_CACHE_Q8_0));
    const ModelHandle model = load(device.get());
    const SessionHandle session = make_session(model.get(), options);
    CHECK(tell(session.get(), prompt, 5).tokens.size() == 5);
    // A context that is asked for is not shortened.
    options.context = estimate.longest_context + 1;
    options.cache = PUMICE_CACHE_Q8_0;
    options.chunk = estimate.chunk;
    pumice_session* made = nullptr;
    if (estimate.context < whole.context) {
      CHECK(pumice_session_create(model.get(), &options, &made, &error) == PUMICE_OUT_OF_MEMORY);
      CHECK(std::string(error.message).find("there is no room for a context of") != std::string::npos);
    }
    options = {sizeof options};
  }
  options.fit = 2;
  const DeviceHandle device = make_device();
  CHECK(pumice_session_estimate_memory(device.get(), &source, nullptr, &options, &whole, &error) ==
        PUMICE_INVALID_ARGUMENT);
}

TEST_CASE("texts become vectors, at once and in slices") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const ModelHandle model = load(device.get(), folder.path().string());
  pumice_encoder_options options = {sizeof options};
  options.inputs = 2;
  pumice_encoder* made = nullptr;
  pumice_error error;
  require_ok(pumice_encoder_create(model.get(), &options, &made, &error), error);
  const EncoderHandle encoder(made);
  const uint32_t columns = pumice_encoder_columns(made);
  REQUIRE(columns > 0);
  const char* texts[] = {"hello world", "the quick brown fox", "hello"};
  std::vector<float> embedded(size_t{3} * columns);
  for (size_t i = 0; i < 3; ++i) {
    const pumice_input text = {sizeof text, texts[i], nullptr, 0, nullptr};
    require_ok(pumice_encoder_encode(made, &text, 1, &embedded[i * columns], columns, nullptr, &error),
               error);
  }
  double length = 0;
  for (uint32_t i = 0; i < columns; ++i) length += double{embedded[i]} * embedded[i];
  CHECK(length == doctest::Approx(1).epsilon(1e-4));

  const pumice_input input = {sizeof input, texts[1], nullptr, 0, nullptr};
  std::vector<float> once(columns), sliced(columns);
  size_t count = 0;
  require_ok(pumice_encoder_encode(made, &input, 1, once.data(), once.size(), &count, &error), error);
  CHECK(count == columns);
  CHECK(std::memcmp(once.data(), embedded.data() + columns, columns * 4) == 0);
  require_ok(pumice_encoder_begin(made, &input, 1, &error), error);
  CHECK(pumice_encoder_read(made, sliced.data(), sliced.size(), &count, &error) == PUMICE_NOT_READY);
  pumice_slice slice = {sizeof slice};
  uint32_t slices = 0;
  do {
    require_ok(pumice_work_advance(pumice_encoder_work(made), 50, nullptr, &slice, &error), error);
    slices += slice.dispatches > 0;
  } while (slice.active);
  CHECK(slices > 1);
  require_ok(pumice_encoder_read(made, sliced.data(), sliced.size(), &count, &error), error);
  CHECK(sliced == once);

  require_ok(pumice_encoder_begin(made, &input, 1, &error), error);
  pumice_work_cancel(pumice_encoder_work(made));
  CHECK(pumice_work_advance(pumice_encoder_work(made), 50, nullptr, &slice, &error) == PUMICE_CANCELLED);
  require_ok(pumice_encoder_encode(made, &input, 1, sliced.data(), sliced.size(), &count, &error), error);
  CHECK(sliced == once);
  CHECK(pumice_session_create(model.get(), nullptr, nullptr, &error) == PUMICE_INVALID_ARGUMENT);
  pumice_session* session = nullptr;
  CHECK(pumice_session_create(model.get(), nullptr, &session, &error) == PUMICE_UNSUPPORTED);
}

TEST_CASE("dates are translated") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  pumice_translator* made = nullptr;
  pumice_error error;
  require_ok(pumice_translator_create(model.get(), nullptr, &made, &error), error);
  const TranslatorHandle translator(made);
  const char* texts[] = {"le 3 mars 2021", "", "May 4, 1999"};
  require_ok(pumice_translator_translate(made, texts, 3, &error), error);
  const pumice_translation* translation = nullptr;
  const auto text = [&](size_t index) -> std::string {
    require_ok(pumice_translator_result(made, index, &translation, &error), error);
    return translation->texts->text;
  };
  CHECK(text(2) == "1999-05-04");
  CHECK(text(1).empty());
  CHECK(text(0) == "2021-03-03");
  CHECK(translation->text_count == 1);
  CHECK(pumice_translator_result(made, 3, &translation, &error) == PUMICE_INVALID_ARGUMENT);
}

TEST_CASE("an embedder's texts are read in slices, in as many steps as they need") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const ModelHandle model = load(device.get(), folder.path().string());
  pumice_embedder_options options = {sizeof options};
  options.max_tokens = options.batch_tokens = 8;
  pumice_embedder* made = nullptr;
  pumice_error error;
  require_ok(pumice_embedder_create(model.get(), &options, &made, &error), error);
  const EmbedderHandle owner(made);
  const char* const texts[] = {"hello world", "the quick brown fox", "hello", "", "the fox"};
  constexpr size_t count = std::size(texts);
  std::vector<float> whole(count * pumice_embedder_columns(made)), sliced(whole.size());
  size_t read = 0, cut = 0, cut_at_once = 0;
  require_ok(pumice_embedder_embed(made, texts, count, whole.data(), &cut_at_once, &error), error);
  pumice_work* const work = pumice_embedder_work(made);
  for (const float budget : {1.0f, 50.0f, 1e6f}) {
    require_ok(pumice_embedder_begin(made, texts, count, &cut, &error), error);
    CHECK(cut == cut_at_once);
    CHECK(pumice_embedder_read(made, sliced.data(), sliced.size(), &read, &error) == PUMICE_NOT_READY);
    const uint32_t slices = run_slices([&](pumice_slice* slice, pumice_error* failure) {
      return pumice_work_advance(work, budget, nullptr, slice, failure);
    });
    CHECK(slices > 1); // at least one for each step
    require_ok(pumice_embedder_read(made, sliced.data(), sliced.size(), &read, &error), error);
    CHECK(read == whole.size());
    CHECK(sliced == whole);
  }
  // A recorded slice that is discarded, a cancel, and what ends what was begun.
  require_ok(pumice_embedder_begin(made, texts, count, nullptr, &error), error);
  pumice_slice slice = {sizeof slice};
  require_ok(pumice_work_advance(work, 1, nullptr, &slice, &error), error);
  require_ok(pumice_work_discard(work, &error), error);
  run_slices([&](pumice_slice* next, pumice_error* failure) {
    return pumice_work_advance(work, 1e6f, nullptr, next, failure);
  });
  require_ok(pumice_embedder_read(made, sliced.data(), sliced.size(), &read, &error), error);
  CHECK(sliced == whole);
  require_ok(pumice_embedder_begin(made, texts, count, nullptr, &error), error);
  pumice_embedder_cancel(made);
  CHECK(pumice_work_advance(work, 50, nullptr, &slice, &error) == PUMICE_CANCELLED);
  require_ok(pumice_work_advance(work, 50, nullptr, &slice, &error), error);
  CHECK_FALSE(slice.active);
  CHECK(pumice_embedder_read(made, sliced.data(), sliced.size(), &read, &error) == PUMICE_NOT_READY);
  require_ok(pumice_embedder_begin(made, texts, count, nullptr, &error), error);
  require_ok(pumice_embedder_embed(made, texts, count, sliced.data(), nullptr, &error), error);
  CHECK(sliced == whole);
  require_ok(pumice_work_advance(work, 50, nullptr, &slice, &error), error);
  CHECK_FALSE(slice.active);
}

TEST_CASE("what is neither a model nor a session is made in the background, too") {
  const DeviceHandle device = make_device(); // whose kernels are still to be compiled
  const ModelHandle model = load(device.get(), dates);
  pumice_writing_options writing = {sizeof writing};
  writing.beams = 3;
  std::string prefix = "le ";
  pumice_translator_options translation = {sizeof translation};
  translation.prefix = prefix.c_str();
  translation.writing = &writing;
  pumice_creation_options options = {sizeof options};
  options.translator = &translation;
  options.threads = 2;
  pumice_creation* started = nullptr;
  pumice_error error;
  const uint64_t before = allocated(device.get());
  require_ok(pumice_creation_start(model.get(), &options, &started, &error), error);
  CreationHandle creation(started);
  prefix = "May"; // has been copied, and so have the options
  writing.beams = 100;
  uint64_t done = 0, total = 0;
  while (!pumice_creation_poll(started, &done, &total)) std::this_thread::yield();
  pumice_creation_poll(started, &done, &total);
  CHECK(done == total);
  CHECK(total > 20); // steps of the encoder and of the decoder
  pumice_created created = {sizeof created};
  require_ok(pumice_creation_finish(started, &created, &error), error);
  const TranslatorHandle translator(created.translator);
  CHECK(write(created.translator, "3 mars 2021") == "2021-03-03");
  CHECK(created.encoder == nullptr);
  CHECK(pumice_creation_finish(started, &created, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(created.translator == nullptr);

  // Not wanted any more, or not taken: nothing stays.
  writing.beams = 2;
  const uint64_t with_one = allocated(device.get());
  CHECK(with_one > before);
  options.progress = [](void*, uint64_t, uint64_t) { return false; };
  require_ok(pumice_creation_start(model.get(), &options, &started, &error), error);
  creation.reset(started);
  CHECK(pumice_creation_finish(started, &created, &error) == PUMICE_CANCELLED);
  options.progress = nullptr;
  require_ok(pumice_creation_start(model.get(), &options, &started, &error), error);
  pumice_creation_cancel(started);
  creation.reset(started); // is destroyed while it runs
  require_ok(pumice_creation_start(model.get(), &options, &started, &error), error);
  creation.reset(started);
  while (!pumice_creation_poll(started, nullptr, nullptr)) std::this_thread::yield();
  creation.reset();
  CHECK(allocated(device.get()) == with_one);

  // Errors of the options come at once.
  const pumice_encoder_options encoding = {sizeof encoding};
  options.encoder = &encoding;
  CHECK(pumice_creation_start(model.get(), &options, &started, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options of 2 kinds") != std::string::npos);
  options.translator = nullptr;
  CHECK(pumice_creation_start(model.get(), &options, &started, &error) == PUMICE_UNSUPPORTED);
  CHECK(pumice_creation_start(model.get(), nullptr, &started, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(started == nullptr);

  // The model may go as soon as it has started.
  ModelHandle other = load(device.get(), dates);
  translation.prefix = nullptr;
  options = {sizeof options};
  options.translator = &translation;
  require_ok(pumice_creation_start(other.get(), &options, &started, &error), error);
  creation.reset(started);
  other.reset();
  require_ok(pumice_creation_finish(started, &created, &error), error);
  const TranslatorHandle last(created.translator);
  CHECK(write(created.translator, "le 3 mars 2021") == "2021-03-03");
}

TEST_CASE("each kind of object is made in the background as it is at once") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const ModelHandle model = load(device.get(), folder.path().string());
  const auto start = [&](auto pumice_creation_options::*place, const auto& asked) {
    pumice_creation_options options = {sizeof options};
    options.*place = &asked;
    pumice_creation* started = nullptr;
    pumice_error error;
    pumice_created created = {sizeof created};
    const pumice_status status = pumice_creation_start(model.get(), &options, &started, &error);
    const CreationHandle owner(started);
    if (status == PUMICE_OK) pumice_creation_finish(started, &created, &error);
    return std::pair(created, error);
  };
  const auto fails_alike = [&]<class Options, class Handle>(const Options* pumice_creation_options::*place,
                                                            pumice_status (*create)(pumice_model*,
                                                                                    const Options*, Handle**,
                                                                                    pumice_error*)) {
    const Options options = {sizeof options};
    const pumice_error error = start(place, options).second;
    pumice_error at_once;
    Handle* made = nullptr;
    CHECK(create(model.get(), &options, &made, &at_once) == error.status);
    CHECK(std::string(error.message).ends_with(at_once.message));
    CHECK(error.status != PUMICE_OK);
  };
  fails_alike(&pumice_creation_options::reranker, pumice_reranker_create);
  fails_alike(&pumice_creation_options::classifier, pumice_classifier_create);
  fails_alike(&pumice_creation_options::tagger, pumice_tagger_create);
  fails_alike(&pumice_creation_options::answerer, pumice_answerer_create);
  fails_alike(&pumice_creation_options::filler, pumice_filler_create);
  fails_alike(&pumice_creation_options::index, pumice_index_create);
  fails_alike(&pumice_creation_options::captioner, pumice_captioner_create);
  fails_alike(&pumice_creation_options::transcriber, pumice_transcriber_create);
  fails_alike(&pumice_creation_options::speaker, pumice_speaker_create);

  const pumice_embedder_options embedding = {sizeof embedding};
  const EmbedderHandle embedder(start(&pumice_creation_options::embedder, embedding).first.embedder);
  const pumice_encoder_options encoding = {sizeof encoding};
  const EncoderHandle encoder(start(&pumice_creation_options::encoder, encoding).first.encoder);
  const uint32_t columns = pumice_encoder_columns(encoder.get());
  REQUIRE(columns > 0);
  REQUIRE(pumice_embedder_columns(embedder.get()) == columns);
  std::vector<float> vector(columns), row(columns);
  const char* const text = "hello world";
  const pumice_input input = {sizeof input, text, nullptr, 0, nullptr};
  pumice_error error;
  require_ok(pumice_embedder_embed(embedder.get(), &text, 1, vector.data(), nullptr, &error), error);
  require_ok(pumice_encoder_encode(encoder.get(), &input, 1, row.data(), row.size(), nullptr, &error), error);
  for (uint32_t i = 0; i < columns; ++i) CHECK(vector[i] == doctest::Approx(row[i]).epsilon(1e-3));
}

TEST_CASE("text becomes tokens and tokens text") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  uint32_t tokens[64];
  size_t count = 0;
  pumice_error error;
  require_ok(
      pumice_model_tokenize(model.get(), "Once upon a time", PUMICE_ADD_SPECIAL, tokens, 64, &count, &error),
      error);
  REQUIRE(count > 2);
  size_t needed = 0;
  require_ok(
      pumice_model_tokenize(model.get(), "Once upon a time", PUMICE_ADD_SPECIAL, nullptr, 0, &needed, &error),
      error);
  CHECK(needed == count);
  char text[64];
  require_ok(pumice_model_detokenize(model.get(), tokens, count, text, sizeof text, &needed, &error), error);
  CHECK(std::string(text) == "Once upon a time");
}

TEST_CASE("text that spells a special token is text, unless it is asked for") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  pumice_error error;
  const auto tokenize = [&](const char* text, uint32_t flags) {
    std::vector<uint32_t> tokens(64);
    size_t count = 0;
    require_ok(pumice_model_tokenize(model.get(), text, flags, tokens.data(), 64, &count, &error), error);
    tokens.resize(count);
    return tokens;
  };
  uint32_t ends[4] = {}, begins[4] = {}, end = 0;
  size_t count = 0;
  require_ok(pumice_model_role_tokens(model.get(), PUMICE_ROLE_BEGIN, begins, 4, &count, &error), error);
  CHECK(count == 1);
  require_ok(pumice_model_role_tokens(model.get(), PUMICE_ROLE_END, ends, 4, &count, &error), error);
  CHECK(count == 1);
  require_ok(pumice_model_find_token(model.get(), "</s>", &end, &error), error);
  CHECK(end == ends[0]);
  CHECK(pumice_model_find_token(model.get(), "<|no such token|>", &end, &error) == PUMICE_NOT_FOUND);
  char name[16];
  bool special = false;
  require_ok(pumice_model_token_name(model.get(), ends[0], &special, name, sizeof name, &count, &error),
             error);
  CHECK(std::string(name) == "</s>");
  CHECK(count == 4);
  CHECK(special);

  const char* const typed = "player says </s> hi";
  const auto has_end = [&](const std::vector<uint32_t>& tokens) {
    return std::ranges::count(tokens, ends[0]) > 0;
  };
  CHECK_FALSE(has_end(tokenize(typed, 0)));
  CHECK_FALSE(has_end(tokenize(typed, PUMICE_ADD_SPECIAL)));
  CHECK(has_end(tokenize(typed, PUMICE_PARSE_SPECIAL)));
  CHECK(tokenize(typed, PUMICE_ADD_SPECIAL)[0] == begins[0]);
  char text[64];
  const std::vector<uint32_t> tokens = tokenize(typed, 0);
  require_ok(pumice_model_detokenize(model.get(), tokens.data(), tokens.size(), text, 64, &count, &error),
             error);
  CHECK(std::string(text) == typed);

  // In a request, the program's own marks are special, and what the player types is not.
  pumice_session_options options = {sizeof options};
  options.context = 64;
  const SessionHandle session = make_session(model.get(), options);
  pumice_request request = {sizeof request};
  request.before = "</s>";
  request.text = typed;
  request.after = "</s>";
  require_ok(pumice_session_generate(session.get(), &request, &error), error);
  const std::vector<uint32_t> prompt_tokens = tokens_of(session.get());
  CHECK(std::ranges::count(prompt_tokens, ends[0]) == 2);
  CHECK(prompt_tokens[0] == begins[0]);
  CHECK(prompt_tokens[1] == ends[0]);
  CHECK(prompt_tokens.back() == ends[0]);
}
