#include "serve/http/server.h"

// In the place of server.cpp where Boost's headers are missing.
namespace pumice::serve {

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions&) {
  return Error{Code::unsupported,
               "this build has no server: Boost's headers (libboost-dev) were not there when it was made"};
}

} // namespace pumice::serve
