#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "support/embedding.h"

// Translators and transcribers as a program uses them. A failure fails the test.

inline TranslatorHandle make_translator(pumice_model* model, uint32_t beams, uint32_t max_tokens = 0) {
  pumice_writing_options writing = {sizeof writing};
  writing.beams = beams;
  writing.max_tokens = max_tokens;
  pumice_translator_options options = {sizeof options};
  options.writing = &writing;
  pumice_translator* made = nullptr;
  pumice_error error;
  require_ok(pumice_translator_create(model, &options, &made, &error), error);
  return TranslatorHandle(made);
}

inline TranscriberHandle make_transcriber(pumice_model* model, uint32_t beams) {
  pumice_transcriber_options options = {sizeof options};
  options.no_fallback = true;
  options.max_tokens = 12;
  options.beams = beams;
  pumice_transcriber* made = nullptr;
  pumice_error error;
  require_ok(pumice_transcriber_create(model, &options, &made, &error), error);
  return TranscriberHandle(made);
}

inline CaptionerHandle make_captioner(pumice_model* model, uint32_t beams, uint32_t max_tokens) {
  pumice_writing_options writing = {sizeof writing};
  writing.beams = beams;
  writing.max_tokens = max_tokens;
  pumice_captioner_options options = {sizeof options};
  options.writing = &writing;
  pumice_captioner* made = nullptr;
  pumice_error error;
  require_ok(pumice_captioner_create(model, &options, &made, &error), error);
  return CaptionerHandle(made);
}

inline void begin(pumice_translator* translator, const char* text) {
  pumice_error error;
  require_ok(pumice_translator_begin(translator, &text, 1, &error), error);
}
inline void begin(pumice_captioner* captioner, const pumice_input& picture) {
  pumice_error error;
  require_ok(pumice_captioner_begin(captioner, &picture, 1, &error), error);
}

inline pumice_status read(pumice_translator* translator, std::string& text, pumice_error* error) {
  const pumice_translation* translation = nullptr;
  const pumice_status status = pumice_translator_result(translator, 0, &translation, error);
  if (status == PUMICE_OK) text = translation->texts->text;
  return status;
}
inline pumice_status read(pumice_captioner* captioner, std::string& text, pumice_error* error) {
  const pumice_written* texts = nullptr;
  size_t count = 0;
  const pumice_status status = pumice_captioner_result(captioner, 0, &texts, &count, error);
  if (status == PUMICE_OK) text = texts->text;
  return status;
}
// The best text of the last input.
template <class Writer>
std::string read(Writer* writer) {
  std::string text;
  pumice_error error;
  require_ok(read(writer, text, &error), error);
  return text;
}

// In whole steps.
inline std::string write(pumice_translator* translator, const char* text) {
  pumice_error error;
  require_ok(pumice_translator_translate(translator, &text, 1, &error), error);
  return read(translator);
}
inline std::string write(pumice_captioner* captioner, const pumice_input& picture) {
  pumice_error error;
  require_ok(pumice_captioner_caption(captioner, &picture, 1, &error), error);
  return read(captioner);
}

// Slices until there is no more to do. Returns the number of those that were not empty.
inline uint32_t run_slices(const std::function<pumice_status(pumice_slice*, pumice_error*)>& advance) {
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  uint32_t slices = 0;
  const auto start = std::chrono::steady_clock::now();
  do {
    require_ok(advance(&slice, &error), error);
    slices += slice.dispatches > 0;
    if (slice.dispatches == 0) std::this_thread::yield();
    REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
  } while (slice.active);
  return slices;
}

inline uint32_t advance_to_the_end(pumice_translator* translator, float budget) {
  return run_slices([&](pumice_slice* slice, pumice_error* error) {
    return pumice_work_advance(pumice_translator_work(translator), budget, nullptr, slice, error);
  });
}
inline uint32_t advance_to_the_end(pumice_captioner* captioner, float budget) {
  return run_slices([&](pumice_slice* slice, pumice_error* error) {
    return pumice_work_advance(pumice_captioner_work(captioner), budget, nullptr, slice, error);
  });
}
