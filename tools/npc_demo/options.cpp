#include "options.h"

#include <charconv>
#include <functional>
#include <map>
#include <string_view>

#include "failure.h"

namespace npc {

const char* const usage = R"(usage: npc_demo [options]
Draw a moving scene with a character that tells stories. Pumice generates the text in a slice of each frame.
Defaults are in parentheses.

  --model PATH          a GGUF file or a Hugging Face folder (models/pretrained/stories-2m.gguf)
  --budget US           device time for Pumice in each frame, in microseconds (2000)
  --budgets US,US,...   with --headless: measure each of these budgets, and as many frames without generation
  --control             in each frame, also run work of known length around the slice, as long as the budget; its
                        time tells whether a slice took long because the machine was busy
  --generation WHEN     on, off, or alternate, which switches every second (on)
  --submit              let Pumice submit its work itself (pumice_work_advance); without this option, the work is
                        recorded into the command buffer of the frame (pumice_work_record)
  --frames N            end N frames after the model is loaded (with --headless 600, else when the window closes)
  --tokens N            maximum number of tokens of a text (until the text ends)
  --seed N              seed of the first text; each further text adds 1 (1)
  --size WxH            size of the window or picture, in pixels (960x540)
  --headless            draw without a window, with a fixed time step of 1/60 second
  --csv FILE            write a line of measurements for each frame
  --text FILE           write the texts
  --screenshot FILE     write the last frame as PNG
  --frames-out FOLDER   write frames as PNG
  --every N             with --frames-out: write every N-th frame (60)
  --cache FOLDER        folder that keeps compiled kernels and measurements between runs (none)
  --device NAME         a part of the name of the Vulkan device (the best device)
  --validate            use the validation layers of Vulkan; the exit status is 1 if they report anything
  --verbose             print Pumice's notes on standard error

Keys: G switches generation on and off; 1 to 4 choose a budget of 1, 2, 4 or 8 ms, + and - change it a little;
R begins another text; Esc ends the demo.

Example:
  npc_demo --headless --frames 60 --budgets 1000,4000
)";

namespace {

template <class Number>
Number number(std::string_view option, std::string_view text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least))
    throw Failure(fmt::format("{}: expected a number of at least {}, found '{}'", option, least, text));
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
  constexpr uint32_t most = 4096; // every Vulkan device can draw this size
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
  const std::map<std::string_view, bool*> flags = {{"--headless", &options.headless},
                                                   {"--submit", &options.submit},
                                                   {"--validate", &options.validate},
                                                   {"--verbose", &options.verbose},
                                                   {"--control", &options.control},
                                                   {"--help", &options.help},
                                                   {"-h", &options.help}};
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
    if (++i == argc) throw Failure(fmt::format("{}: expected a value after it", option));
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
