#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "open_device.h"
#include "subcommand.h"
#include "terminal.h"
#include "version.h"

using namespace pumice;
using namespace pumice::command;

namespace {

constexpr int exit_interrupted = 130; // as shells report a program that Ctrl-C ended

int report(const Error& error) {
  if (error.code == Code::cancelled && interrupted()) return exit_interrupted;
  print_note(error.text());
  return 1;
}

int run(const std::vector<Subcommand>& subcommands) {
  const auto chosen = std::find_if(subcommands.begin(), subcommands.end(),
                                   [](const Subcommand& each) { return each.app->parsed(); });
  if (Status status = chosen->run(); !status.ok()) return report(status.error());
  if (const uint64_t messages = validation_messages()) {
    print_note(
        fmt::format("the validation layers reported {} message{}", messages, messages == 1 ? "" : "s"));
    return 1;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    print_note("standard output: it could not be written");
    return 1;
  }
  return 0;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Runs transformer models on any Vulkan device.", "pumice");
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  app.footer("'pumice SUBCOMMAND --help' lists a subcommand's options.\n\nExample:\n"
             "  pumice run models/pretrained/stories-2m.gguf \"Once upon a time\"");
  const std::vector<Subcommand> subcommands = {
      add_run(app),      add_generate(app), add_translate(app),  add_transcribe(app),
      add_caption(app),  add_embed(app),    add_rerank(app),     add_classify(app),
      add_tokenize(app), add_eval(app),     add_inspect(app),    add_devices(app),
      add_tune(app),     add_bench(app),    add_perplexity(app), add_convert(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error); // --help, --version
    const auto parsed = app.get_subcommands();
    print_note(fmt::format("{}\nTry 'pumice{}{} --help'.", error.what(), parsed.empty() ? "" : " ",
                           parsed.empty() ? "" : parsed[0]->get_name()));
    return 1;
  }
  return run(subcommands);
}

} // namespace

int main(int argc, char** argv) {
  watch_interrupts();
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) { // such as std::bad_alloc
    print_note(error.what());
    return 1;
  }
}
