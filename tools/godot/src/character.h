// PumiceCharacter: a chat that remembers.
#pragma once

#include <map>

#include "chat.h"
#include "vectors.h"

namespace godot {

class Character : public Chat {
public:
  using Chat::Chat;
  ~Character() override { leave(); }
  static std::unique_ptr<Class> make_class(const Class& chat);
  void release() override {
    Chat::release();
    embedding_.forget();
    memory_ = {};
  }

protected:
  Settings settings() override;
  std::string system_message(const Settings& settings, const std::string& question) override;

private:
  // What of this is remembered, in a copy that the worker reads.
  struct Memory {
    std::vector<std::string> texts;
    Loading model; // of vectors; may be not valid
    std::string heading;
    size_t count = 0;
    float budget_us = 0; // for vectors
  };
  Memory memory() const;
  void recall(const std::string& question, size_t count);
  // On the worker: the best memories for a question, best first; without a model of vectors, those that share
  // most words with it, and of these the latest.
  std::vector<std::string> best(const Memory& memory, const std::string& question, size_t count);

  std::mutex memory_mutex_;
  Memory memory_; // as it was when the last question was asked
  Embedding embedding_;
  std::map<std::string, std::vector<float>> vectors_; // of memories, as far as they were needed
};

} // namespace godot
