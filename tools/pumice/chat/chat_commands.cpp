#include "chat/chat_commands.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "chat/answer_printer.h"
#include "help/aliases.h"
#include "help/mistakes.h"
#include "input/input_stream.h"
#include "io/nearest_names.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

std::string_view without_spaces_around(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

Error missing_file(const char* command) {
  return Error{Code::invalid_argument, fmt::format("{} needs the name of a file", command)};
}

} // namespace

struct ChatCommands::Command {
  std::string_view name, arguments, help;
  Result<Then> (*run)(ChatCommands& commands, const std::string& rest);
  std::vector<std::string_view> also = {}; // its names in other programs

  bool is(std::string_view word) const { return word == name || std::ranges::count(also, word) > 0; }
};

const std::vector<ChatCommands::Command>& ChatCommands::all() {
  static const auto then = [](const Status& status, Then next) -> Result<Then> {
    if (!status.ok()) return status.error();
    return next;
  };
  static const std::vector<Command> commands = {
      {"/system", "TEXT", "begin again, with a message that says how to answer",
       [](ChatCommands& self, const std::string& rest) {
         return then(self.conversation_.set_system(rest), Then::prompt);
       }},
      {"/reset",
       "",
       "begin again",
       [](ChatCommands& self, const std::string&) { return then(self.conversation_.reset(), Then::prompt); },
       {"/clear"}},
      {"/regenerate",
       "",
       "answer the last question again",
       [](ChatCommands& self, const std::string&) {
         return then(self.conversation_.regenerate(self.forget_), Then::figures);
       },
       {"/regen"}},
      {"/edit", "", "change the last question; its answer is dropped",
       [](ChatCommands& self, const std::string&) -> Result<Then> {
         PUMICE_TRY(self.given_, self.conversation_.take_last_question());
         return Then::prompt;
       }},
      {"/save", "FILE", "write the conversation to a new file, as JSON",
       [](ChatCommands& self, const std::string& rest) { return then(self.save(rest), Then::prompt); }},
      {"/load", "FILE", "go on with a conversation from a file",
       [](ChatCommands& self, const std::string& rest) { return then(self.load(rest), Then::prompt); }},
      {"/set", "NAME VALUE", "change an option of the command, as in /set temp 0.7",
       [](ChatCommands& self, const std::string& rest) { return then(self.set(rest), Then::prompt); }},
      {"/thinking", "show|hide|off", "what becomes of the model's thinking; show also prints the last one",
       [](ChatCommands& self, const std::string& rest) {
         return then(self.show_thinking(rest), Then::prompt);
       }},
      {"/stats", "", "show the speed, what was reused, what the context holds, and the settings",
       [](ChatCommands& self, const std::string&) -> Result<Then> {
         print_to_stderr(self.conversation_.statistics());
         return Then::prompt;
       }},
      {"/image", "FILE", "show the model a picture, with the next question",
       [](ChatCommands& self, const std::string& rest) { return then(self.show(rest), Then::prompt); }},
      {"/sound",
       "FILE",
       "let the model hear a sound, with the next question",
       [](ChatCommands& self, const std::string& rest) { return then(self.play(rest), Then::prompt); },
       {"/audio"}},
      {"/read", "FILE", "begin the next question with the text of a file",
       [](ChatCommands& self, const std::string& rest) { return then(self.read(rest), Then::prompt); }},
      {"/help",
       "",
       "show this",
       [](ChatCommands& self, const std::string&) -> Result<Then> {
         print_to_stderr(self.help());
         return Then::prompt;
       },
       {"/?"}},
      {"/exit",
       "",
       "end, as Ctrl-D does",
       [](ChatCommands&, const std::string&) -> Result<Then> { return Then::end; },
       {"/bye", "/quit"}},
  };
  return commands;
}

Error ChatCommands::unknown(const std::string& name) {
  std::vector<std::string_view> names, meant;
  for (const Command& each : all()) names.push_back(each.name);
  for (std::string_view each : names) {
    if (name.size() > 1 && each.starts_with(name)) meant.push_back(each);
  }
  if (meant.empty()) meant = nearest_names(name, names);
  const std::string question =
      meant.empty() ? "" : fmt::format(" Did you mean {}?", fmt::join(meant, " or "));
  return Error{Code::invalid_argument,
               fmt::format("there is no command '{}'.{} /help shows all; a space before the slash makes the "
                           "line a question",
                           name, question)};
}

Result<ChatCommands::Then> ChatCommands::run(const std::string& line) {
  const std::string_view text = without_spaces_around(line);
  const size_t space = std::min(text.find_first_of(" \t\n"), text.size());
  const std::string name(text.substr(0, space)), rest(without_spaces_around(text.substr(space)));
  const auto found = std::ranges::find_if(all(), [&](const Command& each) { return each.is(name); });
  if (found == all().end()) return unknown(name);
  if (found->arguments.empty() && !rest.empty()) {
    return Error{Code::invalid_argument, fmt::format("{} takes nothing after it; found '{}'", name, rest)};
  }
  return found->run(*this, rest);
}

std::string ChatCommands::help() const {
  std::string text;
  for (const Command& each : all())
    text += fmt::format("{:<24} {}{}\n", fmt::format("{} {}", each.name, each.arguments), each.help,
                        each.also.empty() ? "" : fmt::format(" ({})", fmt::join(each.also, ", ")));
  const unsigned columns = stderr_columns();
  return folded(text, columns > 50 ? 25 : 2, columns) +
         fitted("A line that ends with \\ goes on in the next one. \"\"\" begins a text of several lines and "
                "ends it.\nCtrl-C ends an answer; Ctrl-D ends the conversation.\n",
                columns);
}

std::vector<std::string> ChatCommands::completions(std::string_view before) {
  std::vector<std::string> rests;
  if (!is_command(std::string(before))) return rests;
  const auto add = [&](std::string_view word, std::string_view begun, const char* end) {
    if (word.starts_with(begun)) rests.push_back(std::string(word.substr(begun.size())) + end);
  };
  const size_t space = before.find(' ');
  if (space == std::string_view::npos) {
    for (const Command& each : all()) add(each.name, before, each.arguments.empty() ? "" : " ");
    return rests;
  }
  const auto command =
      std::ranges::find_if(all(), [&](const Command& each) { return each.is(before.substr(0, space)); });
  if (command == all().end() || command->arguments != "FILE") return rests;
  const std::string_view path = before.substr(space + 1);
  const size_t name = path.rfind('/') + 1; // 0 without one
  std::error_code error;
  const std::filesystem::path folder = path_of(std::string(name == 0 ? "." : path.substr(0, name)));
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code ignored;
    add(path_text(each->path().filename()), path.substr(name), each->is_directory(ignored) ? "/" : "");
  }
  std::ranges::sort(rests);
  return rests;
}

Status ChatCommands::set(const std::string& given) {
  // As Ollama has it: "/set parameter temperature 0.7", "/set system TEXT", "/set nothink".
  constexpr std::string_view parameter = "parameter ", system = "system ";
  if (given.starts_with(system)) return conversation_.set_system(given.substr(system.size()));
  if (given == "think" || given == "nothink") return show_thinking(given == "think" ? "show" : "off");
  const std::string text =
      given.starts_with(parameter)
          ? std::string(without_spaces_around(std::string_view(given).substr(parameter.size())))
          : given;
  const size_t space = std::min(text.find_first_of(" \t="), text.size());
  std::string name = text.substr(0, space);
  const std::string value(without_spaces_around(text.substr(std::min(space + 1, text.size()))));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  if (name.empty() || value.empty()) {
    return Error{Code::invalid_argument,
                 "/set needs a name and a value, such as /set temp 0.7; the names are "
                 "those of the options of 'pumice chat'"};
  }
  // As the command line is read, so that names, limits and messages are the same.
  ChatSettings changed = conversation_.settings();
  CLI::App app("", "pumice");
  CLI::App* sub = app.add_subcommand("chat");
  add_chat_settings(*sub, changed);
  std::ranges::replace(name, '_', '-');
  if (name == "max-tokens" || name == "num-predict") name = "count";
  PUMICE_TRY(const TranslatedArguments translated, translate_aliases(app, {"chat", "--" + name, value}));
  std::vector<std::string_view> names;
  for (const CLI::Option* each : sub->get_options()) {
    for (const std::string& option : each->get_lnames()) {
      if (option != "help") names.push_back(option);
    }
  }
  const std::string option = translated.arguments.size() > 1 ? translated.arguments[1].substr(2) : name;
  if (!std::ranges::count(names, option.substr(0, option.find('=')))) {
    const auto nearest = nearest_names(name, names);
    return Error{
        Code::invalid_argument,
        nearest.empty()
            ? fmt::format("/set: there is no '{}'; there are {}", name, fmt::join(names, ", "))
            : fmt::format("/set: there is no '{}'. Did you mean {}?", name, fmt::join(nearest, " or "))};
  }
  try {
    app.parse(std::vector<std::string>(translated.arguments.rbegin(), translated.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    const std::string message = error.what();
    return Error{Code::invalid_argument, "/set: " + message};
  }
  PUMICE_CHECK(check_biases(changed.sampling, conversation_.vocabulary()));
  conversation_.settings() = std::move(changed);
  return {};
}

Status ChatCommands::show_thinking(const std::string& how) {
  constexpr std::array<std::string_view, 3> ways = {"show", "hide", "off"};
  if (!std::ranges::count(ways, how)) {
    return Error{Code::invalid_argument,
                 fmt::format("/thinking: expected {}, found '{}'", fmt::join(ways, ", "), how)};
  }
  const std::string before = std::exchange(conversation_.settings().thinking, how);
  if (how == "show" && before != "show" && !conversation_.thinking().empty())
    print_thinking(conversation_.thinking());
  return {};
}

Status ChatCommands::save(const std::string& file) {
  if (file.empty()) return missing_file("/save");
  const std::filesystem::path path = path_of(file);
  PUMICE_CHECK(check_files(reads_, {{"/save", path}}));
  std::error_code ignored;
  const auto is_this = [&](const std::filesystem::path& each) {
    return std::filesystem::equivalent(each, path, ignored);
  };
  if (std::filesystem::is_regular_file(path, ignored) && std::ranges::none_of(saved_, is_this)) {
    return Error{Code::invalid_argument,
                 fmt::format("/save: {}: there is such a file: choose another name", file)};
  }
  PUMICE_CHECK(conversation_.save(path));
  saved_.push_back(path);
  print_figures(fmt::format("saved to {}\n", file));
  return {};
}

Status ChatCommands::load(const std::string& file) {
  if (file.empty()) return missing_file("/load");
  PUMICE_TRY(const size_t count, conversation_.load(path_of(file)));
  print_figures(fmt::format("loaded {} from {}\n", counted(count, "message"), file));
  return {};
}

Status ChatCommands::show(const std::string& picture) {
  if (picture.empty()) return missing_file("/image");
  PUMICE_CHECK(conversation_.show(picture));
  print_figures(fmt::format("{} is a part of the next question\n", picture));
  return {};
}

Status ChatCommands::play(const std::string& sound) {
  if (sound.empty()) return missing_file("/sound");
  PUMICE_CHECK(conversation_.play(sound));
  print_figures(fmt::format("{} is a part of the next question\n", sound));
  return {};
}

Status ChatCommands::read(const std::string& file) {
  if (file.empty()) return missing_file("/read");
  PUMICE_TRY(std::string text, read_text(file));
  PUMICE_CHECK(check_utf8(text, file));
  read_ += text + "\n\n";
  print_figures(fmt::format("{} is a part of the next question\n", file));
  return {};
}

void add_chat_settings(CLI::App& app, ChatSettings& settings) {
  app.add_option("-n,--count", settings.count, "Maximum number of tokens of an answer (default: no limit)")
      ->type_name("N")
      ->transform(token_count(0, UINT32_MAX, 0))
      ->group("Text");
  add_sampling_options(app, settings.sampling, SamplingParams(settings.sampling.params));
}

} // namespace pumice::command
