// `pumice serve` beyond text: pictures and sounds in requests, and the tasks that `pumice` has commands for.
// Each answer is what the command gives.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "media/image.h"
#include "support/command/command.h"
#include "support/command/server.h"
#include "support/files/vision_folder.h"
#include "support/skip.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::string base64(const std::string& bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = word << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : digits[word >> (18 - 6 * j) & 63];
  }
  return text;
}

std::string data_url(const std::string& bytes) {
  return "data:image/png;base64," + base64(bytes);
}

} // namespace

TEST_CASE("pictures in chats are seen as `pumice chat` sees them, by each interface") {
  const TemporaryFolder folder;
  write_vision_folder(folder);
  const std::string model = folder.path().string();
  const std::string a = write_picture(folder, "a.png", 1), b = write_picture(folder, "b.png", 77);
  const Server server({"--kv", "f32", "--alias", "eyes", "--alias", "blind"}, {model, Server::chat_model()},
                      "256");
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  const auto printed = [&](std::vector<std::string> pictures) {
    std::vector<std::string> arguments = {"chat", model, "w20 w21", "--temp", "0",
                                          "-n",   "4",   "--kv",    "f32",    "--json"};
    for (const std::string& each : pictures) arguments.insert(arguments.end(), {"--image", each});
    return json::parse(pumice_command(arguments).out)["content"].get<std::string>();
  };
  const std::string one = printed({a}), other = printed({b}), both = printed({a, b});
  REQUIRE(one != other);
  const json text = {{"type", "text"}, {"text", "w20 w21"}};
  const auto image = [](const std::string& file) -> json {
    return {{"type", "image_url"}, {"image_url", {{"url", data_url(file_text(file))}}}};
  };
  const auto body = [&](const json& content) -> json {
    return {{"model", "eyes"},
            {"temperature", 0},
            {"max_tokens", 4},
            {"messages", {{{"role", "user"}, {"content", content}}}}};
  };
  const auto said = [&](const json& content) {
    return server.ask("/v1/chat/completions", body(content))["choices"][0]["message"]["content"]
        .get<std::string>();
  };
  CHECK(said({image(a), text}) == one);
  CHECK(said({image(b), text}) == other);
  CHECK(said({image(a), image(b), text}) == both);
  CHECK(said({image(a), text}) == one); // its rows again

  // A picture alone counts the rows that the decoder reads.
  const json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", base64(file_text(a))}};
  const json message = body({{{"type", "image"}, {"source", source}}, text});
  const json told = server.ask("/v1/messages", message);
  CHECK(told["content"][0]["text"].get<std::string>() == one);
  CHECK(told["usage"]["input_tokens"] == 20);
  CHECK(server.ask("/v1/messages/count_tokens", message)["input_tokens"] == 20);
  json chat = body("w20 w21");
  chat["messages"][0]["images"] = {base64(file_text(a))};
  chat["stream"] = false;
  chat["options"] = {{"temperature", 0}, {"num_predict", 4}};
  CHECK(server.ask("/api/chat", chat)["message"]["content"].get<std::string>() == one);
  chat["prompt"] = "w20 w21";
  chat["images"] = chat["messages"][0]["images"];
  CHECK(server.ask("/api/generate", chat)["response"].get<std::string>() == one);
  const json shown = {{"type", "input_image"}, {"image_url", data_url(file_text(a))}};
  const json asked = {{"type", "input_text"}, {"text", "w20 w21"}};
  json response = body(nullptr);
  response["input"] = {{{"role", "user"}, {"content", {shown, asked}}}};
  response["max_output_tokens"] = 4;
  CHECK(server.ask("/v1/responses", response)["output"][0]["content"][0]["text"].get<std::string>() == one);
  CHECK(server.ask("/api/show", {{"model", "eyes"}})["capabilities"].dump().find("vision") !=
        std::string::npos);

  // Nothing is fetched or read from a path, and what is no picture is refused.
  const auto refused = [&](const json& part, const std::string& field, const char* what) {
    CAPTURE(part.dump().substr(0, 200));
    const std::string sentence = server.refused("/v1/chat/completions", body({part, text}).dump());
    CAPTURE(sentence);
    CHECK(sentence.find("field 'messages[0].content[0]" + field + "'") != std::string::npos);
    CHECK(sentence.find(what) != std::string::npos);
  };
  const auto by_url = [](const std::string& url) -> json {
    return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
  };
  for (const std::string url : {"http://127.0.0.1/a.png", "https://example.com/a.png", "file:///etc/passwd",
                                "/etc/passwd", "", "data:image/png,abc", "data:;base64"})
    refused(by_url(url), ".image_url.url", "only data URLs");
  refused(by_url("file://" + a), ".image_url.url", "only data URLs");
  refused({{"type", "image_url"}}, ".image_url", "only data URLs");
  refused(by_url("data:image/png;base64,$$$$"), ".image_url.url", "base64");
  refused(by_url("data:image/png;base64,"), ".image_url.url", "base64");
  refused(by_url(data_url("this is no picture")), ".image_url.url", "PNG");
  refused(by_url(data_url(file_text(a).substr(0, 200))), ".image_url.url", "");
  refused({{"type", "image"}, {"checksum", "0"}}, ".type", "text and pictures");
  refused({{"type", "image"}, {"bytes", "abc"}, {"field", "x"}}, ".type", "text and pictures");
  Image large{8000, 5000, {}};
  large.pixels.resize(size_t{3} * large.width * large.height);
  const Result<std::vector<std::byte>> png = png_bytes(large);
  REQUIRE(png.ok());
  refused(by_url(data_url({reinterpret_cast<const char*>(png->data()), png->size()})), ".image_url.url",
          "8000");
  json many = json::array();
  for (int i = 0; i < 17; ++i) many.push_back(image(a));
  CHECK(server.refused("/v1/chat/completions", body(many).dump()).find("at most 16 pictures") !=
        std::string::npos);
  json blind = body({image(a), text});
  blind["model"] = "blind";
  CHECK(server.refused("/v1/chat/completions", blind.dump()).find("reads text alone") != std::string::npos);
  json linked = body({{{"type", "image"}, {"source", {{"type", "url"}, {"url", "http://127.0.0.1/"}}}}});
  CHECK(server.refused("/v1/messages", linked.dump()).find("'messages[0].content[0].source'") !=
        std::string::npos);
  chat["messages"][0]["images"] = {a};
  CHECK(server.refused("/api/chat", chat.dump()).find("'messages[0].images[0]'") != std::string::npos);
}
