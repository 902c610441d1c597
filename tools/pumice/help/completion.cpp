#include "help/completion.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "options/option_text.h"

namespace pumice::command {

namespace {

struct Command {
  const CLI::App* app;
  std::string path; // "bench compare"; empty for the program itself
};

void add_commands(const CLI::App& app, const std::string& path, std::vector<Command>& all) {
  all.push_back({&app, path});
  for (const CLI::App* each : subcommands_of(app))
    add_commands(*each, path.empty() ? each->get_name() : path + " " + each->get_name(), all);
}

// The program and all subcommands.
std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> all;
  add_commands(app, "", all);
  return all;
}

// What the arguments of a command may be, options aside.
struct Arguments {
  std::vector<std::string> words;
  bool files = false;
};

Arguments arguments_of(const CLI::App& app) {
  Arguments result{{}, app.get_allow_extras()}; // 'bench ab' takes all kinds
  for (const OptionText& each : positionals_of(app)) {
    if (each.names[0] == "COMMAND") { // of 'help'
      for (const CLI::App* command : subcommands_of(*app.get_parent()))
        result.words.push_back(command->get_name());
    } else if (each.choices.empty()) {
      result.files = true;
    } else {
      result.words.insert(result.words.end(), each.choices.begin(), each.choices.end());
    }
  }
  return result;
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words = arguments_of(app).words;
  for (const CLI::App* each : subcommands_of(app)) words.push_back(each->get_name());
  for (const OptionText& each : options_of(app))
    words.insert(words.end(), each.names.begin(), each.names.end());
  words.insert(words.end(), {"--help", "--help-all"});
  return words;
}

bool names_a_path(const OptionText& option) {
  return option.value == "FILE" || option.value == "DIR";
}

// The first sentence in one line, without characters that a shell or its completion reads.
std::string plain_summary(const std::string& description) {
  std::string text = description.substr(0, description.find('\n'));
  std::erase_if(text, [](char c) { return c == '\'' || c == '`' || c == '"' || c == '$' || c == '\\'; });
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

std::string without_backslashes(std::string text) {
  std::erase(text, '\\');
  return text;
}

std::string function_name(const Command& command) {
  std::string name = "_pumice" + (command.path.empty() ? "" : "_" + command.path);
  std::ranges::replace(name, ' ', '_');
  return name;
}

// What an option's value may be, for zsh.
std::string zsh_value(const OptionText& option) {
  if (!option.choices.empty()) return fmt::format(":{}:({})", option.value, fmt::join(option.choices, " "));
  return fmt::format(":{}:{}", option.value, names_a_path(option) ? "_files" : " ");
}

std::string zsh_options(const CLI::App& app) {
  std::string lines;
  for (const OptionText& each : options_of(app)) {
    const bool repeated = each.option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    for (const std::string& name : each.names) {
      lines += fmt::format("    '{}{}[{}]{}' \\\n", repeated ? "*" : "", name, plain_summary(each.summary),
                           each.value.empty() ? "" : zsh_value(each));
    }
  }
  lines += "    '(-h --help)'{-h,--help}'[Show what most people need]' \\\n";
  return lines + "    '--help-all[Show all options]'";
}

std::string zsh_function(const Command& command) {
  const std::vector<const CLI::App*> subcommands = subcommands_of(*command.app);
  std::string text = function_name(command) + "() {\n";
  const Arguments arguments = arguments_of(*command.app);
  if (subcommands.empty()) {
    text += "  _arguments \\\n" + zsh_options(*command.app);
    if (!arguments.words.empty()) {
      text += fmt::format(" \\\n    '*:argument:({})'", fmt::join(arguments.words, " "));
    } else if (arguments.files) {
      text += " \\\n    '*:file:_files'";
    }
    return text + "\n}\n\n";
  }
  text += "  local line state\n  _arguments -C \\\n" + zsh_options(*command.app) +
          " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n  command)\n"
          "    local -a commands=(\n";
  for (const CLI::App* each : subcommands)
    text += fmt::format("      '{}:{}'\n", each->get_name(),
                        without_backslashes(plain_summary(each->get_description())));
  text += "    )\n    _describe command commands";
  text += arguments.files ? "\n    _files\n" : "\n";
  text += "    ;;\n  argument)\n    case $line[1] in\n";
  for (const CLI::App* each : subcommands) {
    const Command inner{each,
                        command.path.empty() ? each->get_name() : command.path + " " + each->get_name()};
    text += fmt::format("    {}) {} ;;\n", each->get_name(), function_name(inner));
  }
  return text + "    *) _files ;;\n    esac\n    ;;\n  esac\n}\n\n";
}

// Where a completion applies: right after the command that it is for.
std::string fish_condition(const Command& command) {
  return command.path.empty() ? "__pumice_at" : "__pumice_at " + command.path;
}

std::string fish_option(const Command& command, const OptionText& option) {
  std::string line = fmt::format("complete -c pumice -n '{}'", fish_condition(command));
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.value.empty()) line += names_a_path(option) ? " -r -F" : " -x";
  if (!option.choices.empty()) line += fmt::format(" -a '{}'", fmt::join(option.choices, " "));
  return line + fmt::format(" -d '{}'\n", without_backslashes(plain_summary(option.summary)));
}

} // namespace

std::string bash_completion(const CLI::App& app) {
  std::string words, values;
  for (const Command& command : commands_of(app)) {
    words += fmt::format("  '{}') words='{}'{} ;;\n", command.path, fmt::join(words_of(*command.app), " "),
                         arguments_of(*command.app).files ? " takes_files=yes" : "");
    for (const OptionText& each : options_of(*command.app)) {
      std::string patterns;
      for (const std::string& name : each.names)
        patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : " | ", command.path, name);
      if (!each.choices.empty()) {
        values += fmt::format("  {}) words='{}' ;;\n", patterns, fmt::join(each.choices, " "));
      } else if (names_a_path(each)) {
        values += fmt::format("  {}) files=yes ;;\n", patterns);
      } else if (!each.value.empty()) {
        values += fmt::format("  {}) return ;;\n", patterns);
      }
    }
  }
  std::string paths;
  for (const Command& command : commands_of(app)) {
    if (!command.path.empty()) paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", command.path);
  }
  return "# bash completion for pumice; made by 'pumice completion bash'\n"
         "_pumice() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path= words= files= "
         "takes_files= each\n"
         "  COMPREPLY=()\n"
         "  for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"${path:+$path }$each\" in\n"
         "    " +
         paths +
         ") path=${path:+$path }$each ;;\n"
         "    *) break ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path $previous\" in\n" +
         values +
         "  esac\n"
         "  if [ -z \"$words$files\" ]; then\n"
         "    case $path in\n" +
         words +
         "    esac\n"
         "    if [[ $word != -* ]]; then files=$takes_files; fi\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  if [ -n \"$files\" ]; then\n"
         "    local IFS=$'\\n'\n"
         "    COMPREPLY+=($(compgen -f -- \"$word\"))\n"
         "    compopt -o filenames 2>/dev/null\n"
         "  fi\n"
         "}\n"
         "complete -F _pumice pumice\n";
}

std::string zsh_completion(const CLI::App& app) {
  std::string text = "#compdef pumice\n# zsh completion for pumice; made by 'pumice completion zsh'\n\n";
  for (const Command& command : commands_of(app)) text += zsh_function(command);
  return text + "if [ \"$funcstack[1]\" = _pumice ]; then _pumice \"$@\"; else compdef _pumice pumice; fi\n";
}

std::string fish_completion(const CLI::App& app) {
  const std::vector<Command> commands = commands_of(app);
  std::string paths;
  for (const Command& command : commands) {
    if (!command.path.empty()) paths += fmt::format(" '{}'", command.path);
  }
  std::string text = "# fish completion for pumice; made by 'pumice completion fish'\n"
                     "function __pumice_at\n"
                     "  set -l path\n"
                     "  for word in (commandline -opc)[2..-1]\n"
                     "    set -l longer (string trim -- \"$path $word\")\n"
                     "    contains -- $longer" +
                     paths +
                     "; or break\n"
                     "    set path $longer\n"
                     "  end\n"
                     "  test \"$path\" = \"$argv\"\n"
                     "end\n"
                     "complete -c pumice -f\n";
  for (const Command& command : commands) {
    const std::string begin = fmt::format("complete -c pumice -n '{}'", fish_condition(command));
    const Arguments arguments = arguments_of(*command.app);
    if (arguments.files) text += begin + " -F\n";
    if (!arguments.words.empty()) text += fmt::format("{} -a '{}'\n", begin, fmt::join(arguments.words, " "));
    for (const CLI::App* each : subcommands_of(*command.app)) {
      text += fmt::format("{} -a {} -d '{}'\n", begin, each->get_name(),
                          without_backslashes(plain_summary(each->get_description())));
    }
    for (const OptionText& each : options_of(*command.app)) text += fish_option(command, each);
    text += begin + " -s h -l help -d 'Show what most people need'\n" + begin +
            " -l help-all -d 'Show all options'\n";
  }
  return text;
}

} // namespace pumice::command
