#include <fmt/format.h>

#include "text/formats/gguf_splits.h"
#include "text/formats/read_tokenizer.h"
#include "text/scored_bpe.h"
#include "text/unicode/byte_level.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

Result<std::unique_ptr<TokenizerParts>> read_ranked(const Tokenizer::RankedVocabulary& ranked) {
  auto parts = std::make_unique<TokenizerParts>();
  Vocabulary::Builder builder;
  std::string spelled;
  uint32_t next = 0;
  for (const std::string_view word : ranked.words) {
    spelled.clear();
    append_byte_level(spelled, escape_bytes(word));
    builder.add(spelled, next++);
  }
  PUMICE_TRY(parts->vocabulary,
             std::move(builder).build(Vocabulary::Repeated::last_wins, ranked.file + ": vocabulary"));
  std::vector<AddedToken> added;
  for (const std::string& name : ranked.special) {
    PUMICE_CHECK(parts->vocabulary.add_hidden(name, next, ranked.file + ": vocabulary"));
    AddedToken token;
    token.content = name;
    token.id = next++;
    token.special = true;
    added.push_back(std::move(token));
  }
  parts->added_tokens = AddedTokens(std::move(added), nullptr);
  PUMICE_TRY(parts->pre_tokenizer, make_gguf_split(*find_gguf_split("gpt-2")));
  std::vector<float> scores(next);
  for (uint32_t id = 0; id < next; ++id) scores[id] = -static_cast<float>(id);
  parts->model = make_scored_bpe(parts->vocabulary, std::move(scores), {});
  parts->decoders.push_back(make_byte_level_decoder());
  parts->post_processor = PostProcessor::around(ranked.before, ranked.after);
  if (!ranked.before.empty()) parts->bos = ranked.before.front();
  if (!ranked.after.empty()) parts->eos = ranked.after.front();
  return parts;
}

} // namespace pumice::text
