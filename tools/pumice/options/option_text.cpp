#include "options/option_text.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pumice::command {

namespace {

// Where the first sentence ends: before ". " and what begins another one, or at the end.
size_t sentence_end(const std::string& text) {
  for (size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1)) {
    const char next = at + 2 < text.size() ? text[at + 2] : '\0';
    const bool begins = (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9');
    if (begins || next == '-' || next == '\'') return at;
  }
  const size_t list = text.find(":\n");
  return std::min(list, text.size());
}

std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.empty() || option.get_description().find("(default") != std::string::npos) return "";
  return fmt::format(" (default: {})", text);
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names; // sorted by name, not by address
  for (const CLI::Option* each : options) names.insert(each->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.option = &option;
  if (option.get_positional()) {
    text.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  }
  // CLI11 appends what the validators say of themselves: a list of names, from one_of().
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  if (!option.get_positional() && option.get_items_expected_max() > 0) text.value = type.substr(0, colon);
  if (colon != std::string::npos) text.choices = CLI::detail::split(type.substr(colon + 1), '|');
  const std::string& all = option.get_description();
  const size_t end = sentence_end(all);
  const std::string standard = default_of(option);
  text.summary = all.substr(0, end) + standard;
  text.description = text.summary;
  if (!option.get_needs().empty())
    text.description += fmt::format(". Only with {}", names_of(option.get_needs()));
  if (!option.get_excludes().empty())
    text.description += fmt::format(". Not with {}", names_of(option.get_excludes()));
  text.description += all.substr(end);
  text.group = option.get_group();
  text.more = text.group.ends_with(more_options);
  if (text.more) text.group.erase(text.group.size() - more_options.size());
  return text;
}

} // namespace

std::string OptionText::heading() const {
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  return value.empty() ? all : all + " " + value;
}

std::vector<OptionText> options_of(const CLI::App& app) {
  std::vector<OptionText> texts;
  for (const CLI::Option* option : app.get_options()) {
    const bool help = option == app.get_help_ptr() || option == app.get_help_all_ptr();
    if (!help && option->nonpositional() && !option->get_group().empty())
      texts.push_back(option_text(*option));
  }
  return texts;
}

std::vector<OptionText> positionals_of(const CLI::App& app) {
  std::vector<OptionText> texts;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && !option->get_group().empty()) texts.push_back(option_text(*option));
  }
  return texts;
}

std::vector<std::string> groups_of(const std::vector<OptionText>& options) {
  std::vector<std::string> groups;
  for (const OptionText& each : options) {
    if (std::ranges::count(groups, each.group) == 0) groups.push_back(each.group);
  }
  std::ranges::stable_partition(groups, [](const std::string& group) { return group != device_group; });
  return groups;
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent ? full_name(*parent) + " " + app.get_name() : app.get_name();
}

std::string usage_of(const CLI::App& app) {
  std::string usage = "[OPTIONS]";
  for (const OptionText& each : options_of(app)) {
    if (each.option->get_required()) usage += " " + each.names.back() + " " + each.value;
  }
  for (const OptionText& each : positionals_of(app)) {
    const std::string name = each.names[0] + (each.option->get_expected_max() > 1 ? "..." : "");
    usage += each.option->get_required() ? " " + name : " [" + name + "]";
  }
  if (app.get_allow_extras()) usage += " A B [MODEL] [BENCH_OPTION]..."; // 'bench ab' alone
  if (!subcommands_of(app).empty() && app.get_require_subcommand_min() > 0) usage = "COMMAND [OPTIONS]";
  return usage;
}

} // namespace pumice::command
