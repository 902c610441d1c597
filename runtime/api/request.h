#pragma once

#include <string>
#include <vector>

#include "api/pumice.h"
#include "generate/session.h"
#include "text/tokenizer.h"

namespace pumice::api {

// What the application asks for, checked.
struct TextRequest {
  GenerationRequest generation;
  std::vector<std::string> stops; // strings that end the text
};

// Reads a request to go on with a conversation of so many tokens. `tokenizer` may be null.
Result<TextRequest> read_request(const pumice_request& given, const Model& model, const Tokenizer* tokenizer,
                                 size_t conversation, uint32_t context);

} // namespace pumice::api
