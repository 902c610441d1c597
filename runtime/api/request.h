#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/chat.h"
#include "api/pumice.h"
#include "form/form_vocabulary.h"
#include "generate/session.h"
#include "text/tokenizer.h"

namespace pumice::api {

class AdapterList;

// What the application asks for, checked.
struct TextRequest {
  GenerationRequest generation;
  std::vector<std::string> stops;   // strings that end the text
  std::shared_ptr<SharedChat> chat; // that the text answers; null: none
  // Of the chat. Until put_pictures(), generation.tokens has as many tokens as the prompt will have, and no
  // more can be said of them.
  ModelChat::Prompt prompt;

  bool encoded() const { return prompt.encoded(); } // all pictures have rows
  // Puts the rows of all pictures into the prompt, where there are pictures.
  Status put_pictures();
  // Of the chat's answer, once the text has begun; null without a chat.
  std::unique_ptr<OpenAnswer> open() const {
    return chat ? std::make_unique<OpenAnswer>(chat, prompt.text, stops) : nullptr;
  }
};

// What requests are read for.
struct RequestReader {
  const Model& model;
  const Tokenizer* tokenizer = nullptr; // may be null
  LazyFormVocabulary* forms = nullptr;  // of the tokenizer
  const std::vector<uint32_t>& ends;    // the model's own
  uint32_t context = 0;
  const AdapterList* adapters = nullptr; // of the model
};

// How tokens are chosen. `ends`: end a text, too. `name` names it in messages.
Result<SamplingParams> read_sampling(const pumice_sampling& sampling, uint32_t vocabulary,
                                     const Tokenizer* tokenizer, std::vector<uint32_t> ends,
                                     const std::string& name);

// A form with everything that is said of it checked; `name` names it in messages. Null: none.
Result<FormSource> read_form(const pumice_form* given, const std::string& name);

// Reads a request to go on with a conversation of so many tokens.
Result<TextRequest> read_request(const pumice_request& request, const RequestReader& reader,
                                 size_t conversation);

} // namespace pumice::api
