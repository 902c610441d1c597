#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "support/embedding.h"

// Translators and transcribers as a program uses them. A failure fails the test.

inline TranslatorHandle make_translator(pumice_model* model, uint32_t beams, uint32_t output_tokens = 0) {
  pumice_translator_options options = {sizeof options};
  options.beams = beams;
  options.output_tokens = output_tokens;
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

inline pumice_input text_input(const char* text) {
  pumice_input input = {sizeof input};
  input.text = text;
  return input;
}

inline void begin(pumice_translator* translator, const pumice_input& input) {
  pumice_error error;
  require_ok(pumice_translator_begin(translator, &input, &error), error);
}

inline std::string read(pumice_translator* translator) {
  char text[4096] = "";
  size_t count = 0;
  pumice_error error;
  require_ok(pumice_translator_read(translator, text, sizeof text, &count, &error), error);
  CHECK(count == std::string(text).size());
  return text;
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
