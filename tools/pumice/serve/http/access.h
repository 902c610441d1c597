#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/server.h"

namespace pumice::serve {

// Who may ask. Pages of other sites are kept out, also those that a name server sends to this machine (DNS
// rebinding): a request must name this server by an address, as localhost, or by a name that was given.
class Access {
public:
  std::vector<std::string> hosts;   // names beside these
  std::vector<std::string> origins; // of pages that may ask; "*": all
  struct Key {
    std::string secret;
    std::shared_ptr<KeyUse> use;
  };
  std::vector<Key> keys; // one of which a request must have; empty: none are asked for

  // Takes the keys of a file, one on each line, perhaps with limits: KEY requests=60 tokens=10000. What was
  // used of those that were there before stays counted. An error changes nothing.
  Status read_keys(const std::string& path);

  // Nothing: the request is welcome, and has its key.
  std::optional<Refusal> check(HttpRequest& request) const;
  // What a browser wants to see before it shows an answer to a page of another origin.
  HttpHeaders headers(const HttpRequest& request) const;

private:
  bool allows_host(std::string_view host) const;
  bool allows_origin(const HttpRequest& request, std::string_view origin) const;
  std::shared_ptr<KeyUse> key_of(const HttpRequest& request) const; // null: it has none
};

// In a time that depends on the length of what was given alone.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

} // namespace pumice::serve
