#include "task/rerank_template.h"

#include <array>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr std::string_view query_mark = "{query}", document_mark = "{document}",
                           instruction_mark = "{instruction}";

constexpr const char* usual_instruction =
    "Given a web search query, retrieve relevant passages that answer the query";

constexpr const char* usual_template =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
    "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

} // namespace

Result<RerankTemplate> RerankTemplate::open(const ModelFile& file, std::shared_ptr<const Tokenizer> tokenizer,
                                            const std::string& instruction) {
  constexpr std::string_view key = "tokenizer.chat_template.rerank";
  std::string text = usual_template;
  if (file.format() == ModelFile::Format::gguf) {
    PUMICE_TRY(text, file.fields().string_or(key, text));
  }
  const size_t document = text.find(document_mark);
  if (document == std::string::npos || text.find(query_mark) == std::string::npos) {
    return Error{Code::invalid_file, fmt::format("{}: field '{}': expected a text with {} and {}",
                                                 file.path(), key, query_mark, document_mark)};
  }
  if (!instruction.empty() && text.find(instruction_mark) == std::string::npos) {
    return Error{
        Code::unsupported,
        fmt::format("{}: its template has an instruction of its own: leave --instruction out", file.path())};
  }
  RerankTemplate result;
  result.tokenizer_ = std::move(tokenizer);
  result.before_ = text.substr(0, document + document_mark.size());
  result.after_ = text.substr(document + document_mark.size());
  result.instruction_ = instruction.empty() ? usual_instruction : instruction;
  return result;
}

std::vector<uint32_t> RerankTemplate::encode_part(const std::string& part, const std::string& query,
                                                  const std::string& document) const {
  using Special = Tokenizer::SpecialTokens;
  const std::array<std::pair<std::string_view, const std::string*>, 3> marks = {
      {{query_mark, &query}, {document_mark, &document}, {instruction_mark, &instruction_}}};
  std::vector<Tokenizer::Part> parts;
  const std::string_view all = part;
  size_t from = 0;
  while (from < all.size()) {
    size_t next = all.size();
    const std::pair<std::string_view, const std::string*>* found = nullptr;
    for (const auto& mark : marks) {
      const size_t at = all.find(mark.first, from);
      if (at < next) {
        next = at;
        found = &mark;
      }
    }
    parts.push_back({all.substr(from, next - from), Special::recognised});
    if (!found) break;
    parts.push_back({*found->second, Special::as_text});
    from = next + found->first.size();
  }
  return tokenizer_->encode(parts, false);
}

Tokenizer::Encoding RerankTemplate::encode(const std::string& query, const std::string& document,
                                           size_t limit) const {
  Tokenizer::Encoding encoding;
  encoding.ids = encode_part(before_, query, document);
  const std::vector<uint32_t> end = encode_part(after_, query, document);
  const size_t room = limit - std::min(limit, end.size());
  if (encoding.ids.size() > room) encoding.ids.resize(room);
  encoding.ids.insert(encoding.ids.end(), end.begin(), end.end());
  return encoding;
}

Result<AnswerIds> find_answers(const ModelFile& file, const Tokenizer& tokenizer) {
  const std::optional<uint32_t> yes = tokenizer.find("yes"), no = tokenizer.find("no");
  if (yes && no) return AnswerIds{*yes, *no};
  return Error{
      Code::unsupported,
      fmt::format("{}: its vocabulary has no token '{}', so it cannot answer whether a text fits; use "
                  "pumice embed",
                  file.path(), yes ? "no" : "yes")};
}

} // namespace pumice
