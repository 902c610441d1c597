#pragma once

#include <deque>

#include "support/embedding.h"
#include "support/files/temporary_folder.h"
#include "support/vulkan/external_vulkan.h"
#include "support/vulkan/faulty_vulkan.h"

// A program that uses Pumice while Vulkan calls fail, and recovers. Functions that return a status may fail;
// the others must succeed, and no fault is injected in them.
class FaultyProgram {
public:
  enum class Owner { pumice, application }; // of the device

  FaultyProgram(Owner owner, bool validate) : owner_(owner), validate_(validate) {}

  pumice_status open_device(pumice_error* error);
  pumice_status load(pumice_error* error) { return load(error, model_path); }
  pumice_status load(pumice_error* error, const std::string& path);
  pumice_status open_session(pumice_error* error);
  pumice_status start_session(pumice_error* error); // the same, on a thread of its own
  void open_world();                                // a new device and a model on it
  void open_all();                                  // and a session

  // A prompt in place of the conversation, or nothing new.
  void begin(const char* prompt, uint32_t max_tokens);
  // To the end of the text.
  pumice_status run(pumice_error* error) { return pumice_session_run(session.get(), error); }
  pumice_status advance(pumice_error* error);
  pumice_status record(pumice_error* error);
  // Into a text, with slices under way.
  void go_midway();
  Story story(); // what came since begin()

  // After an error: everything on a new device, where the old one is lost.
  void recover(pumice_status status);

  // For submissions and recordings.
  ExternalVulkan& application() { return *applications_.back(); }
  void wait_for_device();
  uint64_t allocated() const;

  std::string model_path = stories;
  std::string cache_folder;
  float budget_us = 300; // some dispatches

private:
  pumice_status keep(pumice_session* made, pumice_status status);

  Owner owner_;
  bool validate_;
  // The last one is in use; a lost one is destroyed once nothing uses it.
  std::deque<std::unique_ptr<ExternalVulkan>> applications_;
  Story story_;

public:
  DeviceHandle device;
  ModelHandle model;
  SessionHandle session;
};
