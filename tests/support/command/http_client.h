#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// A client that says what it likes to a server on this machine, whole, half or broken.
class HttpClient {
public:
  explicit HttpClient(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect_to(address);
  }
  explicit HttpClient(const std::string& path) { // of a UNIX socket
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connect_to(address);
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { close(); }

  bool open() const { return socket_ >= 0; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  bool send(const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t count = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }
  // Reads until the text is there, or the server ends. False: it is not there.
  bool wait_for(const std::string& text) {
    while (read_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  // All that comes until the server closes the connection.
  std::string rest() {
    while (read_some()) {
    }
    return read_;
  }

private:
  template <class Address>
  void connect_to(const Address& address) {
    const auto* const any = reinterpret_cast<const sockaddr*>(&address);
    socket_ = ::socket(any->sa_family, SOCK_STREAM, 0);
    if (::connect(socket_, any, sizeof address) != 0) close();
  }
  bool read_some() {
    if (!open()) return false;
    pollfd waiting = {socket_, POLLIN, 0};
    if (::poll(&waiting, 1, 120'000) <= 0) return false;
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    read_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  int socket_ = -1;
  std::string read_;
};

struct HttpAnswer {
  int status = 0; // 0: none that can be read
  std::string head, body;
};

inline HttpAnswer http_answer(const std::string& text) {
  HttpAnswer answer;
  const size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::stoi(text.substr(9, 3));
  answer.head = text.substr(0, end);
  answer.body = text.substr(end + 4);
  if (answer.head.find("Transfer-Encoding: chunked") == std::string::npos) return answer;
  std::string whole;
  for (size_t at = 0; at < answer.body.size();) {
    const size_t line = answer.body.find("\r\n", at);
    if (line == std::string::npos) break;
    const size_t size = std::stoul(answer.body.substr(at, line - at), nullptr, 16);
    if (size == 0) break;
    whole += answer.body.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  answer.body = whole;
  return answer;
}

inline std::string http_request(const std::string& method, const std::string& path, const std::string& body,
                                const std::vector<std::string>& headers = {"Host: localhost"}) {
  std::string text = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n";
  for (const std::string& each : headers) text += each + "\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}
