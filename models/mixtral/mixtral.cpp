#include "models/mixtral/mixtral.h"
namespace pumice {
Result<std::unique_ptr<Definition>> open_mixtral(const ModelFile& file) {
  return Error{Code::unsupported, file.path()};
}
}
