#include "text/formats/huggingface_parts.h"

namespace pumice::text {

namespace {

constexpr uint32_t kMaxStrip = 1024;

// Appends the decoders that the field describes: one, or those of a Sequence.
using Read = Status (*)(const JsonField&, std::vector<DecoderPtr>&);

Status append_decoders(const JsonField& field, std::vector<DecoderPtr>& out);

Status read_byte_level(const JsonField&, std::vector<DecoderPtr>& out) {
  out.push_back(make_byte_level_decoder());
  return {};
}

Status read_byte_fallback(const JsonField&, std::vector<DecoderPtr>& out) {
  out.push_back(make_byte_fallback_decoder());
  return {};
}

Status read_fuse(const JsonField&, std::vector<DecoderPtr>& out) {
  out.push_back(make_fuse_decoder());
  return {};
}

Status read_metaspace(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(std::string replacement, read_character(field.at("replacement"), "▁"));
  PUMICE_TRY(PrependScheme scheme, read_prepend_scheme(field));
  out.push_back(make_metaspace_decoder(std::move(replacement), scheme));
  return {};
}

Status read_replace(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(Pattern pattern, read_pattern(field.at("pattern")));
  PUMICE_TRY(std::string content, field.at("content").string());
  out.push_back(pattern.regex ? make_replace_decoder(*std::move(pattern.regex), std::move(content))
                              : make_replace_decoder(std::move(pattern.string), std::move(content)));
  return {};
}

Status read_strip(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(std::string character, read_character(field.at("content"), " "));
  PUMICE_TRY(uint32_t start, field.at("start").whole_number());
  PUMICE_TRY(uint32_t stop, field.at("stop").whole_number());
  if (start > kMaxStrip) return field.at("start").unsupported(fmt::format("at most {}", kMaxStrip));
  if (stop > kMaxStrip) return field.at("stop").unsupported(fmt::format("at most {}", kMaxStrip));
  out.push_back(make_strip_decoder(first_code_point(character).value, start, stop));
  return {};
}

Status read_wordpiece(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(std::string prefix, field.string_or("prefix", "##"));
  PUMICE_TRY(bool cleanup, field.boolean_or("cleanup", true));
  out.push_back(make_wordpiece_decoder(std::move(prefix), cleanup));
  return {};
}

Status read_suffix(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(std::string suffix, field.string_or("suffix", "</w>"));
  out.push_back(make_suffix_decoder(std::move(suffix)));
  return {};
}

Status read_sequence(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(std::vector<JsonField> elements, field.at("decoders").elements());
  for (const JsonField& element : elements) PUMICE_CHECK(append_decoders(element, out));
  return {};
}

constexpr TypeRow<Read> kTypes[] = {
    {"ByteLevel", read_byte_level},
    {"ByteFallback", read_byte_fallback},
    {"Fuse", read_fuse},
    {"Metaspace", read_metaspace},
    {"Replace", read_replace},
    {"Strip", read_strip},
    {"WordPiece", read_wordpiece},
    {"BPEDecoder", read_suffix},
    {"Sequence", read_sequence},
};

Status append_decoders(const JsonField& field, std::vector<DecoderPtr>& out) {
  PUMICE_TRY(Read read, find_type<Read>(field, kTypes));
  return read(field, out);
}

} // namespace

Result<std::vector<DecoderPtr>> read_decoders(const JsonField& field) {
  std::vector<DecoderPtr> decoders;
  if (field.is_null()) {
    decoders.push_back(make_spaced_decoder());
    return decoders;
  }
  PUMICE_CHECK(append_decoders(field, decoders));
  double growth = 1;
  for (const DecoderPtr& decoder : decoders) growth *= decoder->growth();
  PUMICE_CHECK(check_growth(field, growth));
  return decoders;
}

} // namespace pumice::text
