#pragma once

#include <memory>
#include <string>
#include <vector>

#include "media/image.h"
#include "support/embedding.h"

// Chats of the C interface.
using ChatHandle = std::unique_ptr<pumice_chat, Destroy<pumice_chat_destroy>>;

inline ChatHandle make_chat(pumice_model* model,
                            pumice_chat_options options = {sizeof(pumice_chat_options)}) {
  pumice_chat* chat = nullptr;
  pumice_error error;
  require_ok(pumice_chat_create(model, &options, &chat, &error), error);
  return ChatHandle(chat);
}

inline ChatHandle make_chat(pumice_model* model, const char* template_text) {
  pumice_chat_options options = {sizeof options};
  options.template_text = template_text;
  return make_chat(model, options);
}

// What pumice_chat_write or pumice_chat_prompt writes.
template <class Function>
std::string text_of(Function function, const pumice_chat* chat) {
  pumice_error error;
  size_t count = 0;
  require_ok(function(chat, nullptr, 0, &count, &error), error);
  std::string text(count + 1, '\0');
  require_ok(function(chat, text.data(), text.size(), &count, &error), error);
  text.resize(count);
  return text;
}

// The pixels stay the image's.
inline pumice_picture picture_of(const pumice::Image& image) {
  pumice_picture picture = {sizeof picture};
  picture.pixels = image.pixels.data();
  picture.width = image.width;
  picture.height = image.height;
  return picture;
}

// The bytes stay the file's.
inline pumice_picture picture_of(const std::vector<std::byte>& file) {
  pumice_picture picture = {sizeof picture};
  picture.file = file.data();
  picture.file_bytes = file.size();
  return picture;
}
