#include <algorithm>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "open_device.h"
#include "output_files.h"
#include "subcommand.h"
#include "terminal.h"
#include "version.h"

using namespace pumice;
using namespace pumice::command;

namespace {

// The status that shells report for a program that ended because the reader of its output did.
constexpr int exit_reader_ended = 141;

// Help whose descriptions are broken into lines at spaces.
class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() {
    column_width(28);
    label("REQUIRED", "(required)");
    label("Excludes", "not with");
    label("Needs", "only with");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr size_t width = 78;
    std::string text = option->get_description();
    size_t line = 0; // where the current line begins
    for (size_t end = text.find_first_of(" \n"); end != std::string::npos;) {
      const size_t next = text.find_first_of(" \n", end + 1);
      if (text[end] == ' ' && std::min(next, text.size()) - line > width) text[end] = '\n';
      if (text[end] == '\n') line = end + 1;
      end = next;
    }
    return text;
  }
};

int report(const Error& error) {
  if (error.code == Code::cancelled && interrupted()) return exit_interrupted;
  print_error(error.text());
  return 1;
}

int run(const std::vector<Subcommand>& subcommands) {
  const auto chosen = std::find_if(subcommands.begin(), subcommands.end(),
                                   [](const Subcommand& each) { return each.app->parsed(); });
  if (Status status = check_files(*chosen->app, chosen->files); !status.ok()) return report(status.error());
  if (Status status = chosen->run(); !status.ok()) return report(status.error());
  if (const uint64_t messages = validation_messages()) {
    print_error(
        fmt::format("the validation layers reported {} message{}", messages, messages == 1 ? "" : "s"));
    return 1;
  }
  return 0;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Run transformer models on any Vulkan device.", "pumice");
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer("'pumice SUBCOMMAND --help' lists the options of a subcommand; the value after '=' is the "
             "default.\n\nExample:\n"
             "  pumice run models/pretrained/stories-2m.gguf \"Once upon a time\"");
  const std::vector<Subcommand> subcommands = {
      add_run(app),      add_generate(app), add_translate(app),  add_transcribe(app),
      add_caption(app),  add_embed(app),    add_rerank(app),     add_classify(app),
      add_tokenize(app), add_eval(app),     add_inspect(app),    add_devices(app),
      add_tune(app),     add_bench(app),    add_perplexity(app), add_convert(app)};
  for (const Subcommand& each : subcommands) add_verbosity_options(*each.app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error); // --help, --version
    const auto parsed = app.get_subcommands();
    print_error(fmt::format("{}\nTry 'pumice{}{} --help'.", error.what(), parsed.empty() ? "" : " ",
                            parsed.empty() ? "" : parsed[0]->get_name()));
    return 1;
  }
  return run(subcommands);
}

int guarded_run(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) { // such as std::bad_alloc
    print_error(error.what());
    return 1;
  }
}

} // namespace

int main(int argc, char** argv) {
  prepare_streams();
  watch_interrupts();
  const int status = guarded_run(argc, argv);
  const Status output = finish_output();
  if (output.ok()) return status;
 if (output.error().code == Code::cancelled) return exit_reader_ended;
  print_error(output.error().text());
  return 1;
}
