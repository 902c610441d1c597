#include "api/input.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "model/picture_preparation.h"

namespace pumice::api {

namespace {

Error wrong(const std::string& name, const char* what) {
  return {Code::invalid_argument, fmt::format("{} {}", name, what)};
}

Status check_input(const pumice_input& given, const InputReader& reader, const std::string& name) {
  const int kinds = (given.text != nullptr) + (given.tokens != nullptr) + (given.values != nullptr) +
                    (given.pixels != nullptr);
  if (kinds > 1) return wrong(name, "has several of text, tokens, values and pixels: set one of them");
  if (!given.tokens && given.token_count) return wrong(name, "has a token_count, and its tokens are NULL");
  if (kinds == 0 && !reader.given_values) {
    return wrong(name, "has none of text, tokens, values and pixels: set one of them");
  }
  if (given.values && reader.model.shape().encoder->kind == InputKind::tokens) {
    return wrong(name, "has values, and the model reads a text or tokens");
  }
  if (given.token_count <= reader.longest) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} has {} tokens: expected at most {}", name, given.token_count, reader.longest)};
}

// A picture, prepared as the model's folder or file says.
Result<std::vector<float>> read_pixels(const pumice_input& given, const Model& model,
                                       const std::string& name) {
  const EncoderShape& shape = *model.shape().encoder;
  if (shape.kind != InputKind::pixels || shape.input_shape[0] != 3) {
    return Error{Code::invalid_argument,
                 fmt::format("{} has pixels, and the model reads no coloured pictures", name)};
  }
  PUMICE_TRY(const Image image, image_of_pixels(given.pixels, given.width, given.height, name));
  PUMICE_TRY(const ImagePreparation preparation, picture_preparation(model.file(), shape));
  if (preparation.tiling) {
    return Error{Code::unsupported,
                 fmt::format("{} has pixels, and the model reads a picture in tiles: show it "
                             "in a chat (pumice_chat_add_picture)",
                             name)};
  }
  return prepare(image, preparation, name);
}

} // namespace

Status check_picture(const pumice_picture& given, const std::string& name) {
  if ((given.file != nullptr) == (given.pixels != nullptr)) {
    return wrong(
        name,
        fmt::format("has {} of pixels and file: set one of them", given.file ? "both" : "none").c_str());
  }
  return check_array(given.file, given.file_bytes, 1, name + ".file");
}

Result<Image> read_picture(const pumice_picture& given, const std::string& name) {
  PUMICE_CHECK(check_picture(given, name));
  if (!given.file) return image_of_pixels(given.pixels, given.width, given.height, name);
  return parse_image({static_cast<const std::byte*>(given.file), given.file_bytes}, name);
}

Result<Image> image_of_pixels(const uint8_t* pixels, uint32_t width, uint32_t height,
                              const std::string& name) {
  const uint64_t count = uint64_t{width} * height;
  if (count == 0 || count > max_image_pixels || std::max(width, height) > max_image_edge) {
    return Error{Code::invalid_argument,
                 fmt::format("{} is a picture of {} x {} pixels: expected 1 to {}, and edges of at most {}",
                             name, width, height, max_image_pixels, max_image_edge)};
  }
  Image image{width, height, {}};
  image.pixels.assign(pixels, pixels + size_t{width} * height * 3);
  return image;
}

Result<EncoderInput> read_input(const pumice_input& given, const InputReader& reader,
                                const std::string& name) {
  PUMICE_CHECK(check_input(given, reader, name));
  const EncoderShape& shape = *reader.model.shape().encoder;
  EncoderInput input;
  if (given.values) {
    input.values.assign(given.values, given.values + shape.input_values());
  } else if (given.pixels) {
    PUMICE_TRY(input.values, read_pixels(given, reader.model, name));
  } else if (given.text) {
    PUMICE_CHECK(require_tokenizer(reader.tokenizer, reader.model));
    const Tokenizer::Part part{given.text, Tokenizer::SpecialTokens::as_text};
    Tokenizer::Encoding text = reader.tokenizer->encode_limited(std::span(&part, 1), reader.longest);
    input.tokens = std::move(text.ids);
    if (shape.token_types > 1) input.token_types = std::move(text.types);
  } else if (given.tokens) {
    input.tokens.assign(given.tokens, given.tokens + given.token_count);
  }
  return input;
}

} // namespace pumice::api
