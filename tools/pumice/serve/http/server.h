#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "serve/http/exchange.h"

namespace pumice::serve {

struct ServerOptions {
  std::string host = "127.0.0.1"; // an address
  uint16_t port = 8080;           // 0: one that is free
  std::string socket;             // the path of a UNIX socket in place of these; empty: none
  uint32_t connections = 256;     // most at a time
  uint64_t body_bytes = 32 << 20; // most of a request
  double drain_seconds = 30;      // for the answers under way, once the server is to end
  double silence_seconds = 10;    // in a stream, before it shows that the server is there
};

// An answer that is known before a request's body is read.
struct Refusal {
  int status = 400;
  std::string body;
  HttpHeaders headers = {};
};

struct ServerFunctions {
  // Of a request without its body; nothing: it is welcome. On the thread that all connections share.
  std::function<std::optional<Refusal>(HttpRequest&)> admit;
  // Answers a request, on a thread of its own.
  std::function<void(Exchange&)> handle;
  // What is wrong with a request that is no HTTP, or too large, or late.
  std::function<std::string(int status, const std::string& sentence)> error_body;
  // Headers that all answers to a request have.
  std::function<HttpHeaders(const HttpRequest&)> headers;
  // SIGHUP: what files say is to be read again. On the same thread. Without it the signal is left alone.
  std::function<void()> reload;
  // The server is to end: no new requests are taken.
  std::function<void()> draining;
};

// Listens, and hands requests out. All of Boost is behind this.
class Server {
public:
  // unsupported in a build without Boost.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options);
  virtual ~Server() = default;

  virtual std::string address() const = 0; // http://127.0.0.1:8080
  // Until SIGTERM or SIGINT, and then until the answers under way have ended; a second signal ends them.
  virtual Status run(ServerFunctions functions) = 0;
  virtual uint32_t connections() const = 0; // from any thread
};

} // namespace pumice::serve
