#include "text/formats/sentence_piece_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "text/unicode/character_map.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Iterates over the fields of a protocol-buffer message.
class Message {
public:
  struct Field {
    uint64_t number = 0;
    Wire wire = Wire::varint;
    uint64_t value = 0;     // for varint, fixed32 and fixed64
    std::string_view bytes; // for bytes
  };

  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  // The next field; nothing if the message is damaged here.
  std::optional<Field> next() {
    const std::optional<uint64_t> tag = varint();
    if (!tag || *tag >> 3 == 0) return std::nullopt;
    Field field;
    field.number = *tag >> 3;
    field.wire = static_cast<Wire>(*tag & 7);
    switch (field.wire) {
    case Wire::varint:
      if (auto value = varint()) {
        field.value = *value;
        return field;
      }
      return std::nullopt;
    case Wire::fixed64:
      return fixed(8, field);
    case Wire::fixed32:
      return fixed(4, field);
    case Wire::bytes: {
      const std::optional<uint64_t> length = varint();
      if (!length || *length > rest_.size()) return std::nullopt;
      field.bytes = rest_.substr(0, *length);
      rest_.remove_prefix(*length);
      return field;
    }
    }
    return std::nullopt;
  }

private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::optional<Field> fixed(size_t size, Field field) {
    if (rest_.size() < size) return std::nullopt;
    for (size_t i = 0; i < size; ++i) field.value |= uint64_t{static_cast<unsigned char>(rest_[i])} << 8 * i;
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

// sentencepiece_model.proto
namespace model_field {
enum : uint64_t { pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5 };
}
namespace piece_field {
enum : uint64_t { text = 1, score = 2, type = 3 };
}
namespace trainer_field {
enum : uint64_t { kind = 3, space_as_suffix = 24 };
}
namespace normalizer_field {
enum : uint64_t { character_map = 2, add_prefix = 3, remove_extra_spaces = 4, escape_spaces = 5 };
}

class Parser {
public:
  explicit Parser(SentencePieceFile& out) : out_(out) {}

  Status run() {
    PUMICE_CHECK(each(out_.bytes, "the file", [this](const Message::Field& field) -> Status {
      switch (field.number) {
      case model_field::pieces:
        return piece(field);
      case model_field::trainer:
        return trainer(field);
      case model_field::normalizer:
        return normalizer(field);
      case model_field::denormalizer:
        return denormalizer(field);
      default:
        return {};
      }
    }));
    return check_pieces();
  }

private:
  Error bad(const std::string& what) const {
    return {Code::invalid_file, fmt::format("{}: not a SentencePiece model: {}", out_.file, what)};
  }
  Error unsupported(const std::string& what) const {
    return {Code::unsupported, fmt::format("{}: {}", out_.file, what)};
  }

  template <class Visit>
  Status each(std::string_view bytes, const std::string& name, const Visit& visit) const {
    Message message(bytes);
    while (!message.at_end()) {
      const std::optional<Message::Field> field = message.next();
      if (!field) return bad(fmt::format("{} is cut off or damaged", name));
      PUMICE_CHECK(visit(*field));
    }
    return {};
  }

  Status expect(const Message::Field& field, Wire wire, const std::string& name) const {
    if (field.wire == wire) return {};
    return bad(fmt::format("field {} of {} is of wire type {}, expected {}", field.number, name,
                           static_cast<int>(field.wire), static_cast<int>(wire)));
  }

  Status piece(const Message::Field& field) {
    const std::string name = fmt::format("piece {}", out_.pieces.size());
    PUMICE_CHECK(expect(field, Wire::bytes, name));
    SentencePieceFile::Piece made;
    PUMICE_CHECK(each(field.bytes, name, [&](const Message::Field& inner) -> Status {
      if (inner.number == piece_field::text) {
        made.text = inner.bytes;
        return expect(inner, Wire::bytes, name);
      }
      if (inner.number == piece_field::score) {
        made.score = std::bit_cast<float>(static_cast<uint32_t>(inner.value));
        return expect(inner, Wire::fixed32, name);
      }
      if (inner.number != piece_field::type) return {};
      if (inner.value < 1 || inner.value > 6)
        return bad(fmt::format("{}: expected a type from 1 to 6, found {}", name, inner.value));
      made.type = static_cast<SentencePieceFile::Type>(inner.value);
      return expect(inner, Wire::varint, name);
    }));
    if (made.text.empty() || made.text.find('\0') != std::string_view::npos || !is_valid_utf8(made.text))
      return bad(fmt::format("{} is empty or not UTF-8", name));
    if (!std::isfinite(made.score)) return bad(fmt::format("the score of {} is not a finite number", name));
    out_.pieces.push_back(made);
    return {};
  }

  Status trainer(const Message::Field& field) {
    PUMICE_CHECK(expect(field, Wire::bytes, "the file"));
    return each(field.bytes, "the trainer's settings", [this](const Message::Field& inner) -> Status {
      if (inner.number == trainer_field::kind) {
        if (inner.value < 1 || inner.value > 4)
          return bad(fmt::format("expected a model type from 1 to 4, found {}", inner.value));
        out_.kind = static_cast<SentencePieceFile::Kind>(inner.value);
      }
      if (inner.number == trainer_field::space_as_suffix && inner.value != 0)
        return unsupported("a SentencePiece model that puts spaces after words is not supported");
      return {};
    });
  }

  Status normalizer(const Message::Field& field) {
    PUMICE_CHECK(expect(field, Wire::bytes, "the file"));
    return each(field.bytes, "the normalizer", [this](const Message::Field& inner) -> Status {
      switch (inner.number) {
      case normalizer_field::character_map:
        out_.character_map = inner.bytes;
        return check_map(inner);
      case normalizer_field::add_prefix:
        out_.add_prefix = inner.value != 0;
        return {};
      case normalizer_field::remove_extra_spaces:
        out_.remove_extra_spaces = inner.value != 0;
        return {};
      case normalizer_field::escape_spaces:
        if (inner.value == 0) return unsupported("a SentencePiece model that keeps spaces is not supported");
        return {};
      default:
        return {};
      }
    });
  }

  // A denormalizer rewrites the whole output, but text is decoded one token at a time here. No known model
  // has one.
  Status denormalizer(const Message::Field& field) {
    PUMICE_CHECK(expect(field, Wire::bytes, "the file"));
    return each(field.bytes, "the denormalizer", [this](const Message::Field& inner) -> Status {
      if (inner.number != normalizer_field::character_map || inner.bytes.empty()) return {};
      return unsupported("a SentencePiece model with rules for its output is not supported");
    });
  }

  Status check_map(const Message::Field& field) const {
    PUMICE_CHECK(expect(field, Wire::bytes, "the normalizer"));
    if (field.bytes.empty()) return {};
    const Result<CharacterMap> map = CharacterMap::parse(field.bytes, out_.file);
    if (!map.ok()) return map.error();
    return {};
  }

  Status check_pieces() {
    if (out_.pieces.empty()) return bad("it has no pieces");
    std::unordered_set<std::string_view> seen;
    size_t unknowns = 0;
    for (uint32_t id = 0; id < out_.pieces.size(); ++id) {
      const SentencePieceFile::Piece& made = out_.pieces[id];
      if (!seen.insert(made.text).second) return bad(fmt::format("the piece \"{}\" occurs twice", made.text));
      if (made.type != SentencePieceFile::Type::unknown) continue;
      out_.unknown = id;
      ++unknowns;
    }
    if (unknowns != 1) return bad(fmt::format("expected one unknown piece, found {}", unknowns));
    return {};
  }

  SentencePieceFile& out_;
};

} // namespace

Result<std::unique_ptr<const SentencePieceFile>> parse_sentence_piece(std::string bytes, std::string file) {
  auto made = std::make_unique<SentencePieceFile>();
  made->file = std::move(file);
  made->bytes = std::move(bytes);
  PUMICE_CHECK(Parser(*made).run());
  return std::unique_ptr<const SentencePieceFile>(std::move(made));
}

} // namespace pumice::text
