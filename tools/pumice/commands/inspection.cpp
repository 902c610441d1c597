#include "commands/inspection.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "output/json_output.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

uint64_t Inspection::parameters() const {
  uint64_t sum = 0;
  for (const ComponentCount& each : components) sum += each.parameters;
  return sum;
}

namespace {

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

double share(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

// Whether the terminal has no room for the usual columns.
bool is_narrow() {
  return stdout_columns() > 0 && stdout_columns() < 64;
}

// A name and a number, in columns.
std::string numbered(const std::string& name, uint64_t number) {
  return fmt::format("  {:<{}}{:>{}}", name, is_narrow() ? 14 : 16, grouped(number), is_narrow() ? 13 : 20);
}

std::string size_line(const std::string& name, uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return is_narrow() ? fmt::format("  {:<16}{:>14.2f} MiB", name, mebibytes)
                     : fmt::format("{} bytes{:>14.2f} MiB", numbered(name, bytes), mebibytes);
}

// What of it the device has room for.
std::string fitting_text(const InspectedMemory& memory) {
  std::string text =
      size_line("free", memory.needs.available) + (memory.needs.fits() ? "\n" : ", too little\n");
  for (const FittingContext& each : memory.fitting)
    text += numbered(fmt::format("fits in {}", to_string(each.cache)), each.context) + " tokens\n";
  if (const SessionSize& fit = memory.fit; !memory.needs.fits() && fit.context > 0) {
    text += listed(numbered("with --fit", fit.context) + " ",
                   fmt::format("tokens in {}, read in chunks of {}", to_string(fit.cache), fit.chunk));
  }
  return text;
}

std::string memory_text(const Inspection& inspection) {
  if (!inspection.memory)
    return "\n" + listed("memory: ", "not known without a device: " + inspection.no_memory);
  const InspectedMemory& memory = *inspection.memory;
  const MemoryNeeds& needs = memory.needs;
  std::string text =
      "\n" +
      listed("memory ",
             fmt::format("for a context of {} tokens (cache in {}){}", needs.context, memory.kv,
                         memory.exact ? " on " + memory.device : ", an estimate with weights of 16 bits"));
  const auto line = [&](const char* name, uint64_t bytes) { text += size_line(name, bytes) + "\n"; };
  line("weights", needs.weights);
  if (needs.host) line("weights on host", needs.host);
  line("KV cache", needs.cache);
  if (memory.exact) {
    line("scratch", needs.scratch);
    line("step, sampling", needs.state);
  }
  line("total", memory.total());
  if (memory.exact) text += fitting_text(memory);
  if (!inspection.no_memory.empty()) text += listed("  ", "(" + inspection.no_memory + ")");
  return text;
}

// The lines that say what the file is.
std::string facts_text(const Inspection& inspection) {
  const ModelFacts& facts = inspection.facts;
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += listed(fmt::format("{:<18}", name), value);
  };
  line("format", inspection.format);
  line("weights", facts.no_weights.empty() ? facts.quantisation : "none: " + facts.no_weights);
  if (facts.tokenizer) {
    line("tokenizer", fmt::format("{}, {} tokens", facts.tokenizer->kind, grouped(facts.tokenizer->tokens)));
  } else {
    line("tokenizer", facts.no_tokenizer.empty() ? "none" : "cannot be read: " + facts.no_tokenizer);
  }
  line("chat template", facts.chat_template ? "yes" : "no");
  for (const auto& [name, value] : facts.metadata) line(name, value);
  line("commands", fmt::format("{}", fmt::join(inspection.commands, ", ")));
  return text;
}

// The first names. --json has all.
std::string unread_text(const std::vector<std::string>& names) {
  const size_t shown = std::min<size_t>(names.size(), 8);
  std::string text = fmt::format("tensors left out: {}\n", names.size());
  for (size_t i = 0; i < shown; ++i) text += fmt::format("  {}\n", names[i]);
  return text + (shown < names.size() ? "  ...\n" : "");
}

std::string summary(const Inspection& inspection) {
  std::string text = fmt::format("{}\n\n{}\n", inspection.model, facts_text(inspection)) +
                     listed("architecture      ", inspection.architecture);
  size_t width = 16;
  for (const Hyperparameter& each : inspection.hyperparameters) width = std::max(width, each.name.size() + 2);
  for (const Hyperparameter& each : inspection.hyperparameters) {
    text += listed(fmt::format("  {:<{}}", each.name, width), each.value);
  }
  const uint64_t total = inspection.parameters();
  text += "\nparameters\n";
  for (const ComponentCount& each : inspection.components) {
    text += fmt::format("{}{:>9.2f} %\n", numbered(each.component, each.parameters),
                        share(each.parameters, total));
  }
  text += fmt::format("{}{:>9.2f} %\n", numbered("total", total), share(total, total));
  if (!inspection.types.empty()) text += "\ntensors by type\n";
  for (const TypeCount& each : inspection.types) {
    text += listed(numbered(each.type, each.bytes) + " ", fmt::format("bytes in {} tensors", each.tensors));
  }
  if (!inspection.unread.empty()) text += "\n" + unread_text(inspection.unread);
  return text + memory_text(inspection);
}

Json memory_json(const Inspection& inspection) {
  if (!inspection.memory) return {};
  const InspectedMemory& memory = *inspection.memory;
  const MemoryNeeds& needs = memory.needs;
  Json json = {{"context", needs.context},      {"kv", memory.kv},
               {"exact", memory.exact},         {"weights_bytes", needs.weights},
               {"kv_cache_bytes", needs.cache}, {"scratch_bytes", needs.scratch},
               {"state_bytes", needs.state},    {"total_bytes", memory.total()}};
  if (!memory.exact) return json;
  json["host_bytes"] = needs.host;
  json["available_bytes"] = needs.available;
  json["fits"] = needs.fits();
  json["longest_context"] = Json::object();
  for (const FittingContext& each : memory.fitting)
    json["longest_context"][to_string(each.cache)] = each.context;
  json["fit"] = {
      {"context", memory.fit.context}, {"kv", to_string(memory.fit.cache)}, {"chunk", memory.fit.chunk}};
  return json;
}

Json to_json(const ModelForecast& forecast) {
  const StepForecast& step = forecast.step;
  Json json = {{"chip", forecast.chip.name},
               {"name", forecast.chip.title},
               {"depth", forecast.extent.positions - 1},
               {"tokens", step.rows},
               {"seconds", step.seconds},
               {"tokens_per_second", step.tokens_per_second()},
               {"memory_tokens_per_second", step.most_tokens_per_second()},
               {"memory_bytes", step.memory_bytes},
               {"flops", step.flops},
               {"peak_share", step.peak_share(forecast.chip)},
               {"barriers", step.barriers},
               {"launches", Json::array()}};
  for (size_t i = 0; i < step.launches.size(); ++i) {
    const Dispatch& dispatch = forecast.plan.dispatches[i].dispatch;
    const LaunchForecast& launch = step.launches[i];
    json["launches"].push_back({{"kernel", dispatch.kernel},
                                {"label", dispatch.label},
                                {"barrier", launch.barrier},
                                {"workgroups", launch.work.groups},
                                {"invocations", launch.work.invocations},
                                {"memory_bytes", launch.work.memory_bytes},
                                {"cache_bytes", launch.work.cache_bytes},
                                {"flops", launch.work.flops},
                                {"peak_share", launch.peak_share(forecast.chip)},
                                {"instructions", launch.work.instructions},
                                {"bytes_in_flight", launch.flight_bytes},
                                {"subgroups_per_core", launch.subgroups},
                                {"waves", launch.waves},
                                {"seconds", launch.seconds},
                                {"bound", to_string(launch.bound)}});
  }
  return json;
}

Json to_json(const Inspection& inspection) {
  Json json;
  json["model"] = inspection.model;
  json["format"] = inspection.format;
  json["architecture"] = inspection.architecture;
  const ModelFacts& facts = inspection.facts;
  json["quantisation"] = facts.quantisation.empty() ? Json() : Json(facts.quantisation);
  json["tokenizer"] = Json();
  if (facts.tokenizer)
    json["tokenizer"] = {{"kind", facts.tokenizer->kind}, {"tokens", facts.tokenizer->tokens}};
  json["chat_template"] = facts.chat_template;
  json["metadata"] = Json::object();
  for (const auto& [name, value] : facts.metadata) json["metadata"][name] = value;
  json["commands"] = inspection.commands;
  json["hyperparameters"] = Json::object();
  for (const Hyperparameter& each : inspection.hyperparameters)
    json["hyperparameters"][each.name] = each.value;
  json["parameters"] = {{"total", inspection.parameters()}, {"components", Json::array()}};
  for (const ComponentCount& each : inspection.components) {
    json["parameters"]["components"].push_back(
        {{"component", each.component},
         {"count", each.parameters},
         {"percent", share(each.parameters, inspection.parameters())}});
  }
  json["tensor_types"] = Json::array();
  for (const TypeCount& each : inspection.types) {
    json["tensor_types"].push_back({{"type", each.type}, {"tensors", each.tensors}, {"bytes", each.bytes}});
  }
  json["tensors_left_out"] = inspection.unread;
  json["memory"] = memory_json(inspection);
  if (!inspection.no_memory.empty()) json["memory_note"] = inspection.no_memory;
  return json;
}

} // namespace

void print_inspection(const Inspection& inspection, bool json) {
  const bool stages = !inspection.graph.empty() || !inspection.plan.empty();
  if (json) {
    Json object = to_json(inspection);
    if (!inspection.graph.empty()) object["graph"] = inspection.graph;
    if (!inspection.plan.empty()) object["plan"] = inspection.plan;
    if (inspection.forecast) object["forecast"] = to_json(*inspection.forecast);
    for (const ModelForecast& each : inspection.curve) object["curve"].push_back(to_json(each));
    if (const auto& measured = inspection.measured) {
      object["forecast"]["measured_seconds"] = {{"median", measured->median_seconds},
                                                {"least", measured->least_seconds}};
    }
    if (inspection.memory && inspection.memory->exact) object["device"] = inspection.memory->device;
    print_json(object, 2);
  } else if (stages) {
    const bool both = !inspection.graph.empty() && !inspection.plan.empty();
    print_result(folded(inspection.graph + (both ? "\n" : "") + inspection.plan, 7, stdout_columns()));
  } else {
    print_result(summary(inspection));
  }
}

} // namespace pumice::command
