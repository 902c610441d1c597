#include "help/man_page.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "help/aliases.h"
#include "options/option_text.h"
#include "terminal/version.h"

namespace pumice::command {

namespace {

// Text for man: no character of it is one of its commands.
std::string man_text(const std::string& text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    line_begins = c == '\n';
  }
  return result;
}

std::string bold(const std::string& text) {
  return "\\fB" + man_text(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return text.empty() ? "" : "\\fI" + man_text(text) + "\\fR";
}

// Paragraphs; lines that begin with a space, such as examples, stay as they are.
std::string body(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  bool verbatim = false;
  for (std::string line; std::getline(lines, line);) {
    const bool example = line.starts_with(' ');
    if (example != verbatim) result += example ? ".PP\n.nf\n" : ".fi\n";
    verbatim = example;
    if (line.empty()) {
      result += ".PP\n";
    } else {
      result +=
          man_text(example ? line.substr(std::min(line.find_first_not_of(' '), size_t{2})) : line) + "\n";
      if (!example) result += ".br\n";
    }
  }
  return result + (verbatim ? ".fi\n" : "");
}

std::string entry(const OptionText& option) {
  std::string heads;
  for (const std::string& name : option.names) {
    heads += (heads.empty() ? "" : ", ") + (name.starts_with('-') ? bold(name) : italic(name));
  }
  if (!option.value.empty()) heads += " " + italic(option.value);
  return fmt::format(".TP\n{}\n{}", heads, body(option.description + "."));
}

std::string option_sections(const CLI::App& app) {
  const std::vector<OptionText> options = options_of(app);
  std::string sections;
  if (const auto positionals = positionals_of(app); !positionals.empty()) {
    sections += ".SH ARGUMENTS\n";
    for (const OptionText& each : positionals) sections += entry(each);
  }
  sections += ".SH OPTIONS\n";
  for (const std::string& group : groups_of(options)) {
    sections += fmt::format(".SS \"{}\"\n", man_text(group));
    for (const OptionText& each : options) {
      if (each.group == group) sections += entry(each);
    }
  }
  sections += ".SS \"Help\"\n.TP\n" + bold("-h") + ", " + bold("--help") +
              "\nShow what most people need.\n.TP\n" + bold("--help-all") + "\nShow all options.\n";
  return sections;
}

std::string command_section(const CLI::App& app) {
  std::string section;
  for (const CLI::App* each : subcommands_of(app)) {
    section += fmt::format(".TP\n{}\n{}", bold(full_name(*each)), body(each->get_description()));
  }
  return section.empty() ? section : ".SH COMMANDS\n" + section;
}

// What stands before "Example:" in a footer, and the examples.
std::string footer_sections(const std::string& footer) {
  const std::string title = "Example:\n";
  const size_t at = std::min(footer.find(title), footer.size());
  std::string notes = footer.substr(0, at);
  while (notes.ends_with('\n')) notes.pop_back();
  std::string sections = notes.empty() ? "" : ".SH NOTES\n" + body(notes);
  if (at < footer.size()) sections += ".SH EXAMPLES\n" + body(footer.substr(at + title.size()));
  return sections;
}

std::string item(const std::string& name, const std::string& text) {
  return ".TP\n" + bold(name) + "\n" + man_text(text) + "\n";
}

// What the commands that use a device read and keep, and what all of them look at.
std::string surroundings(const CLI::App& app) {
  const bool device = app.get_option_no_throw("--cache") != nullptr;
  std::string files, variables;
  if (device) {
    files =
        ".SH FILES\n" + item("$XDG_CACHE_HOME/pumice, ~/.cache/pumice, %LOCALAPPDATA%\\pumice",
                             "A file for each device and driver: compiled kernels, which kernels are fast, "
                             "and which are not used because they were wrong. --cache names another "
                             "folder. It may be removed: the next start is slower.");
    variables = item("XDG_CACHE_HOME", "Where caches are kept.") +
                item("VK_DRIVER_FILES", "The Vulkan drivers to use, read by the Vulkan loader.");
  }
  variables +=
      item("NO_COLOR",
           "If it is set, nothing is coloured or bold, and no escape is written but those with which a line "
           "is edited in a chat.") +
      item("TERM", "With 'dumb', no line is drawn over another one.");
  return files + ".SH ENVIRONMENT\n" + variables;
}

std::string see_also(const CLI::App& app) {
  std::vector<std::string> pages;
  if (app.get_parent()) pages.push_back(man_page_name(*app.get_parent()));
  for (const CLI::App* each : subcommands_of(app)) pages.push_back(man_page_name(*each));
  std::string list;
  for (const std::string& page : pages) list += (list.empty() ? "" : ",\n") + bold(page) + "(1)";
  return list.empty() ? list : ".SH SEE ALSO\n" + list + "\n";
}

} // namespace

std::string man_page_name(const CLI::App& app) {
  std::string name = full_name(app);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const CLI::App& app) {
  std::string description = app.get_description();
  std::string summary = description.substr(0, description.find(".\n"));
  if (summary.ends_with('.')) summary.pop_back();
  std::string title = man_page_name(app);
  std::string capitals = title;
  std::ranges::transform(capitals, capitals.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"pumice {}\" \"Pumice\"\n", capitals, version_number());
  page += fmt::format(".SH NAME\n{} \\- {}\n", man_text(title), man_text(summary));
  page += fmt::format(".SH SYNOPSIS\n{} {}\n", bold(full_name(app)), man_text(usage_of(app)));
  page += ".SH DESCRIPTION\n" + body(description);
  page += command_section(app) + option_sections(app);
  if (const std::string known = alias_text(app); !known.empty()) page += ".PP\n" + body(known + ".");
  page += footer_sections(app.get_footer());
  page +=
      ".SH EXIT STATUS\n0 if all went well, 1 if not or not all (the message is on the standard error; what "
      "was done is written), 130 after Ctrl\\-C.\n";
  return page + surroundings(app) + see_also(app);
}

} // namespace pumice::command
