#include "api/input.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "media/resample.h"
#include "model/picture_preparation.h"

namespace pumice::api {

namespace {

Error wrong(const std::string& name, const char* what) {
  return {Code::invalid_argument, fmt::format("{} {}", name, what)};
}

Status check_input(const pumice_input& input, const InputReader& reader, const std::string& name) {
  const int kinds = (input.text != nullptr) + (input.tokens != nullptr) + (input.values != nullptr) +
                    (input.pixels != nullptr);
  if (kinds > 1) return wrong(name, "has several of text, tokens, values and pixels: set one of them");
  if (!input.tokens && input.token_count) return wrong(name, "has a token_count, and its tokens are NULL");
  if (kinds == 0 && !reader.given_values) {
    return wrong(name, "has none of text, tokens, values and pixels: set one of them");
  }
  if (input.values && reader.model.shape().encoder->kind == InputKind::tokens) {
    return wrong(name, "has values, and the model reads a text or tokens");
  }
  if (input.token_count <= reader.longest) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} has {} tokens: expected at most {}", name, input.token_count, reader.longest)};
}

// A picture, prepared as the model's folder or file says.
Result<std::vector<float>> read_pixels(const pumice_input& input, const Model& model,
                                       const std::string& name) {
  const EncoderShape& shape = *model.shape().encoder;
  if (shape.kind != InputKind::pixels || shape.input_shape[0] != 3) {
    return Error{Code::invalid_argument,
                 fmt::format("{} has pixels, and the model reads no coloured pictures", name)};
  }
  PUMICE_TRY(const Image image, image_of_pixels(Pixels(input), name));
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

Result<std::vector<float>> read_samples(std::span<const float> samples, uint32_t rate, uint32_t model_rate,
                                        const std::string& prefix) {
  constexpr uint32_t lowest_rate = 1'000, highest_rate = 768'000;
  PUMICE_CHECK(check_array(samples.data(), samples.size(), sizeof(float), prefix + "samples"));
  if (samples.empty()) return wrong(prefix + "count", "is 0: there is no sound");
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!std::isfinite(samples[i]))
      return Error{Code::invalid_argument,
                   fmt::format("{}samples[{}] is {}: expected a number", prefix, i, samples[i])};
  }
  if (rate > highest_rate) {
    return Error{Code::invalid_argument, fmt::format("{}rate is {}: expected at most {} samples a second",
                                                     prefix, rate, highest_rate)};
  }
  if (rate && rate < lowest_rate) {
    return Error{Code::invalid_argument, fmt::format("{}rate is {}: expected at least {} samples a second",
                                                     prefix, rate, lowest_rate)};
  }
  if (rate && rate != model_rate) return resample(samples, rate, model_rate);
  return std::vector<float>(samples.begin(), samples.end());
}

Status check_picture(const pumice_picture& picture, const std::string& name) {
  if ((picture.file != nullptr) == (picture.pixels != nullptr)) {
    return wrong(
        name,
        fmt::format("has {} of pixels and file: set one of them", picture.file ? "both" : "none").c_str());
  }
  return check_array(picture.file, picture.file_bytes, 1, name + ".file");
}

Result<Image> read_picture(const pumice_picture& picture, const std::string& name) {
  PUMICE_CHECK(check_picture(picture, name));
  if (!picture.file) return image_of_pixels(Pixels(picture), name);
  return parse_image({static_cast<const std::byte*>(picture.file), picture.file_bytes}, name);
}

Result<Image> image_of_pixels(const Pixels& pixels, const std::string& name) {
  const auto [first, width, height, row_bytes, order] = pixels;
  const uint64_t count = uint64_t{width} * height;
  if (count == 0 || count > max_image_pixels || std::max(width, height) > max_image_edge) {
    return Error{Code::invalid_argument,
                 fmt::format("{} is a picture of {} x {} pixels: expected 1 to {}, and edges of at most {}",
                             name, width, height, max_image_pixels, max_image_edge)};
  }
  const int kind = number_in(order);
  if (kind < PUMICE_PIXELS_RGB || kind > PUMICE_PIXELS_BGRA) {
    return Error{Code::invalid_argument,
                 fmt::format("{}.order is {}: expected one of pumice_pixel_order", name, kind)};
  }
  const size_t bytes = order == PUMICE_PIXELS_RGB ? 3 : 4, of_row = width * bytes;
  if (row_bytes > 0 && row_bytes < of_row) {
    return Error{Code::invalid_argument, fmt::format("{}.row_bytes is {}: a row of {} pixels has {}", name,
                                                     row_bytes, width, of_row)};
  }
  if (row_bytes > static_cast<size_t>(PTRDIFF_MAX) / height) {
    return Error{Code::invalid_argument,
                 fmt::format("{}.row_bytes is {}: no memory holds {} such rows", name, row_bytes, height)};
  }
  const size_t red = order == PUMICE_PIXELS_BGRA ? 2 : 0;
  Image image{width, height, {}};
  image.pixels.reserve(count * 3);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* row = first + y * (row_bytes > 0 ? row_bytes : of_row);
    if (bytes == 3) {
      image.pixels.insert(image.pixels.end(), row, row + of_row);
      continue;
    }
    for (const uint8_t* pixel = row; pixel < row + of_row; pixel += bytes)
      image.pixels.insert(image.pixels.end(), {pixel[red], pixel[1], pixel[2 - red]});
  }
  return image;
}

Result<EncoderInput> read_input(const pumice_input& input, const InputReader& reader,
                                const std::string& name) {
  PUMICE_CHECK(check_input(input, reader, name));
  const EncoderShape& shape = *reader.model.shape().encoder;
  EncoderInput result;
  if (input.values) {
    result.values.assign(input.values, input.values + shape.input_values());
    const auto bad = std::ranges::find_if_not(result.values, [](float v) { return std::isfinite(v); });
    if (bad != result.values.end()) {
      return Error{Code::invalid_argument, fmt::format("{}.values[{}] is {}: expected finite numbers", name,
                                                       bad - result.values.begin(), *bad)};
    }
  } else if (input.pixels) {
    PUMICE_TRY(result.values, read_pixels(input, reader.model, name));
  } else if (input.text) {
    PUMICE_CHECK(require_tokenizer(reader.tokenizer, reader.model));
    const Tokenizer::Part part{input.text, Tokenizer::SpecialTokens::as_text};
    Tokenizer::Encoding text = reader.tokenizer->encode_limited(std::span(&part, 1), reader.longest);
    result.tokens = std::move(text.ids);
    if (shape.token_types > 1) result.token_types = std::move(text.types);
  } else if (input.tokens) {
    result.tokens.assign(input.tokens, input.tokens + input.token_count);
  }
  return result;
}

} // namespace pumice::api
