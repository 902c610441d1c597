#pragma once

#include <memory>
#include <string>

#include "io/model_file.h"
#include "text/tokenizer.h"

namespace pumice {

// How a decoder is asked whether a text answers a query: a template with {query}, {document} and perhaps
// {instruction}. It is GGUF's tokenizer.chat_template.rerank, as llama.cpp writes it, or else that of
// Qwen3-Reranker, which ends where the model says yes or no.
class RerankTemplate {
public:
  // `instruction`: what a text has to do for the query; empty: the template's own, or a usual one.
  static Result<RerankTemplate> open(const ModelFile& file, std::shared_ptr<const Tokenizer> tokenizer,
                                     const std::string& instruction);

  // At most `limit` tokens: the document is cut. Only the template's own special tokens count as such.
  Tokenizer::Encoding encode(const std::string& query, const std::string& document, size_t limit) const;

private:
  std::vector<uint32_t> encode_part(const std::string& part, const std::string& query,
                                    const std::string& document) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string before_, after_; // the end of the document
  std::string instruction_;
};

// The ids of the answers "yes" and "no". An error if the vocabulary lacks one of them.
struct AnswerIds {
  uint32_t yes = 0, no = 0;
};
Result<AnswerIds> find_answers(const ModelFile& file, const Tokenizer& tokenizer);

} // namespace pumice
