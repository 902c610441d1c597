// `pumice serve` beyond text: pictures and sounds in requests, and the tasks that `pumice` has commands for.
// Each answer is what the command gives.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "media/audio.h"
#include "media/image.h"
#include "support/command/command.h"
#include "support/command/server.h"
#include "support/files/bert_folder.h"
#include "support/files/fixture_picture.h"
#include "support/files/speech_folder.h"
#include "support/files/vision_folder.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/skip.h"
#include "support/vision_models.h"
#include "text/formats/base64.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::string base64(const std::string& bytes) {
  return text::encode_base64(bytes);
}

std::string data_url(const std::string& bytes) {
  return "data:image/png;base64," + base64(bytes);
}

// What `pumice chat` answers to files that are given with `option`.
std::string printed_chat(const std::string& model, const char* option,
                         const std::vector<std::string>& files) {
  std::vector<std::string> arguments = {"chat", model, "w20 w21", "--temp", "0",
                                        "-n",   "4",   "--kv",    "f32",    "--json"};
  for (const std::string& each : files) arguments.insert(arguments.end(), {option, each});
  return json::parse(pumice_command(arguments).out)["content"].get<std::string>();
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
  const auto printed = [&](const std::vector<std::string>& pictures) {
    return printed_chat(model, "--image", pictures);
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
  refused({{"type", "image"}, {"checksum", "0"}}, ".type", "text, pictures and sounds");
  refused({{"type", "image"}, {"bytes", "abc"}, {"field", "x"}}, ".type", "text, pictures and sounds");
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

namespace {

// What a command prints: an object for each input, without the fields that say how it was printed.
std::vector<json> printed(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "--no-tune"});
  const CommandResult result = pumice_command(arguments);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  std::vector<json> lines;
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) {
    json each = json::parse(line);
    for (const char* field : {"schema", "device", "driver", "image", "audio"}) each.erase(field);
    lines.push_back(std::move(each));
  }
  return lines;
}

// Whether they are equal, but for the last bits of numbers: other batches may round otherwise.
bool alike(const json& a, const json& b) {
  if (a.is_number_float() && b.is_number())
    return std::abs(a.get<double>() - b.get<double>()) <= 1e-4 * (1 + std::abs(b.get<double>()));
  if (a.size() != b.size() || a.is_structured() != b.is_structured()) return false;
  if (!a.is_structured()) return a == b;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), alike);
  for (const auto& [name, value] : a.items())
    if (!b.contains(name) || !alike(value, b[name])) return false;
  return true;
}

json without_index(json entry) {
  entry.erase("index");
  return entry;
}

// A form whose parts are names and values; the file is one, too.
std::string form_body(const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string text;
  for (const auto& [name, value] : parts) {
    text += "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"" +
            (name == "file" ? "; filename=\"a \\\" b.wav\"\r\nContent-Type: audio/wav" : "") + "\r\n\r\n" +
            value + "\r\n";
  }
  return text + "--XX--\r\n";
}

HttpAnswer post_form(const Server& server, const std::string& path, const std::string& body,
                     const std::string& type = "multipart/form-data; boundary=XX") {
  return server.say(http_request("POST", path, body, {"Host: localhost", "Content-Type: " + type}));
}

} // namespace

TEST_CASE("translations, labels and captions are those of the commands") {
  const std::string dates = (pretrained_folder() / "dates").string();
  const std::string pictures = fixtures().model("vit").string();
  const TemporaryFolder labels, parts, captions;
  BertFolder bert;
  bert.labels = 3;
  REQUIRE(bert.write(labels));
  write_word_folder(parts, "bert-tokens");
  write_word_folder(captions, "vit-gpt2");
  const std::string a = write_picture(captions, "a.png", 1), b = write_picture(captions, "b.png", 77);
  const Server server({"--alias", "dates", "--alias", "labels", "--alias", "parts", "--alias", "pictures",
                       "--alias", "captions", "--alias", "chat"},
                      {dates, labels.path().string(), parts.path().string(), pictures,
                       captions.path().string(), Server::chat_model()});
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  std::string kinds;
  const json models = json::parse(server.get("/v1/models").body);
  for (const json& each : models["data"]) kinds += each["kind"].get<std::string>() + " ";
  CHECK(kinds == "translation classes spans classes captions text ");

  const json translated = server.ask("/translate", {{"text", {"le 3 mars 2021", "May 4, 1999"}}});
  REQUIRE(translated["translations"].size() == 2);
  CHECK(translated["translations"][0]["text"] == "2021-03-03");
  const std::vector<json> lines = printed({"translate", dates, "le 3 mars 2021", "May 4, 1999"});
  REQUIRE(lines.size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(alike(translated["translations"][i], lines[i]));
  CHECK(translated["usage"]["completion_tokens"].get<size_t>() ==
        lines[0]["tokens"].size() + lines[1]["tokens"].size());
  const json best =
      server.ask("/translate", {{"text", "May 4, 1999"}, {"beams", 3}, {"n_best", 2}, {"alignment", true}});
  CHECK(alike(best["translations"][0], printed({"translate", dates, "May 4, 1999", "--beams", "3", "--n-best",
                                                "2", "--alignment"})[0]));
  CHECK(server.ask("/translate", {{"text", " "}})["translations"][0]["text"] == "");
  const auto wrong = [&](const char* field, const json& value) {
    json body = {{"text", "May 4, 1999"}};
    body[field] = value;
    CAPTURE(body.dump());
    CHECK(server.refused("/translate", body.dump()).find(std::string("field '") + field) !=
          std::string::npos);
  };
  wrong("text", 3);
  wrong("text", json::array());
  wrong("text", std::vector<std::string>(257, "a"));
  wrong("source", "de");
  wrong("target", "xx");
  wrong("task", "none");
  wrong("beams", 0);
  wrong("n_best", 3);
  wrong("glossary", "no tab");
  wrong("sentences", "yes");
  wrong("prefix", 1);

  const json labelled =
      server.ask("/classify", {{"model", "labels"}, {"input", {"the quick brown fox", "42"}}, {"top", 2}});
  const std::vector<json> rows =
      printed({"classify", labels.path().string(), "the quick brown fox", "42", "--top", "2"});
  REQUIRE(labelled["results"].size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(alike(without_index(labelled["results"][i]), rows[i]));
  const json found = server.ask("/classify", {{"model", "parts"}, {"input", "w5 w6 w7 w8"}});
  CHECK(alike(without_index(found["results"][0]),
              printed({"classify", parts.path().string(), "w5 w6 w7 w8"})[0]));
  const json seen = server.ask(
      "/classify", {{"model", "pictures"}, {"image", {data_url(file_text(a)), data_url(file_text(b))}}});
  const std::vector<json> shown = printed({"classify", pictures, a, b});
  REQUIRE(seen["results"].size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(alike(without_index(seen["results"][i]), shown[i]));
  CHECK(server.refused("/classify", R"({"model": "labels"})").find("'input'") != std::string::npos);
  CHECK(server.refused("/classify", R"({"model": "labels", "image": "x"})").find("reads texts") !=
        std::string::npos);
  CHECK(server.refused("/classify", R"({"model": "pictures", "input": "x"})").find("reads pictures") !=
        std::string::npos);
  CHECK(server.refused("/classify", R"({"model": "pictures", "image": "file:///a.png"})")
            .find("only data URLs") != std::string::npos);
  CHECK(server.refused("/tokenize", R"({"model": "pictures", "content": "x"})").find("no tokenizer") !=
        std::string::npos);

  const json described = server.ask(
      "/caption", {{"image", {data_url(file_text(a)), data_url(file_text(b))}}, {"max_tokens", 8}});
  const std::vector<json> told = printed({"caption", captions.path().string(), a, b, "-n", "8"});
  REQUIRE(described["captions"].size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(alike(without_index(described["captions"][i]), told[i]));
  CHECK(server.refused("/caption", "{}").find("'image'") != std::string::npos);
  json many = json::array();
  for (int i = 0; i < 17; ++i) many.push_back("data:,");
  CHECK(server.refused("/caption", json({{"image", many}}).dump()).find("at most 16") != std::string::npos);

  // A model that cannot do it: what it does, and where.
  const auto other = [&](const char* path, const char* model, const char* own) {
    const std::string sentence = server.refused(path, json({{"model", model}, {"text", "a"}}).dump());
    CAPTURE(sentence);
    CHECK(sentence.find(own) != std::string::npos);
  };
  other("/translate", "chat", "'chat' does not translate: it answers chats: /v1/chat/completions");
  other("/caption", "dates", "it translates: /translate");
  other("/v1/embeddings", "parts", "it finds labels: /classify");
  other("/v1/chat/completions", "captions", "it captions pictures: /caption");
}

TEST_CASE("pictures are told apart by labels of the request, as `pumice classify --labels` does") {
  const TemporaryFolder folder;
  write_word_folder(folder, "clip");
  const Answers answers(fixtures().model("clip") / "expected.safetensors");
  const std::string model = folder.path().string();
  std::vector<std::string> pictures, labels;
  json images = json::array();
  for (size_t i = 0; i < answers.shapes.at("pixel_values")[0]; ++i) {
    pictures.push_back((folder.path() / (std::to_string(i) + ".png")).string());
    REQUIRE(write_png(fixture_picture(answers, i), pictures.back()).ok());
    images.push_back(data_url(file_text(pictures.back())));
  }
  std::string lines;
  for (size_t i = 0; i < answers.shapes.at("input_ids")[0]; ++i) {
    labels.push_back(words(answers.ids("input_ids", i)));
    lines += labels.back() + "\n";
  }
  const std::string file = folder.write("labels.txt", lines).string();
  const Server server({"--alias", "clip"}, {model});
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  const auto found = [&](const std::string& sentence, const std::vector<std::string>& names) {
    const json body = {{"image", images}, {"labels", names}, {"sentence", sentence}};
    return server.ask("/classify", body)["results"];
  };
  for (const std::string sentence : {"{}", "w9 {}"}) {
    std::vector<std::string> arguments = {"classify", model, "--labels", file, "--sentence", sentence};
    arguments.insert(arguments.end(), pictures.begin(), pictures.end());
    const std::vector<json> expected = printed(arguments);
    const json results = found(sentence, labels);
    REQUIRE(results.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) CHECK(alike(without_index(results[i]), expected[i]));
  }
  CHECK(found("{}", {labels[0]})[0]["labels"].size() == 1); // other labels, and then these again
  CHECK(found("{}", labels)[0]["labels"].size() == labels.size());
  CHECK(server.ask("/v1/embeddings", {{"input", labels[0]}})["data"].size() == 1);
  const auto refused = [&](json body, const char* field) {
    body["image"] = images;
    CHECK(server.refused("/classify", body.dump()).find("field '" + std::string(field) + "'") !=
          std::string::npos);
  };
  refused(json::object(), "labels");
  refused({{"labels", {"a", ""}}}, "labels");
  refused({{"labels", std::vector<std::string>(257, "a")}}, "labels");
  refused({{"labels", {"a"}}, {"sentence", "none"}}, "sentence");
}

TEST_CASE("speech is written down as `pumice transcribe` does, from forms that are whole") {
  const WhisperFolder folder;
  const std::string model = folder.path().string();
  const TemporaryFolder files;
  const std::string wav = wav_bytes(wail(40000));
  const std::string sound = files.write("a.wav", wav).string();
  const Server server({"--alias", "whisper"}, {model});
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  const std::string path = "/v1/audio/transcriptions";
  const auto heard = [&](std::vector<std::pair<std::string, std::string>> parts, const std::string& to) {
    parts.insert(parts.begin(), {"file", wav});
    const HttpAnswer answer = post_form(server, to, form_body(parts));
    CAPTURE(answer.body.substr(0, 300));
    CHECK(answer.status == 200);
    return answer.body;
  };
  const auto command = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"transcribe", model, sound, "--no-tune"});
    return pumice_command(more).out;
  };
  const std::string lines = command({"--language", "en"});
  CHECK(heard({{"language", "en"}, {"response_format", "text"}, {"model", "whisper"}}, path) == lines);
  CHECK(!json::parse(heard({{"language", "en"}}, path))["text"].get<std::string>().empty());
  // As a stream: each window's text once it is there, and the whole at the end.
  const auto whole_text = json::parse(heard({{"language", "en"}}, path))["text"].get<std::string>();
  std::string pieces;
  json event;
  size_t events = 0;
  std::istringstream stream(heard({{"language", "en"}, {"stream", "true"}}, path));
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("data: ")) continue;
    event = json::parse(line.substr(6));
    ++events;
    if (event["type"] == "transcript.text.delta") pieces += event["delta"].get<std::string>();
  }
  CHECK(events > 2);
  CHECK(event["type"] == "transcript.text.done");
  CHECK(event["text"].get<std::string>() == whole_text);
  CHECK(pieces == whole_text);
  CHECK(heard({{"response_format", "srt"}}, path) == command({"--srt"}));
  CHECK(heard({{"response_format", "vtt"}}, path) == command({"--vtt"}));
  json verbose = json::parse(heard({{"response_format", "verbose_json"},
                                    {"language", "de"},
                                    {"prompt", "abc"},
                                    {"temperature", "0"},
                                    {"timestamp_granularities[]", "segment"},
                                    {"timestamp_granularities[]", "word"}},
                                   "/v1/audio/translations"));
  json expected = printed({"transcribe", model, sound, "--task", "translate", "--language", "de", "--prompt",
                           "abc", "--words"})[0];
  REQUIRE(!expected["segments"].empty());
  json words = json::array();
  for (size_t i = 0; i < expected["segments"].size(); ++i) {
    json& segment = expected["segments"][i];
    for (const json& each : segment.value("words", json::array())) words.push_back(each);
    segment.erase("words");
    segment["id"] = i;
  }
  expected["words"] = words;
  CHECK(alike(verbose, expected));

  // What is wrong is named.
  const auto refused = [&](const std::string& body, const std::string& what,
                           const std::string& type = "multipart/form-data; boundary=XX") {
    const HttpAnswer answer = post_form(server, path, body, type);
    CAPTURE(body.substr(0, 200));
    CAPTURE(answer.body);
    CHECK(answer.status == 400);
    CHECK(answer.body.find(what) != std::string::npos);
  };
  const auto wrong = [&](const std::string& field, const std::string& value) {
    refused(form_body({{"file", wav}, {field, value}}), "field '" + field + "'");
  };
  wrong("response_format", "pdf");
  wrong("temperature", "hot");
  wrong("temperature", "1.5");
  wrong("temperature", "nan");
  wrong("language", "xx");
  wrong("timestamp_granularities[]", "letter");
  wrong("timestamp_granularities[]", "word"); // of json, which has no words
  wrong("stream", "yes");
  refused(form_body({{"file", wav}, {"stream", "true"}, {"response_format", "srt"}}), "field 'stream'");
  wrong("prompt", "\xff");
  refused(form_body({{"file", wav}, {"file", wav}}), "'file': it is there twice");
  refused(form_body({{"language", "en"}}), "'file'");
  refused(form_body({{"file", ""}}), "'file'");
  refused(form_body({{"file", "no sound"}}), "'file'");
  refused(form_body({{"file", wav.substr(0, 30)}}), "'file'");
  refused(form_body({{"file", wav}, {"model", std::string("wh\0", 3)}}).substr(0, 300), "cut off");

  // Forms that are none.
  const std::string whole = form_body({{"language", "en"}});
  const std::string head = "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
  for (size_t cut = 0; cut + 2 < whole.size(); cut += 3) refused(whole.substr(0, cut), "form");
  refused(whole, "boundary", "multipart/form-data");
  refused(whole, "boundary", "multipart/form-data; boundary=" + std::string(71, 'X'));
  refused(whole, "boundary", "multipart/form-data; boundary=\"\"");
  refused(whole, "boundary", "multipart/form-data; boundary=\"XX");
  refused(whole, "boundary", "multipart/form-data; boundary=XX; boundary=XX");
  refused(whole, "boundary", "application/json");
  refused(whole, "begin", "multipart/form-data; boundary=YY");
  refused("preamble\r\n" + whole, "begin");
  refused(whole + "epilogue", "behind its end");
  refused("--XX\r\n\r\nno header\r\n--XX--", "headers of a part");
  refused("--XX\r\nContent-Disposition form-data\r\n\r\nx\r\n--XX--", "colon");
  refused("--XX\r\nContent-Disposition: attachment; name=\"file\"\r\n\r\nx\r\n--XX--", "form-data");
  refused("--XX\r\nContent-Disposition: form-data; name=\"file\r\n\r\nx\r\n--XX--", "form-data");
  refused("--XX\r\nContent-Disposition: form-data; name=\"\"\r\n\r\nx\r\n--XX--", "no name");
  refused("--XX\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: "
          "base64\r\n\r\nx\r\n--XX--",
          "transfer encoding");
  refused("--XX\r\nX: " + std::string(5000, 'x') + "\r\n\r\nx\r\n--XX--", "4096");
  refused(head + "x\r\n--XXX\r\n", "end of a line");
  std::string parts;
  for (int i = 0; i < 65; ++i)
    parts += "--XX\r\nContent-Disposition: form-data; name=p" + std::to_string(i) + "\r\n\r\n\r\n";
  refused(parts + "--XX--", "at most 64");
  const HttpAnswer other =
      server.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})");
  CHECK(other.body.find("it writes down speech: /v1/audio/transcriptions") != std::string::npos);
}

TEST_CASE("sounds in chats are heard as `pumice chat` hears them, by a model that also writes them down") {
  const TemporaryFolder folder;
  picture_tests::write_vision_folder(folder, picture_tests::voxtral());
  const std::string model = folder.path().string();
  const auto song = [](size_t count) {
    std::vector<float> samples(count);
    for (size_t i = 0; i < count; ++i)
      samples[i] = static_cast<float>(0.6 * std::sin(0.05 * double(i) + 3 * std::sin(double(i) / 3000)));
    return wav_bytes(samples);
  };
  const std::string wav = song(40000), other = song(70000);
  const std::string sound = folder.write("a.wav", wav).string(),
                    sound2 = folder.write("b.wav", other).string();
  const Server server({"--kv", "f32", "--alias", "ears", "--alias", "deaf"}, {model, Server::chat_model()},
                      "256");
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  const std::string one = printed_chat(model, "--audio", {sound}),
                    both = printed_chat(model, "--audio", {sound, sound2});
  REQUIRE(one != both);
  const json text = {{"type", "text"}, {"text", "w20 w21"}};
  const auto heard = [](const std::string& data) -> json {
    return {{"type", "input_audio"}, {"input_audio", {{"data", data}, {"format", "wav"}}}};
  };
  const auto body = [&](const json& content) -> json {
    return {{"model", "ears"},
            {"temperature", 0},
            {"max_tokens", 4},
            {"messages", {{{"role", "user"}, {"content", content}}}}};
  };
  const auto said = [&](const json& content) {
    return server.ask("/v1/chat/completions", body(content))["choices"][0]["message"]["content"]
        .get<std::string>();
  };
  const std::string url = "data:audio/wav;base64," + base64(wav);
  CHECK(said({heard(base64(wav)), text}) == one);
  CHECK(said({heard(url), text}) == one);
  CHECK(said({{{"type", "audio_url"}, {"audio_url", {{"url", url}}}}, text}) == one);
  CHECK(said({heard(base64(wav)), heard(base64(other)), text}) == both);
  json response = body(nullptr);
  response["input"] = {
      {{"role", "user"}, {"content", {heard(base64(wav)), {{"type", "input_text"}, {"text", "w20 w21"}}}}}};
  response["max_output_tokens"] = 4;
  CHECK(server.ask("/v1/responses", response)["output"][0]["content"][0]["text"].get<std::string>() == one);

  const json shown = json::parse(server.get("/v1/models/ears").body);
  CHECK(shown["kind"] == "text");
  CHECK(shown["audio"] == true);
  CHECK(shown["transcribes"] == true);
  const HttpAnswer written =
      post_form(server, "/v1/audio/transcriptions", form_body({{"file", wav}, {"response_format", "text"}}));
  CHECK(written.status == 200);
  CHECK(written.body == pumice_command({"transcribe", model, sound, "--no-tune"}).out);

  const auto refused = [&](const json& request, const std::string& what) {
    const std::string sentence = server.refused("/v1/chat/completions", request.dump());
    CAPTURE(what);
    CAPTURE(sentence);
    CHECK(sentence.find(what) != std::string::npos);
  };
  const std::string field = "field 'messages[0].content[0].input_audio";
  refused(body({heard("$$$$"), text}), field + ".data'");
  refused(body({heard("http://127.0.0.1/a.wav"), text}), field + ".data'");
  refused(body({{{"type", "input_audio"}}, text}), field + "'");
  refused(body({{{"type", "audio_url"}, {"audio_url", {{"url", "file://" + sound}}}}}), "only data URLs");
  refused(body({heard(base64("this is no sound")), text}), field + ".data'");
  refused(body({heard(base64(wav.substr(0, 2000))), text}), field + ".data'"); // cut off
  // Minutes of silence, at a rate of 1,000.
  const auto silence = [](size_t seconds) {
    std::string bytes = wav_bytes(std::vector<float>(seconds * 1000));
    constexpr size_t rate_at = 24;
    const uint32_t rate = 1000;
    return bytes.replace(rate_at, sizeof rate, reinterpret_cast<const char*>(&rate), sizeof rate);
  };
  refused(body({heard(base64(silence(601))), text}), "at most 10 minutes");
  const std::string long_one = base64(silence(301));
  refused(body({heard(long_one), heard(long_one), text}), "content[1].input_audio.data'");
  json many = json::array();
  for (int i = 0; i < 17; ++i) many.push_back(heard(base64(wav)));
  refused(body(many), "at most 16");
  json deaf = body({heard(base64(wav)), text});
  deaf["model"] = "deaf";
  refused(deaf, "chat-2m.gguf reads text alone");
  const std::string picture = write_picture(folder, "a.png", 1);
  refused(body({{{"type", "image_url"}, {"image_url", {{"url", data_url(file_text(picture))}}}}, text}),
          "reads text and sounds alone");
  CHECK(said({heard(base64(wav)), text}) == one);
}

TEST_CASE("texts are spoken as `pumice speak` speaks them, as they come") {
  const SpeechFolder folder;
  const TemporaryFolder files;
  const std::string model = folder.path().string(), wav = (files.path() / "out.wav").string();
  const json profile = {{"text", "the fox"},
                        {"words", {{{"word", "the"}, {"duration", 0.1}, {"c1", {1, 2}}, {"c2", {3, 4}}}}}};
  const std::string fox = files.write("fox.json", profile.dump()).string();
  const Server server({"--voice", fox, "--alias", "outetts", "--alias", "chat"},
                      {model, Server::chat_model()});
  if (!server.there()) {
    skip("this build has no server");
    return;
  }
  json body = {
      {"input", "good morning"}, {"temperature", 1}, {"repeat_penalty", 1}, {"seed", 5}, {"max_tokens", 120}};
  std::vector<std::string> options = {"speak", model, "good morning",     "-o", wav,      "--temp", "1",
                                      "-n",    "120", "--repeat-penalty", "1",  "--seed", "5"};
  for (const uint32_t id : folder.unwanted()) {
    body["logit_bias"][std::to_string(id)] = -100;
    options.insert(options.end(), {"--logit-bias", std::to_string(id) + "=-inf"});
  }
  const auto samples_of = [](const std::string& bytes) {
    const auto sound = parse_audio(std::as_bytes(std::span(bytes)), "the answer");
    if (!sound.ok()) FAIL(sound.error().text());
    CHECK(sound->rate == 8000);
    return sound->samples;
  };
  const auto said = [&](const json& more) {
    json asked = body;
    if (more.is_object()) asked.update(more);
    const HttpAnswer answer = server.post("/v1/audio/speech", asked.dump());
    CAPTURE(answer.body.substr(0, 300));
    CHECK(answer.status == 200);
    return answer;
  };
  REQUIRE(pumice_command(options).status == 0);
  const std::vector<float> plain = samples_of(file_text(wav));
  REQUIRE(plain.size() > 240);
  const HttpAnswer whole = said({});
  CHECK(whole.head.find("Content-Type: audio/wav") != std::string::npos);
  CHECK(whole.head.find("Transfer-Encoding: chunked") != std::string::npos);
  CHECK(samples_of(whole.body) == plain);
  CHECK(said({{"voice", "default"}, {"speed", 1.0}}).body == whole.body);
  CHECK(said({{"voice", "alloy"}}).body == whole.body);
  constexpr size_t header = 44;
  CHECK(said({{"response_format", "pcm"}}).body == whole.body.substr(header));
  CHECK(said({{"seed", 6}}).body != whole.body);

  std::string pieces;
  json last;
  const HttpAnswer events = said({{"stream_format", "sse"}});
  std::istringstream lines(events.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ")) continue;
    last = json::parse(line.substr(6));
    if (last["type"] == "speech.audio.delta")
      pieces += *text::decode_base64(last["audio"].get<std::string>());
  }
  CHECK(pieces == whole.body);
  CHECK(last["type"] == "speech.audio.done");
  CHECK(last["usage"]["output_tokens"] == 120);

  options.insert(options.end(), {"--voice", fox});
  REQUIRE(pumice_command(options).status == 0);
  const std::vector<float> other = samples_of(file_text(wav));
  REQUIRE(other != plain);
  CHECK(samples_of(said({{"voice", "fox"}}).body) == other);
  CHECK(samples_of(said({{"voice", profile}}).body) == other);
  CHECK(said({}).body == whole.body); // as before

  const json models = json::parse(server.get("/v1/models").body)["data"];
  CHECK(models[0]["kind"] == "voice");
  CHECK(models[0]["voices"] == json({"default", "fox"}));
  const auto wrong = [&](const char* field, const json& value) {
    json asked = body;
    asked[field] = value;
    CAPTURE(asked.dump());
    CHECK(server.refused("/v1/audio/speech", asked.dump()).find(std::string("field '") + field + "'") !=
          std::string::npos);
  };
  wrong("input", 3);
  wrong("input", " ");
  wrong("voice", "wolf");
  wrong("max_tokens", 1); // before the first sound
  wrong("voice", 3);
  wrong("voice", {{"text", "a"}, {"words", 3}});
  wrong("response_format", "mp3");
  wrong("stream_format", "tape");
  wrong("speed", 1.5);
  wrong("instructions", "Whisper.");
  wrong("temperature", -1);
  wrong("model", "chat");
  const std::string sentence =
      server.refused("/v1/chat/completions", R"({"model": "outetts", "messages": [{"role": "user"}]})");
  CHECK(sentence.find("it speaks: /v1/audio/speech") != std::string::npos);

  // A client that leaves.
  {
    HttpClient leaves(server.port());
    body["max_tokens"] = 480;
    leaves.send(http_request("POST", "/v1/audio/speech", body.dump()));
    CHECK(leaves.wait_for("RIFF"));
  }
  const auto speaking = [&] { return !json::parse(server.get("/slots").body)["slots"].empty(); };
  for (int i = 0; i < 500 && speaking(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_FALSE(speaking());
}
