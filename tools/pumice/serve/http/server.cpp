#include "serve/http/server.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>
#include <unordered_set>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/ascii.h"
#include "base/guarded.h"

namespace pumice::serve {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;
using Socket = asio::generic::stream_protocol::socket;

constexpr size_t most_header = 16 << 10;   // bytes
constexpr size_t most_waiting = 256 << 10; // bytes of an answer that the client has not read
constexpr double header_seconds = 10, body_seconds = 120, idle_seconds = 75, write_seconds = 30,
                 linger_seconds = 2;

template <class View>
std::string text_of(const View& view) {
  return {view.data(), view.size()};
}

// Threads that answer requests: as many as there are answers under way.
class Workers {
public:
  ~Workers() { join(); }

  void run(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= idle_) threads_.emplace_back([this] { work(); });
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }
  // Once all jobs are done.
  void join() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }

private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      --idle_;
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool ending_ = false;
};

class Connection;

// What connections share, on the thread that runs all of them.
struct Shared {
  ServerOptions options;
  ServerFunctions functions;
  asio::io_context io{1};
  Workers workers;
  std::unordered_set<Connection*> connections;
  std::atomic<uint32_t> count = 0;
  bool draining = false;

  void ended(Connection* connection) {
    connections.erase(connection);
    count = static_cast<uint32_t>(connections.size());
    if (draining && connections.empty()) io.stop();
  }
};

// A client. It is read from at all times, so that its end is seen while it is being answered.
class Connection : public Exchange, public std::enable_shared_from_this<Connection> {
public:
  Connection(Shared& shared, Socket socket)
      : shared_(shared), socket_(std::move(socket)), deadline_(shared.io), silence_(shared.io) {}

  void start(bool refused) {
    shared_.connections.insert(this);
    shared_.count = static_cast<uint32_t>(shared_.connections.size());
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored); // a UNIX socket has none
    next();
    if (refused) return refuse(503, "there are too many connections: try again later");
    read();
  }
  // The server ends: what is not being answered is closed.
  void drain() {
    if (state_ == State::reading) close();
  }
  void close() {
    if (closed_) return;
    closed_ = true;
    error_code ignored;
    deadline_.cancel();
    silence_.cancel();
    socket_.close(ignored);
    lose();
    shared_.ended(this);
  }

  const HttpRequest& request() const override { return request_; }
  bool gone() const override { return gone_; }
  void when_gone(std::function<void()> call) override {
    const std::lock_guard lock(mutex_);
    when_gone_ = std::move(call);
    if (gone_ && when_gone_) when_gone_();
  }
  bool begun() const override {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

  void answer(int status, std::string_view type, std::string body, const HttpHeaders& headers) override {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    std::string text = head(status, type, headers);
    text += fmt::format("Content-Length: {}\r\n\r\n", body.size());
    if (request_.method != "HEAD") text += body;
    push(std::move(text));
    begun_ = true;
  }
  void begin(int status, std::string_view type) override {
    const std::lock_guard lock(mutex_);
    begin_pieces(status, type);
  }
  bool write(std::string_view piece) override {
    std::unique_lock lock(mutex_);
    if (in_pieces_ && !piece.empty() && request_.method != "HEAD") {
      written_.wait(lock, [&] { return gone_ || waiting_ <= most_waiting; });
      push_piece(piece);
    }
    return !gone_;
  }
  void show_life(std::string_view type, std::string sign) override {
    {
      const std::lock_guard lock(mutex_);
      sign_type_ = type;
      sign_ = std::move(sign);
      sent_ = Clock::now();
    }
    asio::post(shared_.io, [self = shared_from_this()] { self->watch_silence(); });
  }
  void show_no_life() override {
    const std::lock_guard lock(mutex_);
    sign_.clear();
  }
  void cut() override { cut_ = true; }

private:
  enum class State { reading, answering, lingering };
  using Clock = std::chrono::steady_clock;

  // Prepares for the next request.
  void next() {
    state_ = State::reading;
    parser_.emplace();
    parser_->header_limit(most_header);
    parser_->body_limit(shared_.options.body_bytes);
    request_ = {};
    extra_.clear();
    sign_.clear();
    silence_.cancel();
    admitted_ = header_begun_ = begun_ = in_pieces_ = chunked_ = cut_ = false;
    keep_alive_ = false;
    version_ = 11;
    arm(idle_seconds);
  }

  void arm(double seconds) {
    deadline_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
    deadline_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error && self->deadline_.expiry() <= asio::steady_timer::clock_type::now()) self->late();
    });
  }
  void late() {
    if (state_ == State::answering && queue_.empty()) return;
    if (state_ == State::reading && header_begun_)
      return refuse(408, "the request did not arrive in time: send it at once");
    close();
  }

  void read() {
    if (reading_ || closed_) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(piece_),
                            [self = shared_from_this()](const error_code& error, size_t count) {
                              self->reading_ = false;
                              if (!guarded([&] { self->have_read(error, count); }).ok()) self->run_out();
                            });
  }

  void have_read(const error_code& error, size_t count) {
    if (closed_) return;
    if (error) return close();
    if (state_ == State::lingering) return read();
    buffer_.append(piece_.data(), count);
    if (state_ == State::reading) return parse();
    if (buffer_.size() < most_header) read(); // the client's next request, which waits
  }

  // Of memory. Others go on.
  void run_out() {
    const auto tell = [&] { refuse(503, "there is no memory for the request: try again later"); };
    if (state_ != State::reading || !guarded(tell).ok()) close();
  }

  void parse() {
    if (!header_begun_ && !buffer_.empty()) {
      header_begun_ = true;
      arm(header_seconds);
    }
    while (!buffer_.empty()) {
      error_code error;
      const size_t used = parser_->put(asio::buffer(buffer_.data(), buffer_.size()), error);
      buffer_.erase(0, used);
      if (error == http::error::need_more) break;
      if (error == http::error::body_limit) {
        return refuse(413,
                      fmt::format("the request's body is larger than {} bytes", shared_.options.body_bytes));
      }
      if (error == http::error::header_limit)
        return refuse(431, fmt::format("the request's headers are larger than {} bytes", most_header));
      if (error) return refuse(400, fmt::format("the request is not HTTP: {}", error.message()));
      if (!admitted_ && parser_->is_header_done() && !admit()) return;
      if (parser_->is_done()) return handle();
      if (used == 0) break;
    }
    if (buffer_.size() > most_header)
      return refuse(431, fmt::format("the request's headers are larger than {} bytes", most_header));
    read();
  }

  // Looks at the headers. False: the request is refused.
  bool admit() {
    admitted_ = true;
    const auto& message = parser_->get();
    request_.method = text_of(message.method_string());
    request_.path = text_of(message.target());
    request_.path.resize(std::min(request_.path.find('?'), request_.path.size()));
    version_ = message.version();
    keep_alive_ = message.keep_alive() && !shared_.draining;
    size_t hosts = 0;
    for (const auto& field : message) {
      std::string name = lower_case(text_of(field.name_string()));
      hosts += name == "host";
      request_.headers.insert_or_assign(std::move(name), text_of(field.value()));
    }
    if (version_ != 10 && version_ != 11) {
      refuse(505, "the request's version of HTTP is not known: expected 1.0 or 1.1");
      return false;
    }
    if (hosts > 1 || (hosts == 0 && version_ == 11)) {
      refuse(400, fmt::format("the request has {} headers 'Host': expected one", hosts));
      return false;
    }
    const std::string encoding = lower_case(request_.header("transfer-encoding"));
    if (!encoding.empty() && encoding != "chunked") {
      refuse(501, "the header 'Transfer-Encoding' is not known: expected chunked, or none");
      return false;
    }
    if (std::optional<Refusal> refusal = shared_.functions.admit(request_)) {
      extra_ = std::move(refusal->headers);
      refuse(refusal->status, "", std::move(refusal->body));
      return false;
    }
    extra_ = shared_.functions.headers(request_);
    if (lower_case(request_.header("expect")) == "100-continue") send("HTTP/1.1 100 Continue\r\n\r\n");
    arm(body_seconds);
    return true;
  }

  void handle() {
    request_.body = std::move(parser_->get().body());
    state_ = State::answering;
    deadline_.cancel();
    read();
    const auto work = [self = shared_from_this()] {
      const Status done = guarded([&] { self->shared_.functions.handle(*self); });
      self->when_gone({});
      self->show_no_life();
      const auto end = [&] {
        if (!self->begun()) {
          self->answer(500, "application/json",
                       self->shared_.functions.error_body(500, "the server has failed to answer"), {});
        }
        // What is missing of an answer in pieces is seen: its last piece does not come.
        const bool whole = done.ok() && !self->cut_;
        if (whole) self->end_pieces();
        self->answered(whole);
      };
      while (!guarded(end).ok()) { // out of memory, which others give back
        self->cut_ = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    };
    if (!guarded([&] { shared_.workers.run(work); }).ok())
      refuse(503, "there is no room for a further request: try again later");
  }

  // An answer that takes no thread; then the connection ends.
  void refuse(int status, const std::string& sentence, std::string body = {}) {
    state_ = State::answering;
    keep_alive_ = false;
    if (body.empty() && !sentence.empty()) body = shared_.functions.error_body(status, sentence);
    answer(status, "application/json", std::move(body), {});
    answered(true);
  }

  std::string head(int status, std::string_view type, const HttpHeaders& headers) const {
    std::string text = fmt::format(
        "HTTP/1.1 {} {}\r\nServer: pumice\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\nConnection: {}\r\n",
        status, text_of(http::obsolete_reason(static_cast<http::status>(status))),
        fmt::gmtime(std::time(nullptr)), keep_alive_ ? "keep-alive" : "close");
    if (!type.empty()) text += fmt::format("Content-Type: {}\r\n", type);
    text += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    for (const HttpHeaders* all : {&extra_, &headers}) {
      for (const auto& [name, value] : *all) text += fmt::format("{}: {}\r\n", name, value);
    }
    return text;
  }

  // What follows is called with the mutex held, from either thread: what is pushed comes in that order.
  void push(std::string text) {
    if (gone_) return;
    const size_t size = text.size();
    asio::post(shared_.io, [self = shared_from_this(), text = std::move(text)]() mutable {
      if (!guarded([&] { self->send(std::move(text), true); }).ok()) self->close();
    });
    waiting_ += size;
    sent_ = Clock::now();
  }
  void push_piece(std::string_view piece) {
    push(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
  }
  void begin_pieces(int status, std::string_view type) {
    if (begun_) return;
    const bool chunked = version_ >= 11;
    if (!chunked) keep_alive_ = false;
    push(head(status, type, {}) + (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
    begun_ = in_pieces_ = true; // only now: the head may find no memory
    chunked_ = chunked;
  }

  void end_pieces() {
    const std::lock_guard lock(mutex_);
    if (chunked_) push("0\r\n\r\n");
  }

  // On the thread of all connections. Where there is no memory for a sign, the next one may come.
  void watch_silence() {
    const auto patience = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(shared_.options.silence_seconds));
    Clock::time_point next;
    {
      const std::lock_guard lock(mutex_);
      if (sign_.empty() || closed_ || (begun_ && !in_pieces_)) return;
      const Clock::time_point now = Clock::now();
      if (now >= sent_ + patience && waiting_ == 0) {
        (void)guarded([&] {
          begin_pieces(200, sign_type_);
          push_piece(sign_);
        });
      }
      next = sent_ + patience;
      if (next <= now) next = now + patience / 2;
    }
    silence_.expires_at(next);
    silence_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->watch_silence();
    });
  }

  void send(std::string text, bool counted = false) {
    if (closed_) return;
    queue_.push_back({std::move(text), counted});
    if (queue_.size() == 1) send_next();
  }
  void send_next() {
    arm(write_seconds);
    asio::async_write(socket_, asio::buffer(queue_.front().text),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (self->closed_) return;
                        if (!guarded([&] { self->have_sent(error); }).ok()) self->close();
                      });
  }
  void have_sent(const error_code& error) {
    if (error) return close();
    {
      const std::lock_guard lock(mutex_);
      if (queue_.front().counted) waiting_ -= queue_.front().text.size();
      written_.notify_all();
    }
    queue_.pop_front();
    if (!queue_.empty()) return send_next();
    if (state_ == State::answering) deadline_.cancel(); // computing may take long
    if (state_ == State::reading) arm(body_seconds);
    if (complete_) finish();
  }

  // All of the answer was pushed; not `whole`: of one in pieces, or of one that found no memory, it was not.
  void answered(bool whole) {
    asio::post(shared_.io, [self = shared_from_this(), whole] {
      if (self->closed_) return;
      if (!whole && !self->is_complete()) return self->close();
      self->complete_ = true;
      if (self->queue_.empty()) self->finish();
    });
  }
  // An answer of one piece is all there once it has begun.
  bool is_complete() const {
    const std::lock_guard lock(mutex_);
    return begun_ && !in_pieces_;
  }
  void finish() {
    complete_ = false;
    if (keep_alive_ && !shared_.draining) {
      next();
      if (!buffer_.empty()) return parse();
      return read();
    }
    // The client may still be sending: what it has not read of the answer would be lost at once.
    state_ = State::lingering;
    error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    arm(linger_seconds);
    read();
  }

  void lose() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (when_gone_) when_gone_();
    written_.notify_all();
  }

  struct Outgoing {
    std::string text;
    bool counted = false; // in waiting_
  };

  Shared& shared_;
  Socket socket_;
  asio::steady_timer deadline_, silence_;
  State state_ = State::reading;
  std::array<char, 16 << 10> piece_;
  std::string buffer_; // what was read and not parsed
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpRequest request_;
  HttpHeaders extra_;
  unsigned version_ = 11;
  bool admitted_ = false, header_begun_ = false, reading_ = false, closed_ = false, complete_ = false;
  bool begun_ = false, in_pieces_ = false, chunked_ = false, keep_alive_ = false;
  std::atomic<bool> cut_ = false;
  std::deque<Outgoing> queue_;

  mutable std::mutex mutex_;
  std::string sign_type_, sign_; // empty: there are none
  Clock::time_point sent_;       // when something was, the last time
  std::condition_variable written_;
  std::function<void()> when_gone_;
  size_t waiting_ = 0; // bytes of answers that were not sent
  std::atomic<bool> gone_ = false;
};

class AsioServer : public Server {
public:
  explicit AsioServer(const ServerOptions& options)
      : signals_(shared_.io), reload_(shared_.io), drain_end_(shared_.io) {
    shared_.options = options;
  }
  ~AsioServer() override {
    if (local_) {
      std::error_code ignored;
      std::filesystem::remove(shared_.options.socket, ignored);
    }
  }

  Status open() {
    const ServerOptions& options = shared_.options;
    error_code error;
    if (!options.socket.empty()) {
      std::error_code ignored;
      const std::filesystem::path path(options.socket);
      constexpr size_t most_path = 100;
      if (options.socket.size() > most_path) {
        return Error{Code::invalid_argument,
                     fmt::format("{}: the path of a socket has at most {} bytes", options.socket, most_path)};
      }
      const Local::endpoint endpoint(options.socket);
      if (std::filesystem::is_socket(path, ignored)) { // of a run before
        Local::socket other(shared_.io);
        error_code none;
        other.open(endpoint.protocol(), none);
        other.native_non_blocking(true, none); // one whose queue is full would be waited for
        other.connect(endpoint, none);
        if (none != asio::error::connection_refused) {
          return Error{
              Code::io,
              fmt::format("{}: another program listens there, or may ({}): end it, or choose another "
                          "path",
                          options.socket, none ? none.message() : "it answers")};
        }
        std::filesystem::remove(path, ignored);
      }
      local_.emplace(shared_.io);
      local_->open(endpoint.protocol(), error);
      if (!error) local_->bind(endpoint, error);
      if (!error) std::filesystem::permissions(path, std::filesystem::perms(0600), ignored);
      if (!error) local_->listen(asio::socket_base::max_listen_connections, error);
      address_ = "unix:" + options.socket;
      if (!error) return {};
      local_.reset();
      return Error{Code::io, fmt::format("{}: {}", options.socket, error.message())};
    }
    const auto host = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
    if (error) {
      return Error{Code::invalid_argument,
                   fmt::format("--host is '{}': expected an address, such as 127.0.0.1, ::1 or 0.0.0.0",
                               options.host)};
    }
    const tcp::endpoint endpoint(host, options.port);
    tcp_.emplace(shared_.io);
    tcp_->open(endpoint.protocol(), error);
    if (!error) tcp_->set_option(asio::socket_base::reuse_address(true), error);
    if (!error) tcp_->bind(endpoint, error);
    if (!error) tcp_->listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return Error{Code::io, fmt::format("{}, port {}: {}", options.host, options.port, error.message())};
    const std::string shown = host.is_v6() ? "[" + host.to_string() + "]" : host.to_string();
    address_ = fmt::format("http://{}:{}", shown, tcp_->local_endpoint(error).port());
    return {};
  }

  std::string address() const override { return address_; }
  uint32_t connections() const override { return shared_.count; }

  Status run(ServerFunctions functions) override {
    shared_.functions = std::move(functions);
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    wait_for_signal();
    if (shared_.functions.reload) {
      reload_.add(SIGHUP);
      wait_for_reload();
    }
    if (tcp_) accept(*tcp_);
    if (local_) accept(*local_);
    Status status;
    do { // what a connection does is guarded; other work, such as a signal's, may find no memory
      status = guarded([&] { shared_.io.run(); });
    } while (!status.ok() && !shared_.io.stopped());
    while (!shared_.connections.empty()) (*shared_.connections.begin())->shared_from_this()->close();
    shared_.workers.join();
    return status;
  }

private:
  void wait_for_signal() {
    signals_.async_wait([this](const error_code& error, int) {
      if (error) return;
      if (shared_.draining) return shared_.io.stop();
      (void)guarded([&] { wait_for_signal(); });
      drain();
    });
  }

  void wait_for_reload() {
    reload_.async_wait([this](const error_code& error, int) {
      if (error) return;
      wait_for_reload(); // before the work, which may find no memory
      (void)guarded([&] { shared_.functions.reload(); });
    });
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](const error_code& error, auto socket) {
      if (shared_.draining) return;
      const uint32_t count = shared_.count, most = shared_.options.connections;
      constexpr uint32_t most_refused = 64; // at a time
      std::shared_ptr<Connection> connection;
      const bool taken = !error && guarded([&] {
                                     if (count >= most + most_refused) return;
                                     connection =
                                         std::make_shared<Connection>(shared_, Socket(std::move(socket)));
                                     connection->start(count >= most);
                                   }).ok();
      if (taken) return accept(acceptor);
      if (connection) connection->close(); // it would stay among the others
      // There are too many open files, or there is no memory.
      retry_.emplace(shared_.io, std::chrono::milliseconds(100));
      retry_->async_wait([this, &acceptor](const error_code&) { accept(acceptor); });
    });
  }

  void drain() {
    shared_.draining = true;
    const Status limited = guarded([&] {
      drain_end_.expires_after(
          std::chrono::milliseconds(static_cast<int64_t>(shared_.options.drain_seconds * 1000)));
      drain_end_.async_wait([this](const error_code& error) {
        if (!error) shared_.io.stop();
      });
    });
    if (!limited.ok()) return shared_.io.stop();
    (void)guarded([&] { close_idle(); }); // where there is no memory for it, the time ends
  }

  void close_idle() {
    if (shared_.functions.draining) shared_.functions.draining();
    error_code ignored;
    if (tcp_) tcp_->close(ignored);
    if (local_) local_->close(ignored);
    const std::vector<Connection*> all(shared_.connections.begin(), shared_.connections.end());
    for (Connection* each : all) each->drain();
    if (shared_.connections.empty()) shared_.io.stop();
  }

  Shared shared_;
  std::optional<tcp::acceptor> tcp_;
  std::optional<Local::acceptor> local_;
  std::optional<asio::steady_timer> retry_;
  asio::signal_set signals_, reload_;
  asio::steady_timer drain_end_;
  std::string address_;
};

} // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options) {
  auto server = std::make_unique<AsioServer>(options);
  PUMICE_CHECK(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

} // namespace pumice::serve
