#include "help/aliases.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "help/mistakes.h"
#include "help/other_programs/other_programs.h"
#include "options/option_text.h"

namespace pumice::command {

namespace {

constexpr std::string_view list_devices = "--list-devices";

bool has_target(const CLI::App& app, const OtherOption& other) {
  if (!other.only.empty() && std::ranges::count(other.only, app.get_name()) == 0) return false;
  const std::string target(other.target);
  if (target.empty()) return !other.only.empty() || app.get_option_no_throw("--device") != nullptr;
  if (target.starts_with('-')) return app.get_option_no_throw(target) != nullptr;
  for (const CLI::Option* each : app.get_options()) {
    if (each->get_positional() && each->get_name(true) == target) return true;
  }
  return false;
}

// What a name of another program is for this subcommand, unless it is the subcommand's own.
const OtherOption* find_other(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw(name)) return nullptr;
  for (const OtherOption& other : other_options()) {
    if (is_name_of(other, name) && has_target(app, other)) return &other;
  }
  return nullptr;
}

// The names by which a subcommand understands an option of another program.
std::vector<std::string> names_of(const CLI::App& app, const OtherOption& other) {
  std::vector<std::string> names;
  if (!other.instead.empty()) return names;
  for (const std::string_view name : other.names) {
    if (find_other(app, std::string(name)) == &other) names.emplace_back(name);
  }
  return names;
}

bool takes_value(const CLI::App& app, const OtherOption& other, const std::string& next) {
  if (!other.value.empty()) return false;
  if (other.target.empty() && other.takes == OtherOption::Takes::a_word) {
    constexpr std::string_view words[] = {"on", "off", "auto", "0", "1", "true", "false"};
    return std::ranges::all_of(CLI::detail::split(next, ','), [&](const std::string& word) {
      return std::ranges::count(words, word) > 0; // llama-bench takes lists
    });
  }
  if (other.target.empty()) return other.takes == OtherOption::Takes::a_value;
  if (!other.target.starts_with('-')) return true;
  return app.get_option_no_throw(std::string(other.target))->get_items_expected_max() > 0;
}

// "--beam_size" is "--beam-size" if the subcommand knows only that.
std::string with_hyphens(const CLI::App& app, const std::string& name) {
  if (!name.starts_with("--") || app.get_option_no_throw(name)) return name;
  std::string hyphens = name;
  std::ranges::replace(hyphens, '_', '-');
  return app.get_option_no_throw(hyphens) || find_other(app, hyphens) ? hyphens : name;
}

// Where the name in a word with one dash ends: before '=', or before a number that follows it at once, "-n5".
// CLI11 would take any such word apart into short options.
size_t end_of_short_name(const CLI::App& app, const std::string& word) {
  const size_t equals = word.find('=');
  const size_t digits = word.size() > 2 ? word.find_first_of("0123456789.,-+", 2) : std::string::npos;
  if (equals != std::string::npos || digits == std::string::npos) return equals;
  if (app.get_option_no_throw(word) || find_other(app, word)) return std::string::npos;
  const std::string name = word.substr(0, digits);
  const CLI::Option* option = app.get_option_no_throw(name);
  const bool known = option ? option->get_items_expected_max() > 0 : find_other(app, name) != nullptr;
  const bool number = word.find_first_not_of("0123456789.,-+", digits) == std::string::npos;
  return known && number ? digits : std::string::npos;
}

bool is_unknown_word(const CLI::App& app, const std::string& word) {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return false;
  return !app.get_allow_extras() && !app.get_option_no_throw(word);
}

// Replaces the names among a subcommand's arguments.
class AliasReader {
public:
  AliasReader(const CLI::App& app, TranslatedArguments& result) : app_(app), result_(result) {}

  Status read(const std::vector<std::string>& arguments) {
    size_t next = 0;
    for (; next < arguments.size() && arguments[next] != "--"; ++next) {
      const std::string& argument = arguments[next];
      const bool is_long = argument.starts_with("--"), is_short = !is_long && argument.starts_with('-');
      const size_t end = is_long    ? argument.find('=')
                         : is_short ? end_of_short_name(app_, argument)
                                    : std::string::npos;
      const std::string written = argument.substr(0, end);
      const std::string name = with_hyphens(app_, written);
      const std::string following = next + 1 < arguments.size() ? arguments[next + 1] : "";
      std::optional<std::string> value;
      if (end != std::string::npos) value = argument.substr(end + (argument[end] == '=' ? 1 : 0));
      const OtherOption* other = find_other(app_, name);
      if (!other) {
        if (is_unknown_word(app_, name)) return unknown_option(app_, name);
        const CLI::Option* option = is_long || is_short ? app_.get_option_no_throw(name) : nullptr;
        const bool takes_one = option && option->get_items_expected_max() > 0;
        const bool is_split = takes_one && is_short && value;
        keep(is_split ? name : name + argument.substr(written.size()));
        if (is_split) keep(*value);
        if (takes_one && !value && next + 1 < arguments.size())
          keep(arguments[++next]); // whatever it looks like
        continue;
      }
      if (!value && takes_value(app_, *other, following)) {
        if (++next == arguments.size()) {
          return Error{Code::invalid_argument, fmt::format("{}: a value is missing", written)};
        }
        value = following;
      }
      PUMICE_CHECK(replace(*other, written, value));
    }
    std::vector<std::string>& all = result_.arguments;
    all.insert(all.end(), model_.begin(), model_.end());
    all.insert(all.end(), kept_.begin(), kept_.end());
    if (next < arguments.size() || !texts_.empty()) all.emplace_back("--");
    all.insert(all.end(), texts_.begin(), texts_.end());
    if (next < arguments.size())
      all.insert(all.end(), arguments.begin() + static_cast<ptrdiff_t>(next) + 1, arguments.end());
    return {};
  }

private:
  void keep(std::string argument) { kept_.push_back(std::move(argument)); }

  Status replace(const OtherOption& other, const std::string& name, const std::optional<std::string>& value) {
    if (!other.instead.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("'{}' has no option '{}': {}", full_name(app_), name, other.instead)};
    }
    if (other.target.empty()) {
      result_.notes.push_back(fmt::format("{} has no effect: {}", name, other.no_effect));
    } else if (other.target.starts_with("MODEL")) {
      return set_model(name, *value);
    } else if (!other.target.starts_with('-')) {
      texts_.push_back(*value); // they come after "--"
    } else if (!takes_value(app_, other, "") && other.value.empty()) {
      keep(std::string(other.target));
    } else if (other.otherwise.empty() || value != other.otherwise) {
      return replace_option(std::string(other.target), name, value.value_or(std::string(other.value)));
    }
    return {};
  }

  Status set_model(const std::string& name, const std::string& path) {
    if (!model_.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("{} is given twice: {}", name,
                               app_.get_name() == "bench" ? "'pumice bench ab A B' compares two models"
                                                          : "a command has one model")};
    }
    model_.push_back(path.starts_with('-') ? "./" + path : path); // a path, and no option
    return {};
  }

  // Two names of one option may be given together if they agree. -ctk and -ctv need not: they are the two
  // types of --kv.
  Status replace_option(const std::string& target, const std::string& name, const std::string& value) {
    if (app_.get_name() == "bench" && value.find(',') != std::string::npos &&
        app_.get_option_no_throw(target)->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll) {
      return Error{Code::invalid_argument,
                   fmt::format("{} takes one value: 'pumice bench ab \"{} A\" \"{} B\" MODEL' compares two",
                               name, target, target)};
    }
    const auto [earlier, added] = given_.try_emplace(target, name, value);
    const auto& [first_name, first_value] = earlier->second;
    if (added || first_name == name) {
      keep(target);
      keep(value);
    } else if (CLI::detail::to_lower(first_value) != CLI::detail::to_lower(value)) {
      const bool lists = (first_value + value).find(',') != std::string::npos;
      const bool keys_first = first_name.ends_with('k'), both = keys_first != name.ends_with('k');
      if (target == "--kv" && both && !lists) {
        *(std::ranges::find(kept_, target) + 1) =
            keys_first ? first_value + "/" + value : value + "/" + first_value;
        return {};
      }
      return Error{Code::invalid_argument, fmt::format("{} {} and {} {} do not go together: both set {}",
                                                       first_name, first_value, name, value, target)};
    }
    return {};
  }

  const CLI::App& app_;
  TranslatedArguments& result_;
  std::vector<std::string> model_, kept_, texts_;
  std::map<std::string, std::pair<std::string, std::string>> given_; // target to name and value
};

} // namespace

bool is_name_of(const OtherOption& other, std::string_view name) {
  return std::ranges::any_of(other.names, [name](std::string_view each) {
    const size_t star = each.find('*');
    if (star == each.npos) return each == name;
    const std::string_view begin = each.substr(0, star), end = each.substr(star + 1);
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  });
}

Result<TranslatedArguments> translate_aliases(const CLI::App& app,
                                              const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  if (std::find(arguments.begin(), end, list_devices) != end) return TranslatedArguments{{"devices"}, {}};
  TranslatedArguments result;
  const CLI::App* chosen = &app;
  size_t next = 0;
  for (; next < arguments.size(); ++next) {
    const auto found =
        chosen->get_subcommands([&](const CLI::App* each) { return each->get_name() == arguments[next]; });
    if (found.empty()) break;
    chosen = found[0];
    result.arguments.push_back(arguments[next]);
  }
  PUMICE_CHECK(
      AliasReader(*chosen, result).read({arguments.begin() + static_cast<ptrdiff_t>(next), arguments.end()}));
  return result;
}

std::vector<std::string> alias_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const OtherOption& other : other_options()) {
    for (std::string& name : names_of(app, other)) names.push_back(std::move(name));
  }
  return names;
}

std::string alias_text(const CLI::App& app) {
  std::vector<std::string> texts, without_effect;
  for (const OtherOption& other : other_options()) {
    const std::vector<std::string> names = names_of(app, other);
    if (other.target.empty()) {
      without_effect.insert(without_effect.end(), names.begin(), names.end());
    } else if (!names.empty()) {
      texts.push_back(fmt::format("{} ({}{}{})", fmt::join(names, " "), other.target,
                                  other.value.empty() ? "" : " ", other.value));
    }
  }
  if (!app.get_parent()) texts.push_back(fmt::format("{} (pumice devices)", list_devices));
  if (!without_effect.empty()) texts.push_back(fmt::format("{} (no effect)", fmt::join(without_effect, " ")));
  return texts.empty() ? "" : fmt::format("Names from other programs: {}", fmt::join(texts, ", "));
}

std::vector<std::string> long_aliases(const CLI::App& app) {
  std::vector<std::string> names;
  for (const std::string& name : alias_names(app)) {
    if (name.starts_with("--")) names.push_back(name);
  }
  return names;
}

} // namespace pumice::command
