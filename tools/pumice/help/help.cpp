#include "help/help.h"

#include <algorithm>

#include <fmt/format.h>

#include "help/aliases.h"
#include "options/option_text.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

constexpr size_t most_width = 80, narrow = 60;

// Of the terminal, if it has less than most_width.
size_t help_width() {
  const size_t columns = stdout_columns();
  return columns == 0 ? most_width : std::clamp(columns, size_t{30}, most_width);
}

// Of the column with the options' names, with its indent. Where there is little room, the texts begin below.
size_t name_width() {
  return help_width() < narrow ? 6 : 24;
}

std::string row(const std::string& name, const std::string& text) {
  const std::string lines = wrapped(text, name_width(), help_width());
  std::string head = "  " + name;
  if (head.size() > help_width()) {
    head = wrapped(name, 2, help_width());
    head.pop_back(); // the end of the line
  }
  if (lines.empty()) return head + "\n";
  if (head.size() + 2 > name_width()) return head + "\n" + lines;
  return head + lines.substr(head.size());
}

std::string option_rows(const std::vector<OptionText>& options, const std::string& group, bool all) {
  std::string rows;
  for (const OptionText& each : options) {
    if (each.group != group || (each.more && !all)) continue;
    rows += row(each.heading(), all ? each.description : each.summary);
  }
  return rows.empty() ? rows : fmt::format("\n{}:\n{}", group, rows);
}

std::string positional_rows(const CLI::App& app, bool all) {
  std::string rows;
  for (const OptionText& each : positionals_of(app))
    rows += row(each.names[0], all ? each.description : each.summary);
  return rows.empty() ? rows : "\n" + rows;
}

// The subcommands in their groups. One that begins a group's name with a lower-case letter has no group.
std::string subcommand_rows(const CLI::App& app) {
  std::vector<std::string> groups;
  const std::vector<const CLI::App*> all = subcommands_of(app);
  for (const CLI::App* each : all) {
    if (std::ranges::count(groups, each->get_group()) == 0) groups.push_back(each->get_group());
  }
  std::string rows;
  for (const std::string& group : groups) {
    rows += fmt::format("\n{}:\n", group);
    for (const CLI::App* each : all) {
      if (each->get_group() == group) rows += row(each->get_name(), each->get_description());
    }
  }
  return rows;
}

// As many of the names as one row has room for.
std::string other_names_row(const CLI::App& app) {
  const std::vector<std::string> names = alias_names(app);
  const size_t room = help_width() - name_width() - 4; // for " ..."
  std::string text;
  size_t shown = 0;
  for (; shown < names.size() && text.size() + 1 + names[shown].size() <= room; ++shown)
    text += (text.empty() ? "" : " ") + names[shown];
  if (names.empty()) return "";
  return row("other names", text + (shown < names.size() ? " ..." : ""));
}

std::string help_rows(const CLI::App& app, const std::vector<OptionText>& options, bool all) {
  if (!app.get_parent()) {
    return row("COMMAND --help", "Show a command's options; pumice --help-all: all");
  }
  const auto hidden = std::ranges::count(options, true, &OptionText::more);
  if (all) return "\n" + row("--help", "Show what most people need");
  const std::string more =
      hidden == 0 ? "all details"
                  : fmt::format("{} more option{} and the details", hidden, hidden == 1 ? "" : "s");
  return "\n" + row("--help-all", "Show " + more) + other_names_row(app);
}

// The whole reference: each subcommand's page.
std::string all_pages(const CLI::App& app) {
  std::string pages;
  for (const CLI::App* each : subcommands_of(app)) {
    pages += fmt::format("\n{:-<{}}\n\n", full_name(*each) + " ", help_width());
    pages += HelpFormatter().make_help(each, "", CLI::AppFormatMode::All);
  }
  return pages;
}

} // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const {
  const bool all = mode != CLI::AppFormatMode::Normal;
  const std::vector<OptionText> options = options_of(*app);
  std::string help = wrapped(app->get_description(), 0, help_width());
  help += "\n" + wrapped(fmt::format("Usage: {} {}", full_name(*app), usage_of(*app)), 0, help_width());
  help += positional_rows(*app, all);
  help += subcommand_rows(*app);
  for (const std::string& group : groups_of(options)) help += option_rows(options, group, all);
  help += help_rows(*app, options, all);
  if (const std::string known = alias_text(*app); all && !known.empty())
    help += "\n" + wrapped(known, 0, help_width());
  if (!app->get_footer().empty()) help += "\n" + wrapped(app->get_footer(), 0, help_width());
  if (all && !app->get_parent()) help += all_pages(*app);
  return help;
}

} // namespace pumice::command
