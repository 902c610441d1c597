#include "help/aliases.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "options/option_text.h"

namespace pumice::command {

namespace {

struct Alias {
  std::vector<std::string> names;
  std::string target;         // an option with a value, a flag, or a positional argument
  std::string value = "";     // what the target gets, if the name alone says it
  const char* no_effect = ""; // why the option and its value are left out; the target is then empty
  std::string_view only = ""; // the only subcommand that it is for; empty: each that has the target
};

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> all = {
      {{"-m", "--model"}, "MODEL"},
      {{"-m", "--model"}, "MODEL_DIR"},
      {{"-m", "--model"}, "MODEL_OR_TOKENIZER"},
      {{"-p", "--processors"}, "", "", "--batch decodes several windows together", "transcribe"},
      {{"-p"}, "--prompt"},
      {{"-p", "--prompt"}, "PROMPT"},
      {{"-f", "--file"}, "AUDIO"},
      {{"-f", "--file"}, "FILE"},
      {{"-c", "--ctx-size"}, "--context"},
      {{"-n", "--predict", "--n-predict"}, "--count"},
      {{"-ub", "--ubatch-size"}, "--chunk"},
      {{"-ctk", "--cache-type-k"}, "--kv"},
      {{"-ctv", "--cache-type-v"}, "--kv"},
      {{"-s"}, "--seed"},
      {{"--temperature"}, "--temp"},
      {{"--repeat-last-n"}, "--repeat-window"},
      {{"-r", "--reverse-prompt"}, "--stop"},
      {{"--prompt-cache"}, "--session"},
      {{"-dev"}, "--device"},
      {{"-l"}, "--language"},
      {{"-tr"}, "--translate", "", "", "transcribe"},
      {{"-dl"}, "--detect-language"},
      {{"-nf"}, "--no-fallback"},
      {{"-osrt", "--output-srt"}, "--srt"},
      {{"-ovtt", "--output-vtt"}, "--vtt"},
      {{"-oj", "--output-json"}, "--json", "", "", "transcribe"},
      {{"--no-display-prompt"}, "--no-echo"},
      {{"-bs", "--beam-size"}, "--beams"},
      {{"--num-hypotheses"}, "--n-best"},
      {{"-ngl", "--gpu-layers", "--n-gpu-layers"},
       "",
       "",
       "all layers are always computed on the device (see --device)"},
      {{"-t", "--threads"}, "", "", "the device's driver chooses how many threads it takes"},
  };
  return all;
}

constexpr std::string_view list_devices = "--list-devices";

bool has_target(const CLI::App& app, const Alias& alias) {
  if (!alias.only.empty() && alias.only != app.get_name()) return false;
  if (alias.target.empty()) return app.get_option_no_throw("--device") != nullptr;
  if (alias.target.starts_with('-')) return app.get_option_no_throw(alias.target) != nullptr;
  for (const CLI::Option* each : app.get_options()) {
    if (each->get_positional() && each->get_name(true) == alias.target) return true;
  }
  return false;
}

// The alias that a name is for this subcommand, unless it is the subcommand's own.
const Alias* find_alias(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw(name)) return nullptr;
  for (const Alias& alias : aliases()) {
    if (std::ranges::count(alias.names, name) && has_target(app, alias)) return &alias;
  }
  return nullptr;
}

bool takes_value(const CLI::App& app, const Alias& alias) {
  if (!alias.value.empty()) return false;
  if (!alias.target.starts_with('-')) return true;
  return app.get_option_no_throw(alias.target)->get_items_expected_max() > 0;
}

// "--beam_size" is "--beam-size" if the subcommand knows only that.
std::string with_hyphens(const CLI::App& app, const std::string& name) {
  if (!name.starts_with("--") || app.get_option_no_throw(name)) return name;
  std::string hyphens = name;
  std::ranges::replace(hyphens, '_', '-');
  return app.get_option_no_throw(hyphens) || find_alias(app, hyphens) ? hyphens : name;
}

// Replaces the names among a subcommand's arguments.
class AliasReader {
public:
  AliasReader(const CLI::App& app, TranslatedArguments& result) : app_(app), result_(result) {}

  Status read(const std::vector<std::string>& arguments) {
    size_t next = 0;
    for (; next < arguments.size() && arguments[next] != "--"; ++next) {
      const std::string& argument = arguments[next];
      const size_t equals = argument.starts_with('-') ? argument.find('=') : std::string::npos;
      const std::string given = argument.substr(0, equals);
      const std::string name = with_hyphens(app_, given);
      const Alias* alias = find_alias(app_, name);
      if (!alias) {
        keep(name + (equals == std::string::npos ? "" : argument.substr(equals)));
        const CLI::Option* own = given.starts_with('-') ? app_.get_option_no_throw(name) : nullptr;
        const bool has_value = own && own->get_items_expected_max() > 0 && equals == std::string::npos;
        if (has_value && next + 1 < arguments.size()) keep(arguments[++next]); // whatever it looks like
        continue;
      }
      std::optional<std::string> value;
      if (equals != std::string::npos) {
        value = argument.substr(equals + 1);
      } else if (takes_value(app_, *alias)) {
        if (++next == arguments.size()) {
          return Error{Code::invalid_argument, fmt::format("{}: a value is missing", given)};
        }
        value = arguments[next];
      }
      PUMICE_CHECK(replace(*alias, given, value));
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

  Status replace(const Alias& alias, const std::string& name, const std::optional<std::string>& value) {
    if (alias.target.empty()) {
      result_.notes.push_back(fmt::format("{} has no effect: {}", name, alias.no_effect));
    } else if (!alias.target.starts_with('-')) {
      // The model comes first; other texts may begin with '-' and come after "--".
      (alias.target.starts_with("MODEL") ? model_ : texts_).push_back(*value);
    } else if (!takes_value(app_, alias) && alias.value.empty()) {
      keep(alias.target);
    } else {
      return replace_option(alias, name, value.value_or(alias.value));
    }
    return {};
  }

  // Two names of one option, such as -ctk and -ctv, may be given together if they agree.
  Status replace_option(const Alias& alias, const std::string& name, const std::string& value) {
    const auto [earlier, added] = given_.try_emplace(alias.target, name, value);
    const auto& [first_name, first_value] = earlier->second;
    if (added || first_name == name) {
      keep(alias.target);
      keep(value);
    } else if (CLI::detail::to_lower(first_value) != CLI::detail::to_lower(value)) {
      return Error{Code::invalid_argument, fmt::format("{} {} and {} {} do not go together: both set {}",
                                                       first_name, first_value, name, value, alias.target)};
    }
    return {};
  }

  const CLI::App& app_;
  TranslatedArguments& result_;
  std::vector<std::string> model_, kept_, texts_;
  std::map<std::string, std::pair<std::string, std::string>> given_; // target to name and value
};

} // namespace

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
  for (const Alias& alias : aliases()) {
    for (const std::string& name : alias.names) {
      if (find_alias(app, name) == &alias) names.push_back(name);
    }
  }
  return names;
}

std::string alias_text(const CLI::App& app) {
  std::vector<std::string> texts;
  for (const Alias& alias : aliases()) {
    std::vector<std::string> names;
    for (const std::string& name : alias.names) {
      if (find_alias(app, name) == &alias) names.push_back(name);
    }
    if (names.empty()) continue;
    const std::string meaning = alias.target.empty()  ? "no effect"
                                : alias.value.empty() ? alias.target
                                                      : alias.target + " " + alias.value;
    texts.push_back(fmt::format("{} ({})", fmt::join(names, " "), meaning));
  }
  if (!app.get_parent()) texts.push_back(fmt::format("{} (pumice devices)", list_devices));
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
