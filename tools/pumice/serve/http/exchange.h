#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/http/key_use.h"

namespace pumice::serve {

struct HttpRequest {
  std::string method;
  std::string path; // as it was sent, without what follows a question mark
  std::map<std::string, std::string, std::less<>> headers; // their names in lower case
  std::string body;
  std::shared_ptr<KeyUse> key; // that it was sent with; null: none was asked for

  // The value of a header; empty if there is none.
  std::string_view header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A request, and the answer to it: whole, or in pieces. Used by one thread, which may wait.
class Exchange {
public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  // Whether nobody waits for the answer any more.
  virtual bool gone() const = 0;
  // Calls the function when that happens, on another thread and possibly at once. Set an empty one before
  // what it uses goes away.
  virtual void when_gone(std::function<void()> call) = 0;

  virtual void answer(int status, std::string_view type, std::string body,
                      const HttpHeaders& headers = {}) = 0;
  // Begins an answer in pieces. Its end is that of the exchange.
  virtual void begin(int status, std::string_view type) = 0;
  // Waits while the client reads too slowly. False: it is gone.
  virtual bool write(std::string_view piece) = 0;
  virtual bool begun() const = 0; // either was called
  // From now on, while there is nothing else to send for some seconds, `sign` is sent, which clients pass
  // over: an answer in pieces that has not begun begins with it, with the status 200. Until show_no_life(),
  // or the answer's end.
  virtual void show_life(std::string_view type, std::string sign) = 0;
  virtual void show_no_life() = 0; // begun() does not change by itself any more
  // An answer in pieces has ended with this error, which the client was told of in one.
  virtual void failed(const Error& /*error*/) {}
  // What an answer in pieces has come to is not all of it, which the client is to see from its end.
  virtual void cut() = 0;
};

} // namespace pumice::serve
