#include "serve/models/served_kind.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "model/vocabulary.h"
#include "task/chat.h"
#include "task/model_kind.h"
#include "task/spans/tagger.h"
#include "task/speaking/speaker.h"

namespace pumice::serve {

Result<ServedKind> ServedKind::read(const OpenedModel& opened) {
  const std::vector<std::string> uses = subcommands_for(opened.file, *opened.definition);
  const auto has = [&](const char* use) { return std::ranges::count(uses, use) > 0; };
  const ModelShape shape = opened.definition->shape();
  const bool one_label = !shape.encoder || shape.encoder->labels.size() <= 1;
  ServedKind kind;
  kind.architecture = opened.file.architecture();
  kind.context = shape.has_decoder() ? shape.context : shape.encoder ? shape.encoder->context : 0;
  if (has("rerank") && !has("run") && one_label) {
    kind.of = Of::ranks;
  } else if (has("classify") && !has("run") && !shape.shared_space) {
    kind.of = TaggerPlan::of(opened.file, {}).ok() ? Of::spans : Of::classes;
    kind.of_pictures = shape.encoder && shape.encoder->kind != InputKind::tokens;
  } else if (has("search")) { // vectors of texts
    kind.of = Of::vectors;
    kind.takes_labels = kind.of_pictures = shape.shared_space && has("classify");
  } else if (has("translate")) {
    kind.of = Of::translation;
  } else if (has("transcribe") && !shape.pictures) {
    kind.of = Of::speech;
  } else if (shape.has_decoder() && shape.encoder && shape.encoder->kind == InputKind::pixels) {
    kind.of = Of::captions;
  } else if (std::error_code ignored;
             has("speak") && std::filesystem::exists(usual_codec_path(opened.file), ignored)) {
    kind.of = Of::voice;
  } else {
    PUMICE_CHECK(check_continues_text(opened.file, shape));
    PUMICE_TRY(const std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
    PUMICE_TRY(const ChatTemplates templates, ChatTemplates::of(opened.file));
    PUMICE_TRY(const ChatMedia media, ChatMedia::open(opened.file, shape));
    kind.chats = !templates.empty();
    kind.sees = media.has_vision();
    kind.hears = media.hears();
    kind.transcribes = has("transcribe");
    if (Result<ChatTemplate> chosen = templates.choose("", true); chosen.ok()) {
      const Result<ModelChat> chat = ModelChat::open(opened.file, shape, *std::move(chosen), tokenizer,
                                                     {fmt::localtime(std::time(nullptr)), 0, ""});
      kind.calls = chat.ok() && chat->chat().written_call().ok();
    }
  }
  return kind;
}

const char* ServedKind::name() const {
  switch (of) {
  case Of::text:
    return "text";
  case Of::vectors:
    return "vectors";
  case Of::ranks:
    return "ranks";
  case Of::classes:
    return "classes";
  case Of::spans:
    return "spans";
  case Of::translation:
    return "translation";
  case Of::captions:
    return "captions";
  case Of::speech:
    return "speech";
  case Of::voice:
    return "voice";
  }
  return "";
}

bool ServedKind::can(Use use) const {
  switch (use) {
  case Use::any:
    return true;
  case Use::text:
    return of == Of::text;
  case Use::chat:
    return of == Of::text && chats;
  case Use::vectors:
    return of == Of::vectors;
  case Use::ranks:
    return of == Of::ranks;
  case Use::classes:
    return of == Of::classes || of == Of::spans || takes_labels;
  case Use::translation:
    return of == Of::translation;
  case Use::captions:
    return of == Of::captions;
  case Use::speech:
    return of == Of::speech || transcribes;
  case Use::voice:
    return of == Of::voice;
  }
  return false;
}

const char* cannot(ServedKind::Use use) {
  using Use = ServedKind::Use;
  switch (use) {
  case Use::chat:
    return "has no chat template";
  case Use::vectors:
    return "was not made for vectors";
  case Use::ranks:
    return "does not rank texts";
  case Use::classes:
    return "has no labels";
  case Use::translation:
    return "does not translate";
  case Use::captions:
    return "does not caption pictures";
  case Use::speech:
    return "does not write down speech";
  case Use::voice:
    return "does not speak";
  default:
    return "does not continue texts";
  }
}

std::string ServedKind::refusal(Use use) const {
  const auto does = [&] {
    switch (of) {
    case Of::text:
      return sees    ? "it answers chats, with pictures too: /v1/chat/completions"
             : hears ? "it answers chats, with sounds too: /v1/chat/completions"
             : chats ? "it answers chats: /v1/chat/completions"
                     : "it continues texts: /v1/completions";
    case Of::vectors:
      return takes_labels ? "it makes vectors, and finds labels of yours: /v1/embeddings, /classify"
                          : "it makes vectors: /v1/embeddings";
    case Of::ranks:
      return "it ranks texts: /v1/rerank";
    case Of::classes:
    case Of::spans:
      return "it finds labels: /classify";
    case Of::translation:
      return "it translates: /translate";
    case Of::captions:
      return "it captions pictures: /caption";
    case Of::speech:
      return "it writes down speech: /v1/audio/transcriptions";
    case Of::voice:
      return "it speaks: /v1/audio/speech";
    }
    return "";
  };
  return fmt::format("{}: {}", cannot(use), does());
}

} // namespace pumice::serve
