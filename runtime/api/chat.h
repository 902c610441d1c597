#pragma once

#include <cstdint>
#include <memory>

#include "api/live.h"
#include "api/pumice.h"
#include "task/chat.h"

namespace pumice::api {

// A conversation that the application has, and the text that answers it.
struct SharedChat {
  ModelChat talk;
  uint64_t model = 0;     // the identity of the one that it was made for
  bool answering = false; // a text answers it, which has not ended

  Status check_idle() const;
};

// An answer that a session or a batch gives to a chat. When it ends, in whatever way, what came of it becomes
// the chat's next message.
class OpenAnswer {
public:
  OpenAnswer(std::shared_ptr<SharedChat> chat, const ChatPrompt& prompt, std::vector<std::string> stops);
  ~OpenAnswer();
  OpenAnswer(const OpenAnswer&) = delete;
  OpenAnswer& operator=(const OpenAnswer&) = delete;

  ArrivingAnswer& answer() { return answer_; }
  // It is an answer even if nothing came.
  void complete() { complete_ = true; }

private:
  std::shared_ptr<SharedChat> chat_;
  ArrivingAnswer answer_;
  bool complete_ = false;
};

// What the application says that the local clock shows, in seconds; 0: the current time, UTC.
Result<std::tm> read_time(int64_t local_time);

} // namespace pumice::api

struct pumice_chat : pumice::api::Live<pumice_chat> {
  std::shared_ptr<pumice::api::SharedChat> shared;
};
