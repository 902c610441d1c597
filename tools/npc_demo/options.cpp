#include "options.h"

#include <charconv>
#include <functional>
#include <map>
#include <string_view>

#include "failure.h"

namespace npc {

const char* const usage = R"(usage: npc_demo [options]
A moving scene on its own Vulkan device, in which a character speaks: Pumice gets a part of each frame.

  --model PATH          a GGUF file or a Hugging Face folder (models/pretrained/stories-2m.gguf)
  --budget US           device time for Pumice in a frame, in microseconds (2000)
  --budgets US,US,...   without a window: each in turn, after as many frames without generation
  --generation WHEN     on, off, or alternate: a second each (on)
  --submit              Pumice submits by itself (pumice_advance); else it records into the frame's command buffer
  --frames N            ends after so many, once the model is loaded (in a window: when it is closed; else 600)
  --tokens N            most tokens of a text; then the character begins another one
  --seed N              of the first text (1); the next one has the next number
  --size WxH            of the window or picture (960x540)
  --headless            no window: a fixed step of time, 60 frames a second
  --csv FILE            a line for each frame
  --text FILE           what was said
  --screenshot FILE     the last frame, as PNG
  --frames-out FOLDER   every --every N-th frame (60), as PNG
  --cache FOLDER        keeps compiled kernels and measurements between runs
  --device NAME         a part of the Vulkan device's name
  --validate            under the validation layers; exit status 1 if they report anything
  --verbose             what Pumice notes, on stderr

Keys: G generation on and off, 1 to 4 a budget of 1, 2, 4 or 8 ms, + and - a little more or less, R another text, Esc.
)";

namespace {

template <class Number>
Number number(std::string_view option, std::string_view text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least))
    throw Failure(fmt::format("{}: expected a number from {} on, found '{}'", option, least, text));
  return value;
}

float budget(std::string_view option, std::string_view text) {
  return number<float>(option, text, 1);
}

std::vector<float> budgets(std::string_view option, std::string_view text) {
  std::vector<float> all;
  while (true) {
    const size_t comma = text.find(',');
    all.push_back(budget(option, text.substr(0, comma)));
    if (comma == std::string_view::npos) return all;
    text.remove_prefix(comma + 1);
  }
}

VkExtent2D size(std::string_view option, std::string_view text) {
  constexpr uint32_t most = 4096; // what every Vulkan device can draw
  const size_t x = text.find('x');
  if (x == std::string_view::npos)
    throw Failure(fmt::format("{}: expected WIDTHxHEIGHT, found '{}'", option, text));
  const VkExtent2D extent = {number<uint32_t>(option, text.substr(0, x), 160),
                             number<uint32_t>(option, text.substr(x + 1), 160)};
  if (extent.width > most || extent.height > most)
    throw Failure(fmt::format("{}: expected at most {}x{}, found '{}'", option, most, most, text));
  return extent;
}

Generation generation(std::string_view option, std::string_view text) {
  if (text == "on") return Generation::on;
  if (text == "off") return Generation::off;
  if (text == "alternate") return Generation::alternate;
  throw Failure(fmt::format("{}: expected on, off or alternate, found '{}'", option, text));
}

} // namespace

Options read_options(int argc, char** argv) {
  Options options;
  std::string_view option;
  const std::map<std::string_view, bool*> flags = {
      {"--headless", &options.headless}, {"--submit", &options.submit}, {"--validate", &options.validate},
      {"--verbose", &options.verbose},   {"--help", &options.help},     {"-h", &options.help}};
  const std::map<std::string_view, std::string*> texts = {{"--model", &options.model},
                                                          {"--device", &options.device},
                                                          {"--cache", &options.cache},
                                                          {"--csv", &options.csv},
                                                          {"--text", &options.text},
                                                          {"--screenshot", &options.screenshot},
                                                          {"--frames-out", &options.frames_out}};
  using Read = std::function<void(std::string_view)>;
  const std::map<std::string_view, Read> others = {
      {"--size", [&](std::string_view text) { options.size = size(option, text); }},
      {"--frames", [&](std::string_view text) { options.frames = number<uint64_t>(option, text, 1); }},
      {"--every", [&](std::string_view text) { options.every = number<uint64_t>(option, text, 1); }},
      {"--tokens", [&](std::string_view text) { options.tokens = number<uint32_t>(option, text, 1); }},
      {"--seed", [&](std::string_view text) { options.seed = number<uint64_t>(option, text, 0); }},
      {"--generation", [&](std::string_view text) { options.generation = generation(option, text); }},
      {"--budget", [&](std::string_view text) { options.budgets_us = {budget(option, text)}; }},
      {"--budgets", [&](std::string_view text) {
         options.budgets_us = budgets(option, text);
         options.compare = true;
       }}};
  for (int i = 1; i < argc; ++i) {
    option = argv[i];
    if (const auto flag = flags.find(option); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto text = texts.find(option);
    const auto other = others.find(option);
    if (text == texts.end() && other == others.end())
      throw Failure(fmt::format("there is no option '{}'; --help lists them", option));
    if (++i == argc) throw Failure(fmt::format("{}: expected something after it", option));
    if (text != texts.end())
      *text->second = argv[i];
    else
      other->second(argv[i]);
  }
  if (options.headless && options.frames == 0) options.frames = 600;
  if (options.compare && !options.headless) throw Failure("--budgets: needs --headless");
  return options;
}

} // namespace npc
