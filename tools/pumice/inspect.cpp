#include "subcommand.h"
namespace pumice::command {
Subcommand add_inspect(CLI::App& app) {
  return {app.add_subcommand("inspect", "-"), [] {
            return Status(Error{Code::unsupported, "not there yet"});
          }};
}
} // namespace pumice::command
