#include "process/replicas.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/guarded.h"
#include "input/answered_lines.h"
#include "input/line_message.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

using Kind = LineMessage::Kind;

// Lines that were handed out, and which copy has ended with what. Used by several threads.
class Dealer {
public:
  explicit Dealer(uint32_t replicas) : errors_(replicas) {}

  struct Dealt {
    std::vector<Line> lines;
    bool ended = false;
  };

  void read_with(const LineReader& reader) {
    const std::lock_guard lock(mutex_);
    if (!read_) reader_ = reader;
    read_ = true;
  }
  void stop_reading() {
    const std::lock_guard lock(mutex_);
    read_ = true;
    reader_.reset();
  }

  Result<Dealt> deal(uint32_t replica, size_t most, bool wait) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        read(most);
        Dealt dealt = take(replica, most);
        if (dealt.ended || !dealt.lines.empty() || !wait) return dealt;
      }
      if (interrupted()) return interruption();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void result(uint64_t number, std::string text) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(dealt_, number, &Open::number);
    if (found != dealt_.end()) found->result = std::move(text);
    write_results();
  }

  Status unfinished(const UnfinishedLines& lines) {
    const std::lock_guard lock(mutex_);
    return note_unfinished(lines);
  }

  void ended(uint32_t replica, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) errors_[replica] = status.error();
    stopped_ = stopped_ || !status.ok();
  }

  // Once all have ended: the error of the copy that had the first line without a result, or any other.
  Status outcome() const {
    const std::lock_guard lock(mutex_);
    if (!dealt_.empty() && errors_[dealt_.front().replica]) return *errors_[dealt_.front().replica];
    for (const std::optional<Error>& error : errors_) {
      if (error) return *error;
    }
    if (failed_) return *failed_;
    return {};
  }

private:
  // A line without a result, or behind one.
  struct Open {
    uint64_t number = 0;
    uint32_t replica = 0;
    std::optional<std::string> result;
  };

  // Those whose turn has come.
  void write_results() {
    while (!dealt_.empty() && dealt_.front().result) {
      write_result(*dealt_.front().result);
      const Status noted = note_answered(dealt_.front().number);
      if (!noted.ok() && !failed_) failed_ = noted.error();
      dealt_.pop_front();
    }
  }

  // Some lines more than one copy takes, so that all get as many at the end.
  void read(size_t most) {
    while (reader_ && !failed_ && waiting_.size() < most * errors_.size() && !reader_->ended()) {
      Result<std::vector<DealtLine>> lines = reader_->next(most);
      if (!lines.ok()) {
        failed_ = std::move(lines).error();
      } else if (lines->empty()) {
        break;
      } else {
        std::ranges::move(*lines, std::back_inserter(waiting_));
      }
    }
  }

  Dealt take(uint32_t replica, size_t most) {
    Dealt dealt;
    const size_t share = (waiting_.size() + errors_.size() - 1) / errors_.size();
    const size_t count = stopped_ ? 0 : std::min(share, most);
    for (size_t i = 0; i < count; ++i) {
      DealtLine& next = waiting_.front();
      dealt_.push_back({next.line.number, replica, next.result});
      if (!next.result) dealt.lines.push_back(std::move(next.line));
      waiting_.pop_front();
    }
    write_results();
    const bool no_more = failed_ || (read_ && (!reader_ || reader_->ended()));
    dealt.ended = stopped_ || (waiting_.empty() && no_more);
    return dealt;
  }

  mutable std::mutex mutex_;
  std::optional<LineReader> reader_;
  bool read_ = false; // there has been a reader
  std::deque<DealtLine> waiting_;
  std::deque<Open> dealt_;
  std::vector<std::optional<Error>> errors_; // of each copy
  std::optional<Error> failed_;              // of reading
  bool stopped_ = false;
};

// The way to and from another process.
struct Link {
  std::unique_ptr<Hop> to, from;
};

Result<Link> open_link(Processes& processes, uint32_t rank) {
  Link link;
  PUMICE_TRY(link.to, processes.hop_to(rank));
  PUMICE_TRY(link.from, processes.hop_from(rank));
  return link;
}

Error error_of(const LineMessage& end) {
  const auto code =
      static_cast<Code>(std::min<uint64_t>(end.number, static_cast<uint64_t>(Code::context_full)));
  return {code, end.text};
}

struct Replicas {
  // In process 0.
  std::unique_ptr<Dealer> dealer;
  std::vector<Link> copies;
  std::vector<std::thread> threads; // one for each of them
  // In the others.
  Link first;

  bool ended = false; // all lines of this copy were given to it
  std::string printed;
};

std::unique_ptr<Replicas> replicas;

Status serve_copy(Dealer& dealer, uint32_t replica, Link& link) {
  for (;;) {
    PUMICE_TRY(LineMessage message, receive_line_message(*link.from));
    switch (message.kind) {
    case Kind::want: {
      PUMICE_TRY(Dealer::Dealt dealt, dealer.deal(replica, message.number, message.flag));
      LineMessage answer{Kind::lines, dealt.ended, 0, {}, std::move(dealt.lines)};
      PUMICE_CHECK(send_line_message(*link.to, answer));
      break;
    }
    case Kind::result:
      dealer.result(message.number, std::move(message.text));
      break;
    case Kind::kept: {
      UnfinishedLines lines;
      for (Line& line : message.lines) lines[line.number] = std::move(line.kept);
      PUMICE_CHECK(dealer.unfinished(lines));
      break;
    }
    case Kind::end:
      return message.flag ? Status(error_of(message)) : Status();
    case Kind::lines:
      return Error{Code::internal, "a copy of the model has sent lines"};
    }
  }
}

} // namespace

bool is_replica() {
  return replicas != nullptr;
}

Status begin_replicas(Processes& processes, uint32_t count, uint32_t stages) {
  replicas = std::make_unique<Replicas>();
  capture_results(&replicas->printed);
  if (processes.rank() > 0) {
    PUMICE_TRY(replicas->first, open_link(processes, 0));
    return {};
  }
  replicas->dealer = std::make_unique<Dealer>(count);
  for (uint32_t i = 1; i < count; ++i) {
    PUMICE_TRY(Link link, open_link(processes, i * stages));
    replicas->copies.push_back(std::move(link));
  }
  for (uint32_t i = 1; i < count; ++i) {
    replicas->threads.emplace_back([i] {
      Dealer& dealer = *replicas->dealer;
      const Status status = guarded([&] { return serve_copy(dealer, i, replicas->copies[i - 1]); });
      dealer.ended(i, status);
    });
  }
  return {};
}

Result<std::vector<Line>> next_dealt(const LineReader& reader, size_t most, bool wait) {
  if (replicas->ended) return std::vector<Line>();
  if (Dealer* dealer = replicas->dealer.get()) {
    dealer->read_with(reader);
    PUMICE_TRY(Dealer::Dealt dealt, dealer->deal(0, most, wait));
    replicas->ended = dealt.ended;
    return std::move(dealt.lines);
  }
  PUMICE_CHECK(send_line_message(*replicas->first.to, {Kind::want, wait, most, {}, {}}));
  PUMICE_TRY(LineMessage answer, receive_line_message(*replicas->first.from));
  if (answer.kind != Kind::lines) return Error{Code::internal, "process 0 has sent no lines"};
  replicas->ended = answer.flag;
  return std::move(answer.lines);
}

bool all_dealt() {
  return replicas->ended;
}

void stop_reading() {
  if (replicas && replicas->dealer) replicas->dealer->stop_reading();
}

Status end_line(uint64_t number) {
  if (!replicas) return note_answered(number);
  std::string text = std::exchange(replicas->printed, {});
  if (!replicas->dealer)
    return send_line_message(*replicas->first.to, {Kind::result, false, number, std::move(text), {}});
  replicas->dealer->result(number, std::move(text));
  return {};
}

Status keep_unfinished(const UnfinishedLines& lines) {
  if (!replicas) return note_unfinished(lines);
  if (replicas->dealer) return replicas->dealer->unfinished(lines);
  LineMessage message{Kind::kept, false, 0, {}, {}};
  for (const auto& [number, kept] : lines) message.lines.push_back({number, {}, {}, kept});
  return send_line_message(*replicas->first.to, message);
}

Status end_replicas(const Status& status) {
  capture_results(nullptr);
  if (!replicas->dealer) {
    LineMessage end;
    end.flag = !status.ok();
    if (!status.ok()) {
      end.number = static_cast<uint64_t>(status.error().code);
      end.text = status.error().text();
    }
    return send_line_message(*replicas->first.to, end);
  }
  replicas->dealer->ended(0, status);
  replicas->dealer->stop_reading();
  for (std::thread& thread : replicas->threads) thread.join();
  replicas->threads.clear();
  return replicas->dealer->outcome();
}

void forget_replicas() {
  if (replicas && !replicas->threads.empty())
    (void)end_replicas(Error{Code::cancelled, "process 0 has ended"});
  replicas.reset();
}

} // namespace pumice::command
