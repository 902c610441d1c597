// As a program in C++ would use Pumice: goes on with a prompt for eight tokens, and prints them.
#include <pumice/pumice.hpp>

#include <cstdio>

// Names that Pumice has inside, and that a program may have as well.
namespace pumice {
struct Graph {
  Graph() { std::fputs("", stdout); }
};
} // namespace pumice
extern "C" int pcre2_compile_8() {
  return 0;
}

namespace {

int fail(const pumice::Error& error) {
  std::fprintf(stderr, "%s: %s\n", pumice_status_name(error.status), error.message.c_str());
  return 1;
}

} // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const pumice::Graph own;
  (void)own;

  pumice::DeviceOptions device_options{};
  device_options.cache_folder = arguments[2];
  auto device = pumice::Device::create(device_options);
  if (!device.ok()) return fail(device.error());

  bool complete = false;
  auto progress = [&](uint64_t done, uint64_t total) {
    complete = done == total;
    return true;
  };
  auto model = pumice::Model::load(device.value(), pumice::Source::file(arguments[1]), {}, progress);
  if (!model.ok()) return fail(model.error());
  if (!complete) return fail({PUMICE_INTERNAL, "the model is there, and its progress was not reported"});

  const std::string prompt = "Once upon a time";
  auto tokens = model.value().tokenize(prompt);
  if (!tokens.ok()) return fail(tokens.error());
  auto text = model.value().detokenize(tokens.value());
  if (!text.ok()) return fail(text.error());
  if (text.value() != prompt)
    return fail({PUMICE_INTERNAL, "the prompt's tokens are those of '" + text.value() + "'"});

  pumice::SessionOptions session_options{};
  session_options.context = 64;
  auto session = pumice::Session::create(model.value(), session_options,
                                         [](const pumice::Event& event) { std::fputs(event.text, stdout); });
  if (!session.ok()) return fail(session.error());
  if (auto begun = session.value().generate(prompt, 8); !begun.ok()) return fail(begun.error());
  if (auto done = session.value().run(); !done.ok()) return fail(done.error());
  std::puts("");

  // What is missing is said, with a sentence.
  auto missing = pumice::Model::load(device.value(), pumice::Source::file("missing.gguf"));
  if (missing.ok() || missing.error().status != PUMICE_NOT_FOUND || missing.error().message.empty())
    return fail({PUMICE_INTERNAL, "a model that is not there was not refused as such"});
  return 0;
}
