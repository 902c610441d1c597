#pragma once

#include <string>

#include "model/model.h"

namespace pumice::serve {

// What requests a model is for, which its files say: it need not be loaded.
struct ServedKind {
  enum class Of { text, vectors, ranks, classes, spans, translation, captions, speech, voice };
  Of of = Of::text;
  std::string architecture;
  uint32_t context = 0;      // tokens that the model was made for; 0: its files do not say
  bool chats = false;        // a text model with a template
  bool sees = false;         // and pictures in its chats
  bool hears = false;        // or sounds
  bool transcribes = false;  // and writes down speech, too
  bool calls = false;        // and a way to write calls of tools that is known
  bool of_pictures = false;  // its classes
  bool takes_labels = false; // vectors of texts and pictures: classes of pictures by labels of the request

  // unsupported for a model that this server has no use for.
  static Result<ServedKind> read(const OpenedModel& opened);
  const char* name() const;

  // What a request wants of a model.
  enum class Use { any, text, chat, vectors, ranks, classes, translation, captions, speech, voice };
  bool can(Use use) const;
  // "has no chat template: it continues texts: /v1/completions": what it cannot do, and what it does instead.
  std::string refusal(Use use) const;
};
// "has no chat template", of any model.
const char* cannot(ServedKind::Use use);

} // namespace pumice::serve
