// `pumice perplexity --kl-divergence`.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commands/perplexity.h"
#include "task/quality/divergence.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// Of the divergences, and of the changes of the text's probabilities.
constexpr double shares[] = {1, 0.999, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01, 0.001, 0};

std::string share_name(double share) {
  return share == 1     ? "maximum"
         : share == 0.5 ? "median"
         : share == 0   ? "minimum"
                        : fmt::format("{:g} %", share * 100);
}

struct Figure {
  const char* name;  // in JSON
  const char* label; // in the table
  Estimate estimate;
  bool percent = false;
};

std::vector<Figure> figures_of(const Divergence& divergence) {
  return {
      {"perplexity", "perplexity", divergence.perplexity()},
      {"base_perplexity", "perplexity of the base", divergence.base_perplexity()},
      {"perplexity_ratio", "ratio of both", divergence.ratio()},
      {"log_perplexity_ratio", "its logarithm", divergence.log_ratio()},
      {"perplexity_difference", "difference of both", divergence.difference()},
      {"kl_divergence", "KL divergence", divergence.mean()},
      {"probability_change", "change of probability", divergence.probability_change(), true},
      {"probability_change_rms", "its root mean square", divergence.probability_change_rms(), true},
      {"same_top", "same most probable token", divergence.same_top(), true},
  };
}

// What was compared, of how much, and where.
struct Comparison {
  bool json = false;
  uint32_t windows = 0, length = 0, done = 0;
  Json device;
  Divergence divergence = {};
};

std::string json_of(const Comparison& comparison) {
  const Divergence& divergence = comparison.divergence;
  Json json;
  for (const Figure& each : figures_of(divergence))
    json[each.name] = {{"value", each.estimate.value}, {"error", each.estimate.error}};
  json["correlation"] = divergence.correlation();
  for (const double share : shares) {
    json["kl_divergence_percentiles"][fmt::format("{:g}", share * 100)] = divergence.divergence_at(share);
    json["probability_change_percentiles"][fmt::format("{:g}", share * 100)] =
        divergence.probability_change_at(share);
  }
  json["tokens_scored"] = divergence.count();
  json["chunks"] = comparison.done;
  json["context"] = comparison.length;
  json["partial"] = comparison.done < comparison.windows;
  json.update(comparison.device);
  return json_text(json);
}

std::string table_of(const Comparison& comparison) {
  const Divergence& divergence = comparison.divergence;
  std::string text;
  for (const Figure& each : figures_of(divergence)) {
    const double unit = each.percent ? 100 : 1;
    text += fmt::format("{:<26}{:>12.6f} +/- {:.6f}{}\n", each.label, each.estimate.value * unit,
                        each.estimate.error * unit, each.percent ? " %" : "");
  }
  text += fmt::format("{:<26}{:>12.6f} %\n", "correlation of both", divergence.correlation() * 100);
  text += fmt::format("\n{:<12}{:>14}{:>24}\n", "", "KL divergence", "change of probability");
  for (const double share : shares) {
    const double change =
        std::round(divergence.probability_change_at(share) * 1e5) / 1e3 + 0.0; // no "-0.000"
    text += fmt::format("{:<12}{:>14.6f}{:>22.3f} %\n", share_name(share), divergence.divergence_at(share),
                        change);
  }
  const std::string scored = counted(divergence.count(), "token");
  return text + (comparison.done < comparison.windows
                     ? fmt::format("\nso far: {} scored in {} of {} windows of {} tokens\n", scored,
                                   comparison.done, comparison.windows, comparison.length)
                     : fmt::format("\n{} scored in {} of {} tokens\n", scored,
                                   counted(comparison.windows, "window"), comparison.length));
}

std::string text_of(const Comparison& comparison) {
  return comparison.json ? json_of(comparison) : table_of(comparison);
}

} // namespace

Status measure_divergence(const PerplexityOptions& options, MeasuredFile file) {
  PUMICE_TRY(const BaseFile base, BaseFile::open(path_of(options.base), file.shape.vocabulary));
  TextWindows windows = base.windows();
  windows.begin = file.begin();
  if (options.windows) windows.count = std::min(windows.count, options.windows);
  file.size.context = windows.length;
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file.opened), device, options.size.load, &options.size));
  PUMICE_TRY(const std::unique_ptr<WindowReader> reader,
             WindowReader::create(model, file.size, true, file.adapter));
  Comparison comparison{options.json, windows.count, windows.length, 0, Json::object()};
  add_device(comparison.device, device);
  ProgressBar bar("comparing");
  for (uint32_t n = 0; n < windows.count; ++n) {
    if (!bar.update(n, windows.count)) return interruption();
    uint32_t scored = 0;
    const WindowReader::Take take = [&](uint32_t token, std::span<const float> logits) {
      comparison.divergence.add(logits, base.row(n, scored++), token);
    };
    PUMICE_CHECK(reader->read(windows.window(n), windows.first_scored, take));
    comparison.done = n + 1;
    set_last_words([comparison] { return text_of(comparison); });
  }
  set_last_words({});
  bar.erase();
  print_result(text_of(comparison));
  if (!options.json)
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

} // namespace pumice::command
