#pragma once

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/command_process.h"
#include "support/command/http_client.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

// A server in a process of its own.
class Server {
public:
  static const std::string& chat_model() {
    static const std::string path = (pretrained_folder() / "chat-2m.gguf").string();
    return path;
  }

  explicit Server(std::vector<std::string> more = {}, std::vector<std::string> models = {chat_model()},
                  const std::string& context = "512", const std::vector<std::string>& launcher = {}) {
    std::vector<std::string> arguments = {"serve", "--port", "0", "--context", context, "--no-tune"};
    arguments.insert(arguments.end(), models.begin(), models.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string out = file("out"), err = file("err");
    process_ = std::make_unique<CommandProcess>(
        arguments,
        [&] {
          redirect(0, "/dev/null", O_RDONLY);
          redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
          redirect(2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
        },
        launcher);
    for (int i = 0; i < 6000 && port_ == 0 && !process_->ended(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::string text = contents(out);
      const size_t at = text.rfind(':');
      if (text.ends_with('\n')) port_ = static_cast<uint16_t>(std::stoi(text.substr(at + 1)));
    }
    CAPTURE(errors());
    if (port_ == 0 && errors().find("this build has no server") != std::string::npos) return;
    REQUIRE(port_ != 0);
  }

  bool there() const { return port_ != 0; }
  uint16_t port() const { return port_; }
  std::string errors() const { return contents(file("err")); }
  std::string output() const { return contents(file("out")); }
  CommandProcess& process() { return *process_; }

  HttpAnswer say(const std::string& text) const {
    HttpClient client(port_);
    client.send(text);
    return http_answer(client.rest());
  }
  HttpAnswer get(const std::string& path) const { return say(http_request("GET", path, "")); }
  HttpAnswer post(const std::string& path, const std::string& body) const {
    return say(http_request("POST", path, body));
  }
  nlohmann::json ask(const std::string& path, const nlohmann::json& body) const {
    const HttpAnswer answer = post(path, body.dump());
    CAPTURE(answer.body);
    CHECK(answer.status == 200);
    return answer.status == 200 ? nlohmann::json::parse(answer.body) : nlohmann::json();
  }
  // What is wrong with a request.
  std::string refused(const std::string& path, const std::string& body, int status = 400) const {
    const HttpAnswer answer = post(path, body);
    CAPTURE(answer.body);
    CHECK(answer.status == status);
    const nlohmann::json error = nlohmann::json::parse(answer.body, nullptr, false);
    REQUIRE(error.is_object());
    const nlohmann::json& what = error.at("error");
    return what.is_object() ? what.at("message").get<std::string>() : what.get<std::string>();
  }
  // A number of /metrics.
  double metric(const std::string& name) const {
    const std::string text = get("/metrics").body;
    size_t at = text.find("\n" + name);
    if (at == std::string::npos) return -1;
    at = text.find(' ', at);
    return std::stod(text.substr(at + 1));
  }

private:
  std::string file(const char* name) const { return (folder_.path() / name).string(); }
  static std::string contents(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  TemporaryFolder folder_;
  std::unique_ptr<CommandProcess> process_;
  uint16_t port_ = 0;
};
