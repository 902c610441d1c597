// Each class of the C++ layer, with the models that ship.
//   classes STORIES.gguf CACHE DATES CHAT.gguf     prints what the first one tells, as the other programs do
#include <pumice/pumice.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace pumice;

namespace {

[[noreturn]] void fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::exit(1);
}

template <class T>
T need(Result<T> result, const char* what) {
  if (!result.ok()) fail(what, result.error().message);
  return std::move(result).value();
}

void need(const Status& status, const char* what) {
  if (!status.ok()) fail(what, status.error().message);
}

void expect(bool held, const char* what) {
  if (!held) fail(what, "not so");
}

std::vector<char> read_file(const char* path) {
  std::vector<char> bytes;
  std::FILE* file = std::fopen(path, "rb");
  expect(file != nullptr, path);
  char part[4096];
  while (const size_t count = std::fread(part, 1, sizeof part, file)) {
    bytes.insert(bytes.end(), part, part + count);
  }
  std::fclose(file);
  return bytes;
}

// On a thread of its own, through a function that reads.
Model load(const Device& device, const std::vector<char>& bytes) {
  uint64_t reported = 0;
  auto read = [&](uint64_t at, void* to, size_t count) {
    std::memcpy(to, bytes.data() + at, count);
    return true;
  };
  auto progress = [&](uint64_t done, uint64_t) {
    reported = done;
    return true;
  };
  Load first = need(Load::start(device, Source::reader(read, bytes.size()), {}, progress), "Load::start");
  Load loading = std::move(first);
  Model model = need(loading.finish(), "Load::finish");
  uint64_t done = 0, total = 0;
  expect(loading.poll(&done, &total) && done == total && reported == total,
         "the load's progress is complete");
  expect(!loading.finish().ok(), "a model is handed out once");
  return model;
}

std::string slice_by_slice(Session& session) {
  std::string text;
  for (bool active = true; active;) {
    active = need(session.work().advance(500), "Work::advance").active;
    while (const Event* event = session.poll()) text += event->text;
  }
  return text;
}

} // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::string prompt = "Once upon a time";
  const std::string file = std::string(arguments[2]) + "/conversation";
  DeviceOptions device_options{};
  device_options.cache_folder = arguments[2];
  const Device device = need(Device::create(device_options), "Device::create");
  expect(device.vulkan().device != nullptr && *device.name(), "the device has handles and a name");

  const std::vector<char> bytes = read_file(arguments[1]);
  SessionOptions options{};
  options.context = 64;
  const MemoryEstimate estimate = need(
      estimate_memory(device, Source::parts({Source::file(arguments[1])}), {}, options), "estimate_memory");
  const Model model = load(device, bytes);
  const ModelInfo info = need(model.info(), "Model::info");
  expect(info.weight_bytes == estimate.weights && estimate.fits, "what was estimated is what was taken");
  expect(need(device.memory(), "Device::memory").allocated >= info.weight_bytes, "the weights are counted");
  expect(need(model.detokenize(need(model.tokenize(prompt), "tokenize")), "detokenize") == prompt,
         "a text's tokens are its own");
  expect(!Adapter::load(model, file).ok() && !Adapter::combine({}).ok(), "what is no adapter is an error");
  const uint32_t end = need(model.role_tokens(PUMICE_ROLE_END), "role_tokens").at(0);
  const std::string end_name = need(model.token_name(end), "token_name");
  expect(need(model.find_token(end_name), "find_token") == end, "a token is found by its name");
  expect(need(model.tokenize(end_name, 0), "tokenize") != std::vector<uint32_t>{end}, "text is text");
  expect(need(model.tokenize(end_name, PUMICE_PARSE_SPECIAL), "tokenize") == std::vector<uint32_t>{end},
         "special tokens are found where they are asked for");

  // Told to a function, through objects that move; and fetched, a slice at a time.
  std::string told;
  Session moved = need(Session::create(model, options, [&](const Event& event) { told += event.text; }),
                       "Session::create");
  Session teller;
  teller = std::move(moved);
  need(teller.generate(prompt, 8), "Session::generate");
  need(teller.run(), "Session::run");
  Session sliced = need(Session::create(model, options), "Session::create");
  need(sliced.generate(prompt, 8), "Session::generate");
  expect(slice_by_slice(sliced) == told, "slices tell the same");
  std::puts(told.c_str());

  // Kept, and gone on with.
  need(sliced.save(file), "Session::save");
  need(sliced.suspend(), "Session::suspend");
  need(sliced.resume(model), "Session::resume");
  Session restored = need(Session::create(model, options), "Session::create");
  need(restored.restore(file), "Session::restore");
  expect(need(restored.tokens(), "tokens") == need(teller.tokens(), "tokens"), "what was saved is restored");
  Session forked = need(restored.fork(), "Session::fork");
  const std::vector<unsigned char> saved = need(forked.save(), "Session::save");
  SessionCreation creation = need(SessionCreation::start(model, options), "SessionCreation::start");
  while (!creation.poll()) {
  }
  Session read = need(creation.finish(), "SessionCreation::finish");
  need(read.restore(saved.data(), saved.size()), "Session::restore");
  expect(need(read.tokens(), "tokens") == need(teller.tokens(), "tokens"), "a fork is saved to memory");
  need(sliced.generate(Request{}), "Session::generate");
  need(restored.generate(Request{}), "Session::generate");
  expect(slice_by_slice(sliced) == slice_by_slice(restored), "both go on in the same way");

  BatchOptions batch_options{};
  batch_options.texts = 2;
  batch_options.context = 64;
  Batch batch = need(Batch::create(model, batch_options), "Batch::create");
  Request request{};
  request.text = prompt.c_str();
  request.max_tokens = 8;
  const uint32_t first = need(batch.add(request), "Batch::add");
  need(batch.add(request), "Batch::add");
  while (need(batch.step(), "Batch::step")) {
  }
  std::string first_text, others;
  while (const Event* event = batch.poll()) (event->text_id == first ? first_text : others) += event->text;
  expect(first_text == told && others == told, "texts in the same steps are as alone");

  TuneOptions tune_options{};
  tune_options.seconds = 0.2f;
  tune_options.thorough = tune_options.in_slices = true;
  Tune tune = need(Tune::start(model, tune_options), "Tune::start");
  while (need(tune.work().advance(500), "Work::advance").active) {
  }
  expect(tune.poll() && !need(tune.finish(), "Tune::finish").complete, "measuring ends at its limit");
  need(device.save_tuning(std::string(arguments[2]) + "/tuning"), "Device::save_tuning");
  expect(!need(device.tuning(), "Device::tuning").empty(), "what is known of a device is written");

  const Model talker = need(Model::load(device, Source::file(arguments[4])), "Model::load");
  Chat chat = need(Chat::create(talker), "Chat::create");
  need(chat.add("user", "What is 2 plus 3?"), "Chat::add");
  std::string answer;
  Session answerer =
      need(Session::create(talker, {}, [&](const Event& event) { answer += event.text; }), "Session");
  need(answerer.generate(chat, 20), "Session::generate");
  need(answerer.run(), "Session::run");
  expect(answer == "2 plus 3 is 5." && chat.count() == 2, "an answer is the chat's next message");
  const std::string written = need(chat.write(), "Chat::write"),
                    prompt_text = need(chat.prompt(), "Chat::prompt");
  expect(chat.forget().error().status == PUMICE_NOT_FOUND, "there is one turn alone");
  need(chat.remove(0, 2), "Chat::remove");
  need(chat.read(written), "Chat::read");
  expect(need(chat.prompt(), "Chat::prompt") == prompt_text, "what was written is read");

  const Model dates = need(Model::load(device, Source::file(arguments[3])), "Model::load");
  Translator translator = need(Translator::create(dates), "Translator::create");
  expect(need(translator.translate("le 3 mars 2021"), "Translator::translate") == "2021-03-03", "a date");

  need(translator.begin("le 3 mars 2021"), "Translator::begin");
  while (need(translator.work().advance(1000), "Work::advance").active) {
  }
  expect(need(translator.result(), "Translator::result").text() == "2021-03-03", "a date in slices");
  Creation made = need(Creation::start(dates, TranslatorOptions{}), "Creation::start");
  while (!made.poll()) {
  }
  Translator in_background = need(made.finish(), "Creation::finish").translator;
  expect(need(in_background.translate("le 3 mars 2021"), "Translator::translate") == "2021-03-03",
         "a translator of another thread");
  expect(!Creation::start(model, TranscriberOptions{}).ok(), "a decoder is no transcriber in the background");
  expect(!Transcriber::create(model).ok(), "a decoder is no transcriber");
  SpeakerOptions silent{};
  silent.codec = model.get();
  expect(!Speaker::create(model, silent).ok(), "a decoder without codes is no speaker");
  const auto none = Encoder::create(model);
  expect(!none.ok() && none.error().status == PUMICE_UNSUPPORTED, "a decoder is no encoder");
  LoadOptions whole{};
  whole.purpose = PUMICE_FOR_VECTORS;
  const Model reader = need(Model::load(device, Source::file(arguments[1]), whole), "Model::load");
  Embedder embedder = need(Embedder::create(reader), "Embedder::create");
  const std::vector<float> vectors = need(embedder.embed({"Once", "upon a time"}), "Embedder::embed");
  expect(vectors.size() == 2 * size_t{embedder.columns()}, "a vector for each text");
  need(embedder.begin({"Once", "upon a time"}), "Embedder::begin");
  while (need(embedder.work().advance(1000), "Work::advance").active) {
  }
  expect(need(embedder.read(), "Embedder::read") == vectors, "the same vectors in slices");
  expect(!embedder.embed_pictures({}).ok(), "a decoder embeds no pictures");
  expect(!Embedder::create(model).ok(), "a decoder that goes on with texts is no embedder");
  expect(!Reranker::create(model).ok() && !Classifier::create(model).ok(), "nor has it scores or labels");
  expect(Index::create(reader, {}).error().status == PUMICE_INVALID_ARGUMENT, "an index needs a folder");
  return 0;
}
