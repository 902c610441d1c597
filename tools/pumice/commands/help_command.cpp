#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/path.h"
#include "help/completion.h"
#include "help/help.h"
#include "help/man_page.h"
#include "help/mistakes.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "options/subcommand.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct HelpOptions {
  std::vector<std::string> names;
  bool all = false;
  bool man = false;
  std::string folder;
};

// The subcommand with these names, one within the other.
Result<const CLI::App*> find_command(const CLI::App& app, const std::vector<std::string>& names) {
  const CLI::App* found = &app;
  for (const std::string& name : names) {
    const auto next = found->get_subcommands([&](const CLI::App* each) { return each->get_name() == name; });
    if (next.empty()) return Error{Code::not_found, unknown_command(*found, name)};
    found = next[0];
  }
  return found;
}

Status write_page(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (!(std::ofstream(path, std::ios::binary) << text).flush())
    return Error{Code::io, fmt::format("{}: cannot be written", path_text(path))};
  return {};
}

Status write_man_pages(const CLI::App& app, const std::filesystem::path& folder) {
  PUMICE_CHECK(write_page(folder / (man_page_name(app) + ".1"), man_page(app)));
  for (const CLI::App* each : subcommands_of(app)) PUMICE_CHECK(write_man_pages(*each, folder));
  return {};
}

// All files in the layout of PREFIX/share, for the package.
Status write_pages(const CLI::App& app, const std::filesystem::path& share) {
  PUMICE_CHECK(write_man_pages(app, share / "man" / "man1"));
  PUMICE_CHECK(write_page(share / "bash-completion" / "completions" / "pumice", bash_completion(app)));
  PUMICE_CHECK(write_page(share / "zsh" / "site-functions" / "_pumice", zsh_completion(app)));
  return write_page(share / "fish" / "vendor_completions.d" / "pumice.fish", fish_completion(app));
}

Status show_help(const CLI::App& app, const HelpOptions& options) {
  if (!options.folder.empty()) return write_pages(app, path_of(options.folder));
  PUMICE_TRY(const CLI::App* command, find_command(app, options.names));
  if (options.man) {
    print_result(man_page(*command));
  } else {
    print_result(HelpFormatter().make_help(
        command, "", options.all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal));
  }
  return {};
}

} // namespace

Subcommand add_help(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("help", "Show the help of a command.");
  auto options = std::make_shared<HelpOptions>();
  sub->add_option("COMMAND", options->names, "The command, such as 'run' or 'bench compare'")->type_name("");
  sub->add_flag("--all", options->all, "Show all options")->group("Pages");
  sub->add_flag("--man", options->man, "Print the manual page, for man. An example is below")->group("Pages");
  sub->add_option(
         "--write-pages", options->folder,
         "Write all manual pages and the shells' completion into this folder, as PREFIX/share has them")
      ->type_name("DIR")
      ->group(more_of("Pages"));
  sub->footer(example("pumice help run\n  pumice help run --man | man -l -"));
  return {sub, [&app, options] { return show_help(app, *options); }};
}

Subcommand add_completion(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("completion", "Print a script that completes commands in a shell.");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->transform(one_of({"bash", "zsh", "fish"}));
  sub->footer("The package installs it. Without the package, for bash: put the first example below into "
              "~/.bashrc; for zsh: the second into ~/.zshrc; for fish: run the third.\n\n" +
              example("source <(pumice completion bash)\n  source <(pumice completion zsh)\n  "
                      "pumice completion fish > ~/.config/fish/completions/pumice.fish"));
  return {sub, [&app, shell] {
            print_result(*shell == "bash"  ? bash_completion(app)
                         : *shell == "zsh" ? zsh_completion(app)
                                           : fish_completion(app));
            return Status();
          }};
}

} // namespace pumice::command
