// `pumice serve`: what clients say to it, and what it answers. Each sees a server of its own, or the one that
// all share.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#ifdef __linux__
#include <sys/resource.h>
#endif

#include "support/command/command.h"
#include "support/command/command_process.h"
#include "support/command/http_client.h"
#include "support/command/server.h"
#include "support/files/bert_folder.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/files/vision_folder.h"
#include "support/files/word_folder.h"
#include "support/sanitized.h"
#include "support/skip.h"

using nlohmann::json;

namespace {

const std::string& chat_model = Server::chat_model();

// For cases that leave it as it was. Null in a build without a server.
Server* shared_server() {
  static Server server;
  return server.there() ? &server : nullptr;
}

#define SERVER(server)                                                                                       \
  Server* const shared = shared_server();                                                                    \
  if (!shared) {                                                                                             \
    skip("this build has no server");                                                                        \
    return;                                                                                                  \
  }                                                                                                          \
  Server& server = *shared

json question(const std::string& text, int tokens = 24) {
  return {{"model", "chat-2m"},
          {"messages", {{{"role", "user"}, {"content", text}}}},
          {"max_tokens", tokens},
          {"temperature", 1},
          {"seed", 7}};
}

std::string said(const json& answer) {
  return answer["choices"][0]["message"]["content"].get<std::string>();
}

// The JSON of each event of a stream.
std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    const size_t end = body.find('\n', at);
    const std::string data = body.substr(at + 6, end - at - 6);
    at = end;
    if (data != "[DONE]") events.push_back(json::parse(data));
  }
  return events;
}

} // namespace

TEST_CASE("a server says how it is, and which paths it has") {
  SERVER(server);
  CHECK(server.get("/health").status == 200);
  CHECK(json::parse(server.get("/health").body)["status"] == "ok");
  CHECK(server.get("/nowhere").status == 404);
  const HttpAnswer other_method = server.post("/health", "{}");
  CHECK(other_method.status == 405);
  CHECK(other_method.head.find("Allow: GET, HEAD, OPTIONS") != std::string::npos);
  CHECK(server.say(http_request("HEAD", "/health", "")).body.empty());
  CHECK(server.get("/metrics").body.find("pumice_tokens_total{model=\"chat-2m\"} ") != std::string::npos);
  const json models = json::parse(server.get("/v1/models").body);
  REQUIRE(models["data"].size() == 1);
  CHECK(models["data"][0]["id"] == "chat-2m");
  CHECK(server.get("/v1/models/chat-2m").status == 200);
  CHECK(server.get("/v1/models/gpt-4").status == 404);
}

TEST_CASE("what is no request is refused with a sentence, and the server goes on") {
  SERVER(server);
  const std::string host = "Host: localhost\r\n";
  CHECK(server.say("nonsense\r\n\r\n").status == 400);
  CHECK(server.say("GET / HTTP/3.0\r\n" + host + "\r\n").status == 400);
  CHECK(server.say("GET /health HTTP/1.1\r\n\r\n").status == 400); // no host
  CHECK(server.say("GET /health HTTP/1.1\r\n" + host + host + "\r\n").status == 400);
  CHECK(
      server.say("GET /health HTTP/1.1\r\n" + host + "X: " + std::string(20'000, 'x') + "\r\n\r\n").status ==
      431);
  CHECK(
      server.say("POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: 99999999999\r\n\r\n").status ==
      413);
  CHECK(server.say("POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n").status == 400);
  CHECK(server
            .say("POST /v1/completions HTTP/1.1\r\n" + host +
                 "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}")
            .status == 400);
  CHECK(server.say("POST /v1/completions HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n{}").status ==
        501);
  // 60,000 brackets (llama.cpp's issue 26600), and other JSON that is none.
  const std::string path = "/v1/chat/completions";
  for (const char* bracket : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 60'000; ++i) deep += bracket;
    CHECK(server.refused(path, deep).find("nested deeper than 128") != std::string::npos);
    CHECK(server.refused(path, "{\"messages\": " + deep + "}").find("nested deeper than") !=
          std::string::npos);
  }
  std::string lists = "[]";
  while (lists.size() < 4u << 20) lists += "," + lists;
  CHECK(server.refused(path, "{\"messages\": [" + lists + "]}").find("1000000 values") != std::string::npos);
  CHECK(server.refused(path, "{").find("invalid JSON at byte") != std::string::npos);
  CHECK(server.refused(path, "[1]").find("expected a JSON object") != std::string::npos);
  CHECK(server.refused(path, "{\"messages\": \"\xff\xfe\"}").find("invalid JSON") != std::string::npos);
  // Half a request, and nothing.
  {
    HttpClient half(server.port()), nothing(server.port());
    half.send("POST " + path + " HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\n{\"mess");
  }
  // Piece by piece.
  HttpClient slow(server.port());
  const std::string text = http_request("POST", "/tokenize", R"({"content": "Hello"})");
  for (size_t i = 0; i < text.size(); i += 7) {
    slow.send(text.substr(i, 7));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(http_answer(slow.rest()).status == 200);
  // In chunks, and two requests on one connection.
  CHECK(server
            .say("POST /tokenize HTTP/1.1\r\n" + host +
                 "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "9\r\n{\"content\r\n9\r\n\": \"Hello\r\n2\r\n\"}\r\n0\r\n\r\n")
            .status == 200);
  HttpClient both(server.port());
  both.send("GET /health HTTP/1.1\r\n" + host + "\r\n" + http_request("GET", "/v1/models", ""));
  const std::string answers = both.rest();
  CHECK(answers.find("\"ok\"") < answers.find("\"chat-2m\""));
  CHECK(answers.find("\"chat-2m\"") != std::string::npos);
  CHECK(server.get("/health").status == 200);
}

TEST_CASE("wrong fields are named") {
  SERVER(server);
  const auto wrong = [&](const char* field, const json& value) {
    CAPTURE(field);
    CAPTURE(value.dump());
    json body = question("Hello");
    body[field] = value;
    const HttpAnswer answer = server.post("/v1/chat/completions", body.dump());
    CAPTURE(answer.body);
    CHECK((answer.status == 400 || answer.status == 404));
    const json error = json::parse(answer.body, nullptr, false);
    REQUIRE(error.contains("error"));
    CHECK(error["error"].at("message").get<std::string>().find(std::string("field '") + field) !=
          std::string::npos);
    CHECK(error["error"].at("param").get<std::string>().starts_with(field));
  };
  wrong("model", "gpt-4");
  wrong("model", 3);
  wrong("messages", "Hello");
  wrong("messages", json::array());
  wrong("messages", {{{"content", "Hello"}}});
  wrong("messages", {{{"role", "user"}, {"content", 3}}});
  wrong("messages",
        {{{"role", "user"},
          {"content", {{{"type", "image_url"}, {"image_url", {{"url", "file:///etc/passwd"}}}}}}}});
  wrong("temperature", -1);
  wrong("temperature", "hot");
  wrong("top_p", 2);
  wrong("max_tokens", -5);
  wrong("max_tokens", 0);
  wrong("n", 0);
  wrong("n", 1000);
  wrong("seed", -7);
  wrong("seed", 1.5);
  wrong("stop", {1});
  wrong("stream", "yes");
  wrong("logit_bias", {{"99999999", 1}});
  wrong("logit_bias", {{"5", 1000}});
  wrong("top_logprobs", 3); // without logprobs
  wrong("response_format", "json");
  wrong("response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "nothing"}}}}}});
  wrong("tools", {{{"type", "function"}}});
  wrong("grammar", "root ::= \"");
  CHECK(server.refused("/v1/completions", R"({"prompt": "Hello", "echo": true})").find("'echo'") !=
        std::string::npos);
  CHECK(server.refused("/v1/completions", R"({"prompt": [999999]})").find("'prompt'") != std::string::npos);
  CHECK(
      server
          .refused("/v1/completions", json({{"prompt", std::vector<std::string>(200, "a")}, {"n", 3}}).dump())
          .find("600 texts: expected at most 512") != std::string::npos);
  json long_one = question(std::string(5000, 'a'));
  CHECK(server.refused("/v1/chat/completions", long_one.dump()).find("tokens") != std::string::npos);
}

TEST_CASE("an answer is the same as a whole and in pieces, and as `pumice chat` gives it") {
  SERVER(server);
  json body = question("What does a cow say?", 40);
  body["temperature"] = 0;
  const json whole = server.ask("/v1/chat/completions", body);
  CHECK(whole["object"] == "chat.completion");
  CHECK(whole["choices"][0]["message"]["role"] == "assistant");
  CHECK(whole["usage"]["prompt_tokens"].get<int>() > 5);
  CHECK(whole["usage"]["completion_tokens"].get<int>() > 1);
  const CommandResult chat = pumice_command({"chat", chat_model, "What does a cow say?", "--temp", "0",
                                             "--count", "40", "--context", "256", "--json"});
  CHECK(said(whole) == json::parse(chat.out)["content"].get<std::string>());

  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpAnswer stream = server.post("/v1/chat/completions", body.dump());
  CHECK(stream.head.find("text/event-stream") != std::string::npos);
  CHECK(stream.body.ends_with("data: [DONE]\n\n"));
  std::string text, reason;
  json usage;
  for (const json& event : events_of(stream.body)) {
    CHECK(event["object"] == "chat.completion.chunk");
    if (event.contains("usage")) usage = event["usage"];
    for (const json& choice : event["choices"]) {
      text += choice["delta"].value("content", "");
      if (choice["finish_reason"].is_string()) reason = choice["finish_reason"].get<std::string>();
    }
  }
  CHECK(text == said(whole));
  CHECK(reason == whole["choices"][0]["finish_reason"].get<std::string>());
  CHECK(usage["completion_tokens"] == whole["usage"]["completion_tokens"]);
}

TEST_CASE("what requests ask of a text is kept to") {
  SERVER(server);
  json body = question("Tell me a story.", 30);
  const std::string text = said(server.ask("/v1/chat/completions", body));
  CHECK(said(server.ask("/v1/chat/completions", body)) == text); // by its seed
  const size_t space = text.find(' ', 5);
  REQUIRE(space != std::string::npos);
  const std::string stop = text.substr(space, 4);
  body["stop"] = stop;
  const json stopped = server.ask("/v1/chat/completions", body);
  CHECK(said(stopped) == text.substr(0, text.find(stop)));
  CHECK(stopped["choices"][0]["finish_reason"] == "stop");
  body.erase("stop");

  body["n"] = 3;
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const json several = server.ask("/v1/chat/completions", body);
  REQUIRE(several["choices"].size() == 3);
  CHECK(said(several) == text);
  CHECK(several["choices"][1]["message"]["content"] != several["choices"][0]["message"]["content"]);
  const json& log = several["choices"][0]["logprobs"]["content"];
  std::string spelled;
  for (const json& each : log) {
    spelled += each["token"].get<std::string>();
    CHECK(each["logprob"].get<double>() <= 0);
    CHECK(each["top_logprobs"].size() <= 2);
  }
  CHECK(spelled.find(text) != std::string::npos);

  json formed = question("Is a cow an animal?", 40);
  formed["response_format"] = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "answer"},
        {"schema",
         {{"type", "object"},
          {"properties", {{"animal", {{"type", "boolean"}}}, {"legs", {{"enum", {2, 4}}}}}},
          {"required", {"animal", "legs"}},
          {"additionalProperties", false}}}}}};
  const json object = json::parse(said(server.ask("/v1/chat/completions", formed)));
  CHECK(object["animal"].is_boolean());
  CHECK(object.size() == 2);
  json chosen = {{"prompt", "A cow is"}, {"max_tokens", 16}, {"choices", {" an animal", " a plant"}}};
  const std::string choice = server.ask("/v1/completions", chosen)["choices"][0]["text"].get<std::string>();
  CHECK((choice == " an animal" || choice == " a plant"));
  const json biased = server.ask("/v1/completions", {{"prompt", "Once"},
                                                     {"max_tokens", 3},
                                                     {"temperature", 0},
                                                     {"logprobs", 0},
                                                     {"logit_bias", {{"100", 100}}}});
  const json& tokens = biased["choices"][0]["logprobs"]["tokens"];
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0] == tokens[1]);
  CHECK(tokens[1] == tokens[2]);
  const json two = server.ask("/v1/completions", {{"prompt", {"Once", "Tom"}}, {"max_tokens", 4}});
  CHECK(two["choices"].size() == 2);
  const json ids = server.ask("/tokenize", {{"content", "Once upon a time"}});
  CHECK(server.ask("/detokenize", {{"tokens", ids["tokens"]}})["content"] == "Once upon a time");
}

TEST_CASE("the text of a request is the same whoever else is served, and leaves when its client does") {
  SERVER(server);
  std::vector<std::string> alone, together(6);
  const auto ask = [&](size_t i) {
    json body = question("Tell me a story about number " + std::to_string(i) + ".", 60);
    body["seed"] = i;
    return said(server.ask("/v1/chat/completions", body));
  };
  for (size_t i = 0; i < together.size(); ++i) alone.push_back(ask(i));
  {
    json endless = question("Tell me a long story.", 200);
    endless["stream"] = true;
    HttpClient leaves(server.port());
    leaves.send(http_request("POST", "/v1/chat/completions", endless.dump()));
    std::vector<std::thread> clients;
    for (size_t i = 0; i < together.size(); ++i) clients.emplace_back([&, i] { together[i] = ask(i); });
    // What may turn out not to fit the model's tokens in the middle of a step.
    for (int i = 0; i < 3; ++i) {
      const int status =
          server.post("/v1/completions", R"({"prompt": "A", "choices": ["\u2603\ud83d\ude00"]})").status;
      CHECK((status == 200 || status == 400));
    }
    CHECK(leaves.wait_for("\"content\""));
    leaves.close();
    for (std::thread& each : clients) each.join();
  }
  CHECK(together == alone);
  for (int i = 0; i < 500 && server.metric("pumice_texts_running") != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(server.metric("pumice_texts_running") == 0);
}

TEST_CASE("a client that goes away in the middle of its answer has no text any more") {
  SERVER(server);
  // No token that could end the text may come.
  json endless = {{"prompt", "Once"}, {"max_tokens", 480}, {"stream", true}, {"regex", "[a-z ]{2000}"}};
  const double tokens = server.metric("pumice_tokens_total"),
               stopped = server.metric("pumice_texts_stopped_total");
  {
    HttpClient leaves(server.port());
    leaves.send(http_request("POST", "/v1/completions", endless.dump()));
    REQUIRE(leaves.wait_for("\"text\""));
    const HttpAnswer slots = server.get("/slots");
    const json slot = json::parse(slots.body)["slots"].at(0);
    CHECK(slot["model"] == "chat-2m");
    CHECK(slot["route"] == "/v1/completions");
    CHECK(slot["state"] == "writing");
    CHECK(slot["tokens"].get<int>() > 0);
    CHECK(slots.body.find("Once") == std::string::npos);
  }
  for (int i = 0; i < 500 && server.metric("pumice_texts_stopped_total") == stopped; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(server.metric("pumice_texts_stopped_total") == stopped + 1);
  CHECK(server.metric("pumice_texts_running") == 0);
  CHECK(server.metric("pumice_tokens_total") < tokens + 480);
  for (int i = 0; i < 500 && server.get("/slots").body.find("\"id\"") != std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(json::parse(server.get("/slots").body)["slots"].empty());
}

TEST_CASE("pages of other sites and clients without a key are kept out") {
  SERVER(server);
  const auto with = [&](const Server& asked, const std::string& path, std::vector<std::string> headers) {
    return asked.say(http_request("GET", path, "", headers)).status;
  };
  CHECK(with(server, "/v1/models", {"Host: evil.example"}) == 403);
  CHECK(with(server, "/v1/models", {"Host: evil.example:8080"}) == 403);
  CHECK(with(server, "/v1/models", {"Host: 127.0.0.1:8080"}) == 200);
  CHECK(with(server, "/v1/models", {"Host: [::1]:8080"}) == 200);
  CHECK(with(server, "/v1/models", {"Host: localhost:8080", "Origin: http://localhost:8080"}) == 200);
  CHECK(with(server, "/v1/models", {"Host: localhost:8080", "Origin: http://evil.example"}) == 403);
  CHECK(with(server, "/v1/models", {"Host: localhost", "Origin: null"}) == 403);

  const TemporaryFolder folder;
  folder.write("keys",
               std::string_view("first-key\n\n second-key requests=2\nthird-key tokens=20 requests=9\n"));
  Server guarded({"--api-key-file", (folder.path() / "keys").string(), "--allow-host", "box.local",
                  "--allow-origin", "https://friend.example"});
  const std::string host = "Host: localhost";
  CHECK(with(guarded, "/health", {host}) == 200);
  CHECK(with(guarded, "/v1/models", {host}) == 401);
  CHECK(with(guarded, "/v1/models", {host, "Authorization: Bearer first-ke"}) == 401);
  CHECK(with(guarded, "/v1/models", {host, "Authorization: Bearer first-keyfirst-key"}) == 401);
  CHECK(with(guarded, "/v1/models", {host, "Authorization: Bearer "}) == 401);
  CHECK(with(guarded, "/v1/models", {host, "Authorization: Bearer first-key"}) == 200);
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: second-key"}) == 200);
  CHECK(with(guarded, "/metrics", {host}) == 401);
  // Limits of a key, and keys that are read again.
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: second-key"}) == 200);
  const HttpAnswer limited =
      guarded.say(http_request("GET", "/v1/models", "", {host, "x-api-key: second-key"}));
  CHECK(limited.status == 429);
  CHECK(limited.head.find("Retry-After: ") != std::string::npos);
  CHECK(json::parse(limited.body)["error"]["type"] == "rate_limit_error");
  const auto write = [&] {
    return guarded
        .say(http_request("POST", "/v1/completions", R"({"prompt": "Once upon", "max_tokens": 20})",
                          {host, "x-api-key: third-key"}))
        .status;
  };
  CHECK(write() == 200);
  CHECK(write() == 429);
  const auto written_again = [&](std::string_view text) {
    const size_t before = guarded.errors().size();
    folder.write("keys", text);
    guarded.process().interrupt(SIGHUP);
    for (int i = 0; i < 500 && guarded.errors().size() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  written_again("first-key requests\n");
  CHECK(guarded.errors().find("line 1: expected a key") != std::string::npos);
  written_again("first-key\n\f\nfirst-key requests=5\n");
  CHECK(guarded.errors().find("line 3: the key stands in a line before") != std::string::npos);
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: second-key"}) == 429);
  written_again("second-key requests=3\nthird-key tokens=20\n");
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: second-key"}) == 200);
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: second-key"}) == 429);
  CHECK(with(guarded, "/v1/models", {host, "x-api-key: first-key"}) == 401);
  CHECK(write() == 429); // what was used stays used
  CHECK(with(guarded, "/health", {"Host: BOX.local:80"}) == 200);
  const HttpAnswer shown =
      guarded.say(http_request("GET", "/health", "", {host, "Origin: https://friend.example"}));
  CHECK(shown.head.find("Access-Control-Allow-Origin: https://friend.example") != std::string::npos);
}

TEST_CASE("a server that is asked to end completes its answers first") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  Server server({"--verbose"});
  json body = {{"prompt", "Once secret"}, {"max_tokens", 100}, {"stream", true}, {"regex", "[a-z ]{2000}"}};
  HttpClient client(server.port());
  client.send(http_request("POST", "/v1/completions", body.dump()));
  REQUIRE(client.wait_for("\"text\""));
  server.process().interrupt(SIGTERM);
  const HttpAnswer answer = http_answer(client.rest());
  CHECK(answer.body.ends_with("data: [DONE]\n\n"));
  CHECK(server.process().wait() == 0);
  CHECK(server.errors().find("/v1/completions 200") != std::string::npos);
  CHECK(server.errors().find("secret") == std::string::npos); // no text of requests in its log

  Server left; // by a terminal that is closed: it has no keys to read again
  left.process().interrupt(SIGHUP);
  CHECK(left.process().wait() == 129);
}

TEST_CASE("models of a folder are loaded when a request names them, and let go for others") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path& models = folder.path();
  const fs::path stories = pretrained_folder() / "stories-2m.gguf";
  fs::create_directory(models / "deep");
  fs::copy_file(chat_model, models / "chat.gguf");
  fs::copy_file(stories, models / "deep" / "stories.gguf");
  fs::copy(pretrained_folder() / "dates", models / "dates");
  folder.write("broken.gguf", std::string_view("GGUF and no more"));
  // One of the two decoders fits, with its keys and values.
  Server server({"--models", models.string(), "--models-memory", "12M", "--sequences", "8", "--verbose"}, {});
  const auto loaded = [&] { return json::parse(server.get("/health").body)["loaded"].get<int>(); };
  const auto loads = [&](const std::string& name) {
    return server.metric("pumice_model_loads_total{model=\"" + name + "\"}");
  };
  const auto written = [&](const std::string& name) {
    const json body = {{"model", name}, {"prompt", "Once upon"}, {"max_tokens", 24}, {"temperature", 0}};
    return server.ask("/v1/completions", body)["choices"][0]["text"].get<std::string>();
  };
  const json listed = json::parse(server.get("/v1/models").body)["data"];
  std::string names;
  for (const json& each : listed) {
    names += each["id"].get<std::string>() + " " + each["kind"].get<std::string>() + " ";
    CHECK(each["loaded"] == false);
  }
  CHECK(names == "chat text dates translation deep/stories text ");
  CHECK(json::parse(server.get("/api/tags").body)["models"][2]["loaded"] == false);
  CHECK(server.get("/v1/models/deep/stories").status == 200);
  CHECK(server.get("/v1/models/deep%2Fstories").status == 200);
  CHECK(loaded() == 0);
  CHECK(server.errors().find("'broken' cannot be served") != std::string::npos);
  CHECK(server.refused("/v1/completions", R"({"model": "broken", "prompt": "a"})").find("broken.gguf") !=
        std::string::npos);
  CHECK(server.refused("/translate", R"({"model": "chat", "text": "a"})").find("does not translate") !=
        std::string::npos);
  CHECK(server.ask("/api/show", {{"model", "chat"}})["capabilities"][0] == "completion");
  CHECK(loads("chat") == 0);

  const std::string told = written("deep/stories"), chatted = written("chat");
  CHECK(told != chatted);
  CHECK(server.metric("pumice_memory_bytes") <= server.metric("pumice_memory_limit_bytes"));
  CHECK(loaded() == 1);
  // Many at once, of which some leave; no answer is cut short.
  std::vector<std::thread> clients;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      for (int j = 0; j < 3; ++j) {
        const bool tells = (i + j) % 2 == 0;
        HttpClient leaves(server.port());
        leaves.send(http_request("POST", "/v1/completions",
                                 json({{"model", tells ? "chat" : "deep/stories"},
                                       {"prompt", "Once"},
                                       {"max_tokens", 200},
                                       {"stream", true}})
                                     .dump()));
        if (j % 2 == 0) leaves.close();
        wrong += written(tells ? "deep/stories" : "chat") != (tells ? told : chatted);
      }
    });
  }
  for (std::thread& each : clients) each.join();
  CHECK(wrong == 0);
  CHECK(loads("chat") > 1);
  CHECK(loads("deep/stories") > 1);

  const auto until = [&](const auto& there) {
    for (int i = 0; i < 1000 && !there(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return there();
  };
  // Ollama's way to let a model go, and to load one.
  server.ask("/api/generate", {{"model", "chat"}, {"keep_alive", "5m"}});
  CHECK(server.metric("pumice_model_loaded{model=\"chat\"}") == 1);
  CHECK(server.ask("/api/generate", {{"model", "chat"}, {"keep_alive", 0}})["done_reason"] == "unload");
  CHECK(until([&] { return server.metric("pumice_model_loaded{model=\"chat\"}") == 0; }));

  // What has changed is another model for the next request; the answer under way is the old one's.
  const json endless = {{"model", "chat"},
                        {"prompt", "Once"},
                        {"max_tokens", 400},
                        {"stream", true},
                        {"regex", "[a-z ]{2000}"}};
  HttpClient client(server.port());
  client.send(http_request("POST", "/v1/completions", endless.dump()));
  REQUIRE(client.wait_for("\"text\""));
  fs::copy_file(stories, models / "next");
  fs::rename(models / "next", models / "chat.gguf");
  fs::remove(models / "deep" / "stories.gguf");
  fs::copy_file(chat_model, models / "new.gguf");
  server.process().interrupt(SIGHUP);
  CHECK(until([&] { return server.errors().find("has 4 models") != std::string::npos; }));
  CHECK(written("chat") == told);
  CHECK(written("new") == chatted);
  CHECK(server.refused("/v1/completions", R"({"model": "deep/stories", "prompt": "a"})", 404)
            .find("chat, dates, new") != std::string::npos);
  const HttpAnswer answer = http_answer(client.rest());
  CHECK(answer.body.ends_with("data: [DONE]\n\n"));
  CHECK(events_of(answer.body).size() > 300);

  Server idle({"--models", models.string(), "--idle-minutes", "0.002"}, {});
  idle.ask("/v1/completions", {{"model", "new"}, {"prompt", "a"}, {"max_tokens", 1}});
  CHECK(until([&] { return json::parse(idle.get("/health").body)["loaded"] == 0; }));
  const Server small({"--models", models.string(), "--models-memory", "1M"}, {});
  CHECK(small.refused("/v1/completions", R"({"model": "new", "prompt": "a"})", 503).find("new.gguf needs") !=
        std::string::npos);
}

TEST_CASE("other programs' interfaces give the same answer") {
  SERVER(server);
  json body = question("What does a cow say?", 30);
  body["temperature"] = 0;
  const std::string text = said(server.ask("/v1/chat/completions", body));
  const json messages = body["messages"];

  // Anthropic's.
  json message = {{"model", "chat-2m"}, {"max_tokens", 30}, {"temperature", 0}, {"messages", messages}};
  const json whole = server.ask("/v1/messages", message);
  CHECK(whole["type"] == "message");
  CHECK(whole["content"][0]["text"].get<std::string>() == text);
  CHECK((whole["stop_reason"] == "end_turn" || whole["stop_reason"] == "max_tokens"));
  const json counted = server.ask("/v1/messages/count_tokens", message);
  CHECK(counted["input_tokens"] == whole["usage"]["input_tokens"]);
  message["stream"] = true;
  std::string pieces, kinds;
  for (const json& event : events_of(server.post("/v1/messages", message.dump()).body)) {
    const std::string type = event["type"].get<std::string>();
    if (type == "content_block_delta")
      pieces += event["delta"]["text"].get<std::string>();
    else
      kinds += type + " ";
  }
  CHECK(pieces == text);
  CHECK(kinds == "message_start content_block_start content_block_stop message_delta message_stop ");
  CHECK(server.refused("/v1/messages", R"({"messages": [{"role": "user", "content": "Hello"}]})")
            .find("'max_tokens'") != std::string::npos);
  CHECK(server
            .refused("/v1/messages",
                     R"({"max_tokens": 3, "messages": [{"role": "user", "content": )"
                     R"([{"type": "image", "source": {"type": "url", "url": "http://x"}}]}]})")
            .find("messages[0].content[0]") != std::string::npos);

  // Ollama's.
  json chat = {{"model", "chat-2m:latest"},
               {"messages", messages},
               {"stream", false},
               {"options", {{"temperature", 0}, {"num_predict", 30}}}};
  const json told = server.ask("/api/chat", chat);
  CHECK(told["message"]["content"].get<std::string>() == text);
  CHECK(told["done"] == true);
  CHECK(told["eval_count"].get<int>() > 1);
  chat.erase("stream");
  pieces.clear();
  std::istringstream lines(server.post("/api/chat", chat.dump()).body);
  json last;
  for (std::string line; std::getline(lines, line); pieces += last["message"]["content"].get<std::string>())
    last = json::parse(line);
  CHECK(pieces == text);
  CHECK(last["done"] == true);
  const json generated =
      server.ask("/api/generate", {{"model", "chat-2m"},
                                   {"prompt", "What does a cow say?"},
                                   {"stream", false},
                                   {"options", {{"temperature", 0}, {"num_predict", 30}}}});
  CHECK(generated["response"].get<std::string>() == text);
  CHECK(json::parse(server.get("/api/tags").body)["models"][0]["name"] == "chat-2m");
  CHECK(server.ask("/api/show", {{"model", "chat-2m"}})["capabilities"][0] == "completion");
  CHECK(server.refused("/api/generate", R"({"prompt": "a", "options": [1]})").find("'options'") !=
        std::string::npos);
  CHECK(server.refused("/v1/responses", R"({"input": "a", "reasoning": [1]})").find("'reasoning'") !=
        std::string::npos);
  CHECK(server.refused("/api/chat", R"({"model": "nothing"})", 404).find("'nothing'") != std::string::npos);

  CHECK(server.refused("/v1/embeddings", R"({"input": "Hello", "model": "chat-2m"})").find("'model'") !=
        std::string::npos);

  // OpenAI's responses.
  json response = {
      {"model", "chat-2m"}, {"input", "What does a cow say?"}, {"temperature", 0}, {"max_output_tokens", 30}};
  const json responded = server.ask("/v1/responses", response);
  CHECK(responded["output"][0]["content"][0]["text"].get<std::string>() == text);
  response["stream"] = true;
  pieces.clear();
  json end;
  for (const json& event : events_of(server.post("/v1/responses", response.dump()).body)) {
    if (event["type"] == "response.output_text.delta") pieces += event["delta"].get<std::string>();
    end = event;
  }
  CHECK(pieces == text);
  CHECK(end["response"]["output"][0]["content"][0]["text"].get<std::string>() == text);
}

TEST_CASE("calls of tools follow their schemas, and what begins an answer stays") {
  SERVER(server);
  json body = question("What is the weather in Oslo?", 120);
  body["tools"] = {{{"type", "function"},
                    {"function",
                     {{"name", "weather"},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{"city", {{"enum", {"Oslo", "Rome"}}}}}},
                        {"required", {"city"}},
                        {"additionalProperties", false}}}}}}};
  body["tool_choice"] = "required";
  const HttpAnswer answer = server.post("/v1/chat/completions", body.dump());
  if (answer.status == 200) { // where the model's template shows how it writes calls
    const json choice = json::parse(answer.body)["choices"][0];
    REQUIRE(choice["message"].contains("tool_calls"));
    CHECK(choice["finish_reason"] == "tool_calls");
    const json& call = choice["message"]["tool_calls"][0];
    CHECK(call["function"]["name"] == "weather");
    const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
    CHECK((arguments["city"] == "Oslo" || arguments["city"] == "Rome"));
  } else {
    CHECK(answer.status == 400);
    CHECK(answer.body.find("tool") != std::string::npos);
  }
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "nothing"}}}};
  CHECK(server.refused("/v1/chat/completions", body.dump()).find("'tool_choice'") != std::string::npos);

  json begun = question("What does a cow say?", 20);
  begun["temperature"] = 0;
  const std::string text = said(server.ask("/v1/chat/completions", begun));
  const std::string beginning = text.substr(0, text.find(' '));
  begun["messages"].push_back({{"role", "assistant"}, {"content", beginning}});
  const std::string rest = said(server.ask("/v1/chat/completions", begun));
  CHECK(!rest.starts_with(beginning));
}

TEST_CASE("encoders give vectors and ranks, as `pumice embed` and `pumice rerank` do") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  const TemporaryFolder vectors, ranks;
  write_word_folder(vectors, "bert");
  BertFolder pairs;
  pairs.labels = 1;
  REQUIRE(pairs.write(ranks));
  const TemporaryFolder above;
  const std::filesystem::path texts = above.path() / "texts"; // its index is beside it
  std::filesystem::create_directory(texts);
  above.write("texts/a.txt", "w5 w6 w7\n\nw9\n");
  above.write("texts/b.txt", "w20 w21 w22\n\nw9 w10\n");
  const Server server({"--alias", "vectors", "--alias", "other", "--search", texts.string()},
                      {vectors.path().string(), ranks.path().string()});
  const json models = json::parse(server.get("/v1/models").body);
  CHECK(models["data"][0]["kind"] == "vectors");
  const json made = server.ask("/v1/embeddings", {{"model", "vectors"}, {"input", {"w5 w6 w7", "w9"}}});
  REQUIRE(made["data"].size() == 2);
  const CommandResult printed =
      pumice_command({"embed", vectors.path().string(), "w5 w6 w7", "--json", "--no-tune"});
  const json expected = json::parse(printed.out);
  const auto own = made["data"][0]["embedding"].get<std::vector<float>>(),
             theirs = expected["embedding"].get<std::vector<float>>();
  REQUIRE(own.size() == theirs.size());
  for (size_t i = 0; i < own.size(); ++i) CHECK(own[i] == doctest::Approx(theirs[i]).epsilon(1e-4));
  const json short_one =
      server.ask("/v1/embeddings", {{"model", "vectors"}, {"input", "w9"}, {"dimensions", 8}});
  CHECK(short_one["data"][0]["embedding"].size() == 8);
  const json coded =
      server.ask("/v1/embeddings", {{"model", "vectors"}, {"input", "w9"}, {"encoding_format", "base64"}});
  CHECK(coded["data"][0]["embedding"].get<std::string>().size() == (own.size() * 4 + 2) / 3 * 4);
  CHECK(server.ask("/api/embed", {{"model", "vectors"}, {"input", "w9"}})["embeddings"].size() == 1);
  CHECK(server.refused("/v1/embeddings", R"({"model": "vectors", "input": 3})").find("'input'") !=
        std::string::npos);
  CHECK(server.refused("/v1/embeddings", R"({"model": "vectors", "input": ["w9", ""]})").find("'input[1]'") !=
        std::string::npos);
  CHECK(server.refused("/v1/chat/completions", R"({"model": "vectors", "messages": []})").find("'model'") !=
        std::string::npos);
  // The texts of a folder, as `pumice search` finds them, and those of a request.
  const json found = server.ask("/search", {{"query", "w9 w11"}, {"top", 3}});
  std::istringstream lines(pumice_command({"search", vectors.path().string(), texts.string(), "w9 w11",
                                           "--top", "3", "--json", "--no-tune"})
                               .out);
  REQUIRE(found["results"].size() == 3);
  for (const json& each : found["results"]) {
    std::string line;
    REQUIRE(std::getline(lines, line));
    const json other = json::parse(line);
    for (const char* field : {"file", "line", "text"}) CHECK(each[field] == other[field]);
    CHECK(each["score"].get<float>() == doctest::Approx(other["score"].get<float>()).epsilon(1e-4));
  }
  const json nearest = server.ask(
      "/search",
      {{"query", "w9 w11"}, {"documents", {"w20 w21 w22", "w9", {{"text", "w9 w11"}}}}, {"top", 2}});
  REQUIRE(nearest["results"].size() == 2);
  CHECK(nearest["results"][0]["index"] == 2);
  CHECK(nearest["results"][0]["score"].get<float>() == doctest::Approx(1).epsilon(1e-5));
  CHECK(nearest["results"][1]["text"] == "w9");
  CHECK(server.refused("/search", R"({"query": 3})").find("'query'") != std::string::npos);
  CHECK(server.refused("/search", R"({"query": "w9", "documents": []})").find("'documents'") !=
        std::string::npos);

  const json ranked =
      server.ask("/v1/rerank", {{"model", "other"},
                                {"query", "what is a fox?"},
                                {"documents", {"the quick brown fox", "42", {{"text", "a fox"}}}},
                                {"top_n", 2}});
  REQUIRE(ranked["results"].size() == 2);
  const CommandResult scored =
      pumice_command({"rerank", ranks.path().string(), "the quick brown fox", "42", "a fox", "--query",
                      "what is a fox?", "--top", "2", "--json", "--no-tune"});
  std::istringstream best(scored.out);
  for (const json& each : ranked["results"]) {
    std::string line;
    REQUIRE(std::getline(best, line));
    CHECK(each["index"] == json::parse(line)["index"]);
    CHECK(each["relevance_score"].get<float>() ==
          doctest::Approx(json::parse(line)["score"].get<float>()).epsilon(1e-4));
  }
}

TEST_CASE("streams show that the server is there while nothing else comes, and end with their errors") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  const TemporaryFolder folder;
  write_word_folder(folder, "llama-gqa");
  const Server server({"--sequences", "1", "--keep-alive", "0.03", "--alias", "chat", "--alias", "words"},
                      {chat_model, folder.path().string()}, "256");
  // All but the first one wait for their places.
  HttpClient first(server.port()), chat(server.port()), message(server.port()), lines(server.port()),
      whole(server.port());
  first.send(
      http_request("POST", "/v1/completions",
                   R"({"prompt": "Once", "max_tokens": 480, "stream": true, "regex": "[a-z ]{2000}"})"));
  REQUIRE(first.wait_for("\"text\""));
  json body = question("Hello", 4);
  body["model"] = "chat";
  whole.send(http_request("POST", "/v1/chat/completions", body.dump()));
  body["stream"] = true;
  chat.send(http_request("POST", "/v1/chat/completions", body.dump()));
  message.send(http_request("POST", "/v1/messages", body.dump()));
  lines.send(http_request("POST", "/api/chat", body.dump()));
  CHECK(chat.wait_for(": still there"));
  CHECK(message.wait_for("event: ping"));
  CHECK(lines.wait_for("\"content\":\"\"},\"done\":false}"));
  first.close();
  CHECK(http_answer(chat.rest()).body.ends_with("data: [DONE]\n\n"));
  CHECK(http_answer(message.rest()).body.find("event: message_stop") != std::string::npos);
  CHECK(lines.rest().find("\"done\":true") != std::string::npos);
  CHECK(json::parse(http_answer(whole.rest()).body).contains("choices"));

  // No token goes on with this form after two words: an error that comes when the answer has begun.
  const json stuck = {{"model", "words"}, {"prompt", "w5 w6"}, {"stream", true}, {"regex", "( ?w9){2}!"}};
  const HttpAnswer broken = server.post("/api/generate", stuck.dump());
  CHECK(broken.status == 200);
  const size_t at = broken.body.rfind('\n', broken.body.size() - 2);
  REQUIRE(at != std::string::npos); // there are lines before it
  CHECK(json::parse(broken.body.substr(at)).at("error").is_string());
  CHECK(broken.body.find("w9") != std::string::npos);
  CHECK(server.metric("pumice_answers_total{route=\"/api/generate\",status=\"400\"}") == 1);
  CHECK(server.metric("pumice_answers_total{route=\"/api/generate\",status=\"200\"}") == -1);
  const HttpAnswer events = server.post("/v1/completions", stuck.dump());
  CHECK(events_of(events.body).back().contains("error"));
  CHECK(events.body.find("[DONE]") == std::string::npos);
  CHECK(server.metric("pumice_answers_total{route=\"/v1/completions\",status=\"400\"}") == 1);
  CHECK(server.metric("pumice_answers_total{route=\"/v1/messages\",status=\"200\"}") == 1);
}

#ifdef __linux__
TEST_CASE("what there is no memory for is refused, and the server goes on") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  if (sanitized) {
    skip("a program that watches its memory ends where there is none");
    return;
  }
  Server server;
  const pid_t process = server.process().id();
  size_t pages = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/statm") >> pages;
  rlimit before = {};
  REQUIRE(prlimit(process, RLIMIT_AS, nullptr, &before) == 0);
  rlimit limited = before;
  limited.rlim_cur = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + (24u << 20);
  const auto body = [](size_t mebibytes) {
    return "{\"messages\": \"" + std::string(mebibytes << 20, 'a') + "\"}";
  };
  REQUIRE(prlimit(process, RLIMIT_AS, &limited, nullptr) == 0);
  // For its JSON; and for its body.
  for (const char* path : {"/v1/chat/completions", "/api/chat"})
    CHECK(server.refused(path, body(28), 503).find("memory") != std::string::npos);
  CHECK(server.refused("/v1/chat/completions", body(30), 503).find("memory") != std::string::npos);
  CHECK(server.get("/health").status == 200);
  REQUIRE(prlimit(process, RLIMIT_AS, &before, nullptr) == 0);
  CHECK(server.ask("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}}).contains("choices"));
  CHECK(server.metric("pumice_answers_total{route=\"/api/chat\",status=\"503\"}") == 1);
}
#endif

TEST_CASE("a UNIX socket is this user's alone, and is not taken from another server") {
  if (!shared_server()) {
    skip("this build has no server");
    return;
  }
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "socket").string(), out = (folder.path() / "out").string();
  const std::vector<std::string> arguments = {"serve", chat_model, "--socket", path, "--no-tune"};
  CommandProcess server(arguments, [&] {
    redirect(0, "/dev/null", O_RDONLY);
    redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, "/dev/null", O_WRONLY);
  });
  const auto there = [&] { return file_text(out).find("listening on unix:" + path) != std::string::npos; };
  for (int i = 0; i < 3000 && !there() && !server.ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(there());
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms(0777)) ==
        std::filesystem::perms(0600));
  HttpClient client(path);
  client.send(http_request("GET", "/v1/models", ""));
  CHECK(http_answer(client.rest()).body.find("\"chat-2m\"") != std::string::npos);
  CHECK(fails_saying(pumice_command(arguments), {path, "another program listens there"}) == "");
  HttpClient again(path);
  again.send(http_request("GET", "/health", ""));
  CHECK(http_answer(again.rest()).status == 200);
  server.interrupt(SIGTERM);
  CHECK(server.wait() == 0);
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("what other servers call an option is read, or refused where it is not there") {
  SERVER(server);
  const auto written = [&](json more) {
    more.update(json({{"prompt", "Once"}, {"max_tokens", 12}, {"seed", 3}}));
    return server.ask("/v1/completions", more)["choices"][0]["text"].get<std::string>();
  };
  CHECK(written({{"repetition_penalty", 5}}) == written({{"repeat_penalty", 5}}));
  CHECK(written({{"repetition_penalty", 5}}) != written({{"repeat_penalty", 1}}));
  CHECK(written({{"top_k", -1}}) == written({{"top_k", 0}}));
  CHECK(written({{"repetition_penalty", 5}, {"repeat_penalty", nullptr}}) ==
        written({{"repeat_penalty", 5}}));
  const std::string digits = written({{"guided_regex", "[0-9]{3}"}});
  CHECK(digits.size() == 3);
  CHECK(digits.find_first_not_of("0123456789") == std::string::npos);
  CHECK((written({{"guided_choice", {" a", " b"}}}) == " a" || written({{"guided_choice", {" a"}}}) == " a"));
  const json others = {{"tfs_z", 0.5}, {"min_tokens", 3}, {"mirostat", 1}, {"repetition_penalty", 1000}};
  for (const auto& [field, value] : others.items()) {
    json body = {{"prompt", "Once"}, {field, value}};
    const std::string sentence = server.refused("/v1/completions", body.dump());
    CAPTURE(sentence);
    CHECK(sentence.find("field '" + (field == "repetition_penalty" ? "repeat_penalty" : field) + "'") !=
          std::string::npos);
  }
  CHECK(!written({{"tfs_z", 1}, {"ignore_eos", false}, {"top_a", 0}}).empty());
  // Tokens that end a text.
  json greeting = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 60}, {"temperature", 0}};
  CHECK(server.ask("/v1/chat/completions", greeting)["choices"][0]["finish_reason"] == "stop");
  greeting["ignore_eos"] = true;
  const json longer = server.ask("/v1/chat/completions", greeting);
  CHECK(longer["choices"][0]["finish_reason"] == "length");
  CHECK(longer["usage"]["completion_tokens"] == 60);
  greeting["regex"] = "[a-z]{3}";
  CHECK(server.refused("/v1/chat/completions", greeting.dump()).find("'ignore_eos'") != std::string::npos);
  const json ids = server.ask("/tokenize", {{"content", written({{"temperature", 0}})}})["tokens"];
  REQUIRE(ids.size() > 3);
  CHECK(written({{"temperature", 0}, {"stop_token_ids", {ids[2]}}}).size() <
        written({{"temperature", 0}}).size());
  for (const json& bad : {json{1000000}, json(std::vector<int>(17, 1))}) {
    const json body = {{"prompt", "Once"}, {"stop_token_ids", bad}};
    CHECK(server.refused("/v1/completions", body.dump()).find("'stop_token_ids") != std::string::npos);
  }
  // Ollama's: a request without a text loads the model, and lists say what is loaded.
  CHECK(server.ask("/api/chat", {{"model", "chat-2m"}})["message"]["role"] == "assistant");
  CHECK(server.ask("/api/generate", {{"model", "chat-2m"}})["done_reason"] == "load");
  const json running = json::parse(server.get("/api/ps").body)["models"][0];
  CHECK(running["name"] == "chat-2m");
  const std::string digest = running["digest"].get<std::string>(); // its command shows the first 12
  CHECK(digest.size() == 64);
  CHECK(digest.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(running["expires_at"].get<std::string>().starts_with("9999")); // one that stays
  const json shown = server.ask("/api/show", {{"model", "chat-2m"}})["model_info"];
  const std::string family = shown["general.architecture"].get<std::string>();
  CHECK(shown[family + ".context_length"] == 512);
  for (const char* asked : {R"("logprobs": true)", R"("options": {"logprobs": true})"}) {
    const std::string body =
        R"({"messages": [{"role": "user", "content": "a"}], )" + std::string(asked) + "}";
    CHECK(server.refused("/api/chat", body).find("'logprobs'") != std::string::npos);
  }
  // Of a page's script with a client's library.
  const HttpAnswer allowed = server.say(http_request("OPTIONS", "/v1/chat/completions", ""));
  CHECK(allowed.head.find("Access-Control-Allow-Headers: authorization, *\r\n") != std::string::npos);
}

TEST_CASE("the page is one file that runs nothing but its own script") {
  SERVER(server);
  const HttpAnswer page = server.get("/"), again = server.get("/");
  CHECK(page.status == 200);
  CHECK(page.head.find("text/html") != std::string::npos);
  const size_t at = page.head.find("script-src 'nonce-");
  REQUIRE(at != std::string::npos);
  const std::string nonce = page.head.substr(at + 18, page.head.find('\'', at + 18) - at - 18);
  CHECK(page.body.find("<script nonce=\"" + nonce + "\">") != std::string::npos);
  CHECK(page.body.find("NONCE") == std::string::npos);
  CHECK(page.body != again.body);
  CHECK(page.head.find("default-src 'none'") != std::string::npos);
  for (const char* outside : {" src=", "<link", "@import", "url(", "innerHTML", "document.write"})
    CHECK(page.body.find(outside) == std::string::npos);
}

TEST_CASE("every path of the document is there, and answers its example") {
  SERVER(server);
  const json paths = json::parse(server.get("/openapi.json").body)["paths"];
  CHECK(paths.size() > 20);
  for (auto at = paths.begin(); at != paths.end(); ++at) {
    const std::string path = at.key();
    const json& methods = at.value();
    CAPTURE(path);
    if (methods.contains("get")) {
      const size_t name = path.find("{name}");
      CHECK(server.get(name == std::string::npos ? path : path.substr(0, name) + "chat-2m").status == 200);
      continue;
    }
    const json& post = methods["post"];
    if (post["requestBody"]["content"].contains("multipart/form-data")) {
      CHECK(server.refused(path, "{}").find("multipart/form-data") != std::string::npos);
      continue;
    }
    const json& content = post["requestBody"]["content"]["application/json"];
    const json& example = content["example"];
    const bool served = post["x-kind"] == "any" || post["x-kind"] == "text" || post["x-kind"] == "chat";
    const HttpAnswer answer = server.post(path, example.dump());
    CAPTURE(answer.body);
    CHECK(answer.status == (served ? 200 : 400));
    if (!served) CHECK(answer.body.find("'model'") != std::string::npos);
    for (const json& field : content["schema"]["required"]) {
      json less = example;
      less.erase(field.get<std::string>());
      if (served)
        CHECK(server.refused(path, less.dump()).find(field.get<std::string>()) != std::string::npos);
    }
  }
}
