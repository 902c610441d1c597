#include <fmt/format.h>

#include "serve/page/page.h"
#include "serve/routes/service.h"

namespace pumice::serve {

namespace {

// The value of a label in Prometheus' text.
std::string label(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

} // namespace

Status health(Service& service, Exchange& exchange) {
  bool works = !service.draining;
  size_t models = 0, loaded = 0;
  service.models.list([&](const ServedModels::Listed& each) {
    ++models;
    loaded += each.model != nullptr;
    works = works && (!each.model || !each.model->text || each.model->text->scheduler().works());
  });
  const char* state = works ? "ok" : service.draining ? "draining" : "failed";
  // No names: no key is asked for here.
  const Json body = {{"status", state}, {"models", models}, {"loaded", loaded}};
  exchange.answer(works ? 200 : 503, "application/json", text_of(body) + "\n");
  return {};
}

Status slots(Service& service, Exchange& exchange) {
  Json list = Json::array();
  const auto now = std::chrono::steady_clock::now();
  for (const std::shared_ptr<const Slot>& each : service.slots.now()) {
    list.push_back({{"id", each->id},
                    {"model", each->model},
                    {"route", each->route},
                    {"state", each->state()},
                    {"prompt_tokens", each->prompt_tokens},
                    {"tokens", each->tokens.load()},
                    {"seconds", std::chrono::duration<double>(now - each->begun).count()}});
  }
  answer_json(exchange, {{"slots", std::move(list)}});
  return {};
}

Status metrics(Service& service, Exchange& exchange) {
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  };
  head("pumice_answers_total", "counter", "Answers by route and status");
  {
    const std::lock_guard lock(service.mutex);
    for (const auto& [key, count] : service.answers)
      text += fmt::format("pumice_answers_total{{route=\"{}\",status=\"{}\"}} {}\n", label(key.first),
                          key.second, count);
  }
  head("pumice_connections", "gauge", "Open connections");
  text += fmt::format("pumice_connections {}\n", service.connections());
  const auto [used, most] = service.models.memory();
  head("pumice_memory_bytes", "gauge", "Memory of the device that is taken");
  text += fmt::format("pumice_memory_bytes {}\n", used);
  head("pumice_memory_limit_bytes", "gauge", "Most of it that models may take");
  text += fmt::format("pumice_memory_limit_bytes {}\n", most);
  head("pumice_model_loaded", "gauge", "Whether a model is loaded");
  service.models.list([&](const ServedModels::Listed& each) {
    text += fmt::format("pumice_model_loaded{{model=\"{}\"}} {}\n", label(each.name), each.model ? 1 : 0);
  });
  head("pumice_model_loads_total", "counter", "How often it was loaded");
  service.models.list([&](const ServedModels::Listed& each) {
    text += fmt::format("pumice_model_loads_total{{model=\"{}\"}} {}\n", label(each.name), each.loads);
  });
  struct Row {
    const char *name, *type, *help;
    std::atomic<uint64_t> Scheduler::Figures::*value;
  };
  using Figures = Scheduler::Figures;
  constexpr Row rows[] = {
      {"pumice_texts_running", "gauge", "Texts in the batch now, those that wait for a place there included",
       &Figures::running},
      {"pumice_texts_waiting", "gauge", "Texts that wait to join the batch", &Figures::waiting},
      {"pumice_texts_total", "counter", "Texts that were begun", &Figures::texts},
      {"pumice_texts_stopped_total", "counter", "Texts that were ended by a stop string or the client's end",
       &Figures::stopped},
      {"pumice_texts_failed_total", "counter", "Texts that failed", &Figures::failed},
      {"pumice_prompt_tokens_total", "counter", "Tokens of prompts", &Figures::prompt_tokens},
      {"pumice_reused_tokens_total", "counter", "Those of them that were not computed again",
       &Figures::reused_tokens},
      {"pumice_tokens_total", "counter", "Tokens that were generated", &Figures::tokens},
      {"pumice_steps_total", "counter", "Steps of the batch", &Figures::steps},
  };
  for (const Row& row : rows) {
    head(row.name, row.type, row.help);
    service.models.list([&](const ServedModels::Listed& each) {
      if (!each.model || !each.model->text) return;
      text += fmt::format("{}{{model=\"{}\"}} {}\n", row.name, label(each.name),
                          (each.model->text->scheduler().figures().*row.value).load());
    });
  }
  exchange.answer(200, "text/plain; version=0.0.4", std::move(text));
  return {};
}

Status document(Service&, Exchange& exchange) {
  exchange.answer(200, "application/json", std::string(openapi_source));
  return {};
}

Status page(Service&, Exchange& exchange) {
  const std::string nonce = new_id("n");
  exchange.answer(
      200, "text/html; charset=utf-8", page_text(nonce),
      {{"Content-Security-Policy",
        fmt::format(
            "default-src 'none'; script-src 'nonce-{}'; style-src 'nonce-{}'; connect-src 'self'; "
            "img-src data:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            nonce, nonce)},
       {"Referrer-Policy", "no-referrer"}});
  return {};
}

} // namespace pumice::serve
