#include <csignal>

#include <fmt/format.h>

#include "base/path.h"
#include "input/input_stream.h"
#include "loading/open_device.h"
#include "options/adapter_options.h"
#include "options/subcommand.h"
#include "process/processes.h"
#include "serve/http/access.h"
#include "serve/http/error.h"
#include "serve/http/server.h"
#include "serve/routes/service.h"
#include "task/generated_text.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct ServeOptions {
  std::vector<std::string> models, names;
  serve::ServerOptions server;
  serve::Access access;
  std::string keys;                // a file; empty: none are asked for
  std::string folder;              // of models that are loaded on demand; empty: none
  std::vector<std::string> voices; // files
  serve::ServedModels::Limits limits;
  uint32_t body_mebibytes = 32;
  serve::ModelOptions model;
  DeviceOptions device;
};

Status run_server(const ServeOptions& given) {
  ServeOptions options = given;
  if (options.models.empty() && options.folder.empty()) {
    return Error{Code::invalid_argument,
                 "there is no model: give MODEL, or a folder of models with --models"};
  }
  if (options.names.size() > options.models.size()) {
    return Error{Code::invalid_argument, fmt::format("--alias has {} names for {} models",
                                                     options.names.size(), options.models.size())};
  }
  if ((others() || !options.device.devices.empty()) &&
      (options.models.size() != 1 || !options.folder.empty())) {
    return Error{Code::invalid_argument, "a server on several devices has one model: give one MODEL, and "
                                         "leave --models out"};
  }
  options.names.resize(options.models.size());
  if (!options.keys.empty()) {
    PUMICE_CHECK(options.access.read_keys(options.keys));
  }
  for (const std::string& path : options.voices) {
    PUMICE_TRY(std::string voice, read_text(path));
    const std::string name = path_text(path_of(path).stem());
    if (!options.model.voices.emplace(name, std::move(voice)).second || name == "default") {
      return Error{
          Code::invalid_argument,
          fmt::format("--voice {}: there is a voice '{}' already: give the file another name", path, name)};
    }
  }
  options.server.body_bytes = uint64_t{options.body_mebibytes} << 20;
  // First, so that it is known before the models are loaded whether the port is free.
  PUMICE_TRY(const std::unique_ptr<serve::Server> server, serve::Server::listen(options.server));
  PUMICE_TRY(const OpenedDevice device, open_device(options.device));
  serve::Service service(device, options.model, options.limits);
  service.connections = [&server] { return server->connections(); };
  for (size_t i = 0; i < options.models.size(); ++i)
    PUMICE_CHECK(service.models.load(options.models[i], options.names[i]));
  if (!options.model.search.empty() && !service.models.searches()) {
    return Error{Code::invalid_argument, "--search: none of the models makes vectors of texts: give one that "
                                         "pumice search takes"};
  }
  if (!options.model.adapters.empty() && !service.models.adapts()) {
    return Error{Code::invalid_argument,
                 "--lora: none of the models continues texts: give one that pumice run "
                 "takes"};
  }
  if (!options.folder.empty()) {
    PUMICE_CHECK(service.models.add_folder(options.folder));
  }
  if (!options.voices.empty() && options.folder.empty() && !service.models.speaks()) {
    return Error{Code::invalid_argument,
                 "--voice: none of the models speaks: give one that pumice speak takes"};
  }
  const bool loopback = options.server.host == "localhost" || options.server.host == "::1" ||
                        options.server.host.starts_with("127.") || !options.server.socket.empty();
  if (!loopback && options.access.keys.empty())
    print_note("others can reach this server, and it asks for no key: --api-key-file names a file of keys");
  print_result(fmt::format("listening on {}\n", server->address()));
  serve::ServerFunctions functions;
  functions.admit = [&](serve::HttpRequest& request) { return options.access.check(request); };
  functions.handle = [&](serve::Exchange& exchange) { serve::answer(service, exchange); };
  functions.error_body = serve::error_body;
  functions.headers = [&](const serve::HttpRequest& request) { return options.access.headers(request); };
  if (!options.keys.empty() || !options.folder.empty()) {
    functions.reload = [&] {
      if (!options.folder.empty()) service.models.reload();
      if (options.keys.empty()) return;
      const Status status = guarded([&] { return options.access.read_keys(options.keys); });
      print_note(status.ok() ? "SIGHUP: the keys were read again" : "SIGHUP: " + status.error().text());
    };
  }
  functions.draining = [&] {
    service.draining = true;
    print_note("ending, once the answers under way are complete; a second signal ends them");
  };
  PUMICE_CHECK(server->run(std::move(functions)));
  return device.save_pipelines();
}

} // namespace

Subcommand add_serve(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("serve", "Answer the requests of other programs, over HTTP.");
  auto options = std::make_shared<ServeOptions>();
  sub->add_option("MODEL", options->models, "GGUF files or Hugging Face folders")->type_name("");
  sub->add_option("--models", options->folder,
                  "A folder: each model below it is loaded when a request names it")
      ->type_name("DIR")
      ->group("Server");
  sub->add_option("--models-memory", options->limits.memory,
                  "Most device memory of all models, such as 4G. Where one of --models needs more, others of "
                  "them are let go, the least recently used first (default: 80% of what is free)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->group(more_of("Server"));
  sub->add_option("--idle-minutes", options->limits.idle_minutes,
                  "Minutes without a request after which a model of --models is let go; 0: never")
      ->type_name("N")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str()
      ->group(more_of("Server"));
  sub->add_option("--host", options->server.host, "The address to listen on; 0.0.0.0 lets others in")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->group("Server");
  sub->add_option("--port", options->server.port, "The port. 0 takes one that is free")
      ->type_name("N")
      ->capture_default_str()
      ->group("Server");
  sub->add_option("--socket", options->server.socket, "Listen on a UNIX socket in place of these")
      ->type_name("PATH")
      ->group(more_of("Server"));
  sub->add_option("--api-key-file", options->keys, "A file of keys, one of which requests must have")
      ->type_name("FILE")
      ->group("Server");
  const auto repeated = [](CLI::Option* option) {
    return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  repeated(
      sub->add_option("--allow-host", options->access.hosts,
                      "A name of this machine, beside localhost and addresses, that requests may use. Can "
                      "be given more than once"))
      ->type_name("NAME")
      ->group(more_of("Server"));
  repeated(
      sub->add_option("--allow-origin", options->access.origins,
                      "The origin of a page that may ask this server, such as https://example.com; '*' is "
                      "every page. Can be given more than once"))
      ->type_name("ORIGIN")
      ->group(more_of("Server"));
  repeated(
      sub->add_option("--alias", options->names,
                      "The name that requests have for a model, in place of its file's. The first is the "
                      "first model's"))
      ->type_name("NAME")
      ->group(more_of("Server"));
  sub->add_option("--search", options->model.search,
                  "A folder with text files, among whose passages POST /search finds the best. The first "
                  "model for vectors reads them when the server starts, and keeps their vectors in "
                  "FOLDER.index, as pumice search does")
      ->type_name("FOLDER")
      ->group(more_of("Server"));
  repeated(sub->add_option("--voice", options->voices,
                           "A voice that models speak with (POST /v1/audio/speech), by the name of its file: "
                           "a profile of OuteTTS, version 3, as JSON. Can be given more than once"))
      ->type_name("FILE")
      ->group(more_of("Server"));
  sub->add_option("--keep-alive", options->server.silence_seconds,
                  "Seconds of silence in a stream after which it shows that the server is there")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str()
      ->group(more_of("Server"));
  sub->add_option("--connections", options->server.connections, "Maximum number of connections at a time")
      ->type_name("N")
      ->check(within(1u, 65536u))
      ->capture_default_str()
      ->group(more_of("Server"));
  sub->add_option("--max-body", options->body_mebibytes, "The most MiB of a request")
      ->type_name("MIB")
      ->check(within(1u, 1024u))
      ->capture_default_str()
      ->group(more_of("Server"));
  sub->add_option("--drain", options->server.drain_seconds,
                  "Seconds for the answers under way, after SIGTERM or Ctrl-C")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str()
      ->group(more_of("Server"));
  sub->add_option("--sequences", options->model.sequences,
                  "Most texts that are continued at the same time (default: 32, with room for the keys and "
                  "values of 8 whole contexts; 8 on several devices)")
      ->type_name("N")
      ->check(within(1u, 1024u))
      ->group("Server");
  sub->add_option("--waiting", options->model.most_waiting,
                  "Maximum number of texts that wait or run; a request beyond them is refused")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->capture_default_str()
      ->group(more_of("Server"));
  add_adapter_option(*sub, options->model.adapters);
  add_sampling_options(*sub, options->model.sampling, usual_sampling());
  add_size_options(*sub, options->model.size, "f16");
  add_settings_options(*sub, options->model.size.load);
  add_drafts_option(*sub, options->model.size);
  add_max_stall_option(*sub, options->model.size);
  add_cache_tokens_option(*sub, options->model.size);
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice serve model.gguf --port 8080"));
  const auto serve_stage_of = [options] {
    // What asks the server to end, or to read files again, may reach all processes. The answers that the
    // first one completes take all of them, and it tells them when it ends.
    for (const int each : {SIGINT, SIGTERM}) std::signal(each, SIG_IGN);
#ifdef SIGHUP
    std::signal(SIGHUP, SIG_IGN);
#endif
    const std::string& model = options->models.empty() ? options->folder : options->models.front();
    return serve_stage(model, options->device, options->model.size.load);
  };
  return {sub,
          [options] { return run_server(*options); },
          {{"MODEL", "--models", "--api-key-file"}, {}},
          serve_stage_of,
          &options->device.timeout};
}

} // namespace pumice::command
