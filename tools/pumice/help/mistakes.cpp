#include "help/mistakes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "help/aliases.h"
#include "help/other_programs/other_programs.h"
#include "io/nearest_names.h"
#include "options/option_text.h"

namespace pumice::command {

namespace {

// The name that is meant: the nearest, or the only one that begins so.
std::optional<std::string> meant(const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const auto nearest = nearest_names(name, views); !nearest.empty()) return std::string(nearest[0]);
  std::vector<std::string> longer;
  for (const std::string& each : names) {
    if (name.size() > 1 && each.starts_with(name)) longer.push_back(each);
  }
  if (longer.size() == 1) return longer[0];
  return std::nullopt;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands({})) names.push_back(each->get_name());
  return names;
}

// The long names of an application's options, without "--".
std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  for (const std::string& alias : long_aliases(app)) names.push_back(alias.substr(2));
  return names;
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed[0]);
}

// The subcommands, but this one, that have an option of this name.
std::vector<std::string> owners_of(const CLI::App& app, const std::string& option) {
  const CLI::App* root = &app;
  while (root->get_parent()) root = root->get_parent();
  std::vector<std::string> owners;
  for (const CLI::App* each : root->get_subcommands({})) {
    if (each != &app && each->get_option_no_throw(option)) owners.push_back("pumice " + each->get_name());
  }
  return owners;
}

constexpr std::string_view command_first =
    "a command comes first: 'pumice chat MODEL' talks to a model, 'pumice run MODEL' continues a text";

bool knows_name(const std::string& option) {
  return std::ranges::any_of(other_options(),
                             [&](const OtherOption& other) { return is_name_of(other, option); });
}

std::string unknown_option_text(const CLI::App& app, const std::string& written) {
  const std::string option = written.substr(0, written.find('='));
  std::string text = fmt::format("'{}' has no option '{}'", full_name(app), option);
  const std::string word = option.substr(option.find_first_not_of('-'));
  if (!app.get_parent() && std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* each) {
        return each->get_option_no_throw(option) || knows_name(option);
      }))
    return fmt::format("{}: {}", text, command_first);
  if (option == "-" + word && word.size() > 1 &&
      (app.get_option_no_throw("--" + word) || knows_name("--" + word)))
    return text + fmt::format(". Did you mean '--{}'?", word);
  if (const auto name = word.size() > 1 ? meant(word, long_names(app)) : std::nullopt) {
    return text + fmt::format(". Did you mean '--{}'?", *name);
  }
  if (const std::vector<std::string> owners = owners_of(app, option);
      !owners.empty() && option.starts_with("--"))
    text += fmt::format("; {} {} it", fmt::join(owners, ", "), owners.size() == 1 ? "has" : "have");
  return text;
}

// A text of several words without quotes, or a subcommand's name that is misspelt.
std::string unexpected(const CLI::App& app, const std::vector<std::string>& extra) {
  std::string text =
      fmt::format("'{}' takes no more arguments; found '{}'", full_name(app), fmt::join(extra, "' '"));
  std::vector<std::string> words = extra;
  for (const OptionText& each : positionals_of(app)) {
    for (const std::string& value : each.option->results()) words.push_back(value);
  }
  for (const std::string& word : words) {
    if (const auto name = meant(word, subcommand_names(app)))
      return text + fmt::format(". Did you mean '{} {}'?", full_name(app), *name);
  }
  if (app.get_option_no_throw("--prompt") && app.get_name() != "bench")
    return text + ". --prompt takes a text";
  if (app.get_name() == "convert") return text + ". --type takes a type, such as Q4_K_M";
  const bool quoted =
      std::ranges::any_of(extra, [](const std::string& word) { return word.find(' ') != std::string::npos; });
  if (quoted && app.get_option_no_throw("--file"))
    return text + ". Texts come from standard input, or from --file";
  if (!quoted && !positionals_of(app).empty()) text += ". A text of several words needs quotes";
  return text;
}

bool begins_as_option(const std::string& word) {
  return word.starts_with('-') && word.find_first_not_of('-') != std::string::npos;
}

std::string with_help(const CLI::App& app, const std::string& sentence) {
  return fmt::format("{}\nTry '{} --help'.", sentence, full_name(app));
}

// CLI11's own sentences, in plain words.
std::string reworded(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const auto two = [&](std::string_view between, const char* sentence) {
    const size_t at = text.find(between);
    return fmt::format(fmt::runtime(sentence), text.substr(0, at), text.substr(at + between.size()));
  };
  const std::string kind = error.get_name();
  if (kind == "RequiredError") {
    return fmt::format("{} is missing. Usage: {} {}", text.substr(0, text.find(' ')), full_name(app),
                       usage_of(app));
  }
  if (kind == "ExcludesError") return two(" excludes ", "{} and {} do not go together");
  if (kind == "RequiresError") return two(" requires ", "{} has an effect only with {}");
  if (kind == "ArgumentMismatch" && text.ends_with(" missing"))
    return fmt::format("{}: a value is missing", text.substr(0, text.find(':')));
  if (kind == "ArgumentMismatch")
    return fmt::format("{} may be given only once", text.substr(0, text.find(':')));
  if (kind == "ConversionError") return two(" = ", "{}: '{}' is not a value that it takes");
  return text;
}

std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  if (command.get_allow_extras()) return reworded(command, error);
  const std::vector<std::string> extra = app.remaining(true);
  const auto texts = std::ranges::find(extra, "--");
  const auto option = std::find_if(extra.begin(), texts, begins_as_option);
  if (&command == &app && !extra.empty() && !begins_as_option(extra[0]))
    return unknown_command(app, extra[0]);
  if (option != texts) return unknown_option_text(command, *option);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    return unexpected(command, extra);
  return reworded(command, error);
}

} // namespace

std::string unknown_command(const CLI::App& app, const std::string& name) {
  std::string text = fmt::format("there is no command '{}'", name);
  if (name.ends_with(".gguf") || name.ends_with(".bin") || name.find('/') != std::string::npos)
    return fmt::format("{}: {}", text, command_first);
  std::vector<std::string> names = subcommand_names(app);
  for (const OtherCommand& each : other_commands()) names.emplace_back(each.name);
  const std::string plain = name.starts_with("llama-") ? name.substr(6) : name;
  const std::optional<std::string> found = meant(plain, names);
  if (!found) return text;
  const std::span<const OtherCommand> others = other_commands();
  const auto other = std::ranges::find(others, *found, &OtherCommand::name);
  if (other != others.end() && !other->sentence.empty()) return fmt::format("{}: {}", text, other->sentence);
  return text + fmt::format(". Did you mean '{} {}'?", full_name(app),
                            other == others.end() ? *found : std::string(other->command));
}

Error unknown_option(const CLI::App& app, const std::string& written) {
  return {Code::invalid_argument, with_help(app, unknown_option_text(app, written))};
}

std::string explain_mistake(const CLI::App& app, const CLI::ParseError& error) {
  return with_help(innermost(app), sentence_of(app, error));
}

} // namespace pumice::command
