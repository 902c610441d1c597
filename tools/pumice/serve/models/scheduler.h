#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "step/batch_groups.h"

namespace pumice::serve {

// Texts of one request, which run in the batch with those of others. The scheduler gives their tokens; the
// thread that answers the request takes them, and may stop one or all at any time.
class Texts {
public:
  struct Token {
    size_t text = 0; // among the request's
    BatchToken token;
  };
  // Waits for the next token. Nothing: none has come in so many seconds, or there are no more.
  Result<std::optional<Token>> next(double seconds);
  bool joined() const { return joined_; } // one of them is in the batch, or was
  bool ended() const;                     // all tokens were taken, and no more will come
  // The text needs no more tokens.
  void stop(size_t text);
  void stop_all();

private:
  friend class Scheduler;
  explicit Texts(size_t count) : stopped_(count), running_(count) {}

  bool is_stopped(size_t text) const;
  void give(size_t text, const BatchToken& token);
  void end(size_t text, const Status& status = {});

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Token> tokens_;
  std::vector<bool> stopped_;
  std::atomic<bool> joined_ = false;
  size_t running_;
  std::optional<Error> error_;
  bool out_of_memory_ = false; // so much so that there was none for the error
};

// Owns the batch of a model, on a thread of its own: texts join between the steps of others, and leave when
// nobody waits for them any more.
class Scheduler {
public:
  static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Model> model, SessionOptions options,
                                                   size_t most_waiting);
  ~Scheduler(); // ends all texts

  // The requests are what Batch::add() takes. not_ready where too many wait.
  Result<std::shared_ptr<Texts>> add(std::vector<SequenceRequest> requests);

  struct Figures {
    std::atomic<uint64_t> running = 0, waiting = 0;           // now
    std::atomic<uint64_t> texts = 0, stopped = 0, failed = 0; // so far
    std::atomic<uint64_t> prompt_tokens = 0, reused_tokens = 0, tokens = 0, steps = 0;
  };
  const Figures& figures() const { return figures_; }
  uint32_t context() const { return context_; }
  uint32_t sequences() const { return options_.size.sequences; }
  bool works() const { return !broken_; }

private:
  struct Waiting {
    std::shared_ptr<Texts> texts;
    size_t text = 0;
    SequenceRequest request;
  };
  struct Running {
    std::shared_ptr<Texts> texts;
    size_t text = 0;
    SequenceRequest request; // its prompt with what came after it, and the tokens that are left
    uint32_t id = 0;
    bool begun = false; // there was a token
  };

  Scheduler(std::shared_ptr<const Model> model, SessionOptions options, size_t most_waiting)
      : model_(std::move(model)), options_(std::move(options)), most_waiting_(most_waiting) {}
  Status make_batch();
  void run();
  bool work();
  void begin(Waiting& waiting);
  void remove_stopped();
  void step();
  Status take_step();
  void separate();
  void fail_all(const Error& error);

  const std::shared_ptr<const Model> model_;
  const SessionOptions options_;
  const size_t most_waiting_;
  const Error ended_{Code::cancelled, "the server is ending"}; // made while there is memory
  uint32_t context_ = 0;
  Figures figures_;
  std::atomic<bool> broken_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_; // a list moves on without memory
  bool ending_ = false;

  std::unique_ptr<BatchGroups> batch_; // the thread's own, like what follows
  std::list<Waiting> newcomers_;       // that have not joined
  std::list<Running> running_;
  std::thread thread_;
};

} // namespace pumice::serve
