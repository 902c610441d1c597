#include "command.h"

#include <algorithm>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "help/aliases.h"
#include "help/help.h"
#include "help/mistakes.h"
#include "input/answered_lines.h"
#include "options/subcommand.h"
#include "output/output_files.h"
#include "process/processes.h"
#include "process/replicas.h"
#include "process/this_process.h"
#include "terminal/terminal.h"
#include "terminal/version.h"

namespace pumice::command {

namespace {

// The status that shells report for a program that ended because the reader of its output did.
constexpr int exit_reader_ended = 141;

int report(const Error& error) {
  print_last_words();
  if (error.code == Code::cancelled && interrupted()) return interrupted_status();
  print_error(error.text());
  return 1;
}

// Finds the other processes that mpirun started.
Status join(const Subcommand& chosen) {
  const uint32_t replicas = chosen.replicas ? *chosen.replicas : 1;
  if (chosen.timeout) PUMICE_CHECK(join_others(*chosen.timeout, replicas));
  if (chosen.serve || (others() && others()->size() == 1)) return {};
  return Error{Code::unsupported, fmt::format("'pumice {}' runs in one process: start it without mpirun",
                                              chosen.app->get_name())};
}

int run_chosen(const std::vector<Subcommand>& subcommands) {
  const auto chosen = std::find_if(subcommands.begin(), subcommands.end(),
                                   [](const Subcommand& each) { return each.app->parsed(); });
  if (started_with_others()) {
    if (Status status = join(*chosen); !status.ok()) return report(status.error());
    if (others()->rank() > 0) {
      Status status = chosen->serve();
      if (Status ended = wait_for_copies(); status.ok()) status = ended;
      return status.ok() ? 0 : report(status.error());
    }
  } else if (chosen->replicas && *chosen->replicas > 1) {
    print_error("--replicas is for several processes: start the command with mpirun");
    return 1;
  }
  Status status = check_files(*chosen->app, chosen->files);
  if (status.ok()) status = chosen->run();
  if (is_replica()) status = end_replicas(status);
  if (Status ended = wait_for_copies(); status.ok()) status = ended;
  if (!status.ok()) return report(status.error());
  if (const uint64_t messages = validation_messages()) {
    print_error(
        fmt::format("the validation layers reported {} message{}", messages, messages == 1 ? "" : "s"));
    return 1;
  }
  return exit_status();
}

// Stands before a text in brackets while CLI11 reads it, which would take it for a list.
constexpr char no_list = '\1';

std::string as_text(std::string argument) {
  if (argument.size() > 1 && argument.front() == '[' && argument.back() == ']')
    argument.insert(0, 1, no_list);
  return argument;
}

// What CLI11 does otherwise: an option that can be given more than once takes a "--" that ends the options,
// and a text in brackets is a list.
void read_as_written(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) option->allow_extra_args(false);
    const auto unmark = [](std::string& value) {
      if (value.starts_with(no_list)) value.erase(0, 1);
      return std::string();
    };
    if (option->get_items_expected_max() > 0) option->transform(CLI::Validator(unmark, ""));
  }
  for (CLI::App* each : app.get_subcommands(std::function<bool(CLI::App*)>())) read_as_written(*each);
}

std::vector<Subcommand> add_subcommands(CLI::App& app) {
  const auto group = [](const char* name, std::vector<Subcommand> some) {
    for (Subcommand& each : some) each.app->group(name);
    return some;
  };
  std::vector<Subcommand> all;
  const auto add = [&](std::vector<Subcommand> some) { all.insert(all.end(), some.begin(), some.end()); };
  add(group("Text", {add_chat(app), add_run(app), add_generate(app), add_translate(app), add_serve(app),
                     add_tokenize(app), add_template(app)}));
  add(group("Vectors, labels, sound and pictures",
            {add_embed(app), add_rerank(app), add_search(app), add_classify(app), add_answer(app),
             add_fill(app), add_transcribe(app), add_speak(app), add_caption(app)}));
  add(group("Models, devices, speed, help",
            {add_inspect(app), add_convert(app), add_perplexity(app), add_eval(app), add_devices(app),
             add_doctor(app), add_bench(app), add_tune(app), add_plan_split(app), add_help(app),
             add_completion(app)}));
  read_as_written(app);
  return all;
}

// --help, --help-all and --version.
int print_page(const CLI::App& app, const CLI::ParseError& error) {
  const std::string kind = error.get_name();
  print_result(kind == "CallForVersion"   ? version_text()
               : kind == "CallForAllHelp" ? app.help("", CLI::AppFormatMode::All)
                                          : app.help());
  return 0;
}

int parse_and_run(std::span<const std::string> arguments) {
  CLI::App app("Run transformer models on any Vulkan device.", "pumice");
  app.allow_windows_style_options(false); // a slash begins a path or a prompt there too
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help");
  app.set_help_all_flag("--help-all");
  app.set_version_flag("-V,--version", version_number(), "Show version, commit, and what was left out")
      ->group("Options");
  app.require_subcommand(1);
  const std::vector<Subcommand> subcommands = add_subcommands(app);
  for (const Subcommand& each : subcommands) add_verbosity_options(*each.app);
  const Result<TranslatedArguments> translated = translate_aliases(app, {arguments.begin(), arguments.end()});
  if (!translated.ok()) return report(translated.error());
  if (arguments.empty()) {
    print_result(app.help());
    return 0;
  }
  std::vector<std::string> backwards; // as CLI11 wants
  std::ranges::transform(translated->arguments.rbegin(), translated->arguments.rend(),
                         std::back_inserter(backwards), as_text);
  try {
    app.parse(std::move(backwards));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return print_page(app, error);
    std::string mistake = explain_mistake(app, error);
    std::erase(mistake, no_list);
    print_error(mistake);
    return 1;
  }
  for (const std::string& note : translated->notes) print_note(note);
  return run_chosen(subcommands);
}

int guarded_run(std::span<const std::string> arguments) {
  try {
    return parse_and_run(arguments);
  } catch (const std::exception& error) { // such as std::bad_alloc
    print_error(error.what());
    return 1;
  }
}

// What a run keeps outside of its objects: it begins with what surrounds it, and leaves nothing to the next
// one.
class Scope {
public:
  explicit Scope(const Surroundings& surroundings) {
    use_streams(surroundings.streams);
    use_devices(surroundings.devices);
    use_program(surroundings.program);
  }
  ~Scope() {
    forget_answered();
    forget_interrupts();
    use_streams({});
    use_devices({});
    use_program({});
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

} // namespace

int run(std::span<const std::string> arguments, const Surroundings& surroundings) {
  const Scope scope(surroundings);
  const int status = guarded_run(arguments);
  leave_others();
  set_last_words({});
  const Status output = finish_output();
  if (output.ok()) return status;
  if (output.error().code == Code::cancelled) return exit_reader_ended;
  print_error(output.error().text());
  return 1;
}

} // namespace pumice::command
