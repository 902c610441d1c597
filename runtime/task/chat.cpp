#include "task/chat.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/vocabulary.h"

namespace pumice {

namespace {

constexpr const char* source = "the prompt that the chat template makes";

} // namespace

Result<ModelChat> ModelChat::open(const ModelFile& file, const ModelShape& shape, ChatTemplate chosen,
                                  std::shared_ptr<const Tokenizer> tokenizer,
                                  const ModelChatOptions& options) {
  PUMICE_TRY(ChatPictures pictures, ChatPictures::open(file, shape, options.most_patches));
  std::vector<uint32_t> ends = end_tokens(file, tokenizer.get());
  return ModelChat(Chat(std::move(chosen), std::move(tokenizer), std::move(ends), options.now),
                   std::move(pictures), shape.pictures, file.path(), options.other_template);
}

bool ModelChat::Prompt::encoded() const {
  return std::ranges::all_of(pictures, [](const auto& each) { return each->encoded(); });
}

Result<ModelChat::Prompt> ModelChat::prompt() const {
  Prompt made;
  PUMICE_TRY(made.text, chat_.prompt(pictures_.places(messages())));
  made.tokens = made.text.ids.size();
  if (!shape_) return made;
  PUMICE_TRY(made.pictures, pictures_.shown_by(messages()));
  if (!made.pictures.empty() && std::ranges::count(made.text.ids, shape_->token) == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: its chat template writes no token {} for a picture, which is where this "
                             "model sees it: {}",
                             model_, shape_->token, other_template_)};
  }
  PUMICE_TRY(made.tokens, length_with_pictures(*shape_, made.text.ids, grids_of(made.pictures), source));
  return made;
}

Result<TextForm> ModelChat::form_of_answer(std::shared_ptr<Form> form, const Prompt& prompt) const {
  TextForm result{std::move(form)};
  if (!result.form) return result;
  PUMICE_TRY(const AnswerMarks::Pair thinking, chat_.thinking_before_answer(prompt.text.text));
  if (thinking.end.empty()) return result;
  const Tokenizer& tokenizer = *chat_.tokenizer();
  if (!thinking.begin.empty()) result.before_it = tokenizer.find(thinking.begin);
  // Thinking that does not begin with a token of its own cannot be told from the answer: there is none.
  if (result.before_it || thinking.begin.empty()) result.begins_after = tokenizer.encode(thinking.end, false);
  return result;
}

Result<PicturePrompt> ModelChat::with_rows(const Prompt& prompt) const {
  if (prompt.pictures.empty()) return PicturePrompt{prompt.text.ids, {}};
  std::vector<std::vector<float>> rows;
  for (const std::shared_ptr<PicturePart>& each : prompt.pictures) rows.push_back(each->rows);
  return with_pictures(*shape_, prompt.text.ids, rows, source, grids_of(prompt.pictures));
}

Result<ModelChat::Room> ModelChat::make_room(uint32_t context, uint32_t max_tokens) {
  Room room;
  PUMICE_TRY(room.prompt, prompt());
  room.before = room.now = chat_.check_room(room.prompt.tokens, context, max_tokens);
  while (!room.now.ok()) {
    const size_t forgotten = chat_.forget_oldest_turn();
    if (forgotten == 0) break;
    room.forgotten += forgotten;
    PUMICE_TRY(room.prompt, prompt());
    room.now = chat_.check_room(room.prompt.tokens, context, max_tokens);
  }
  return room;
}

std::vector<AnswerPart> ArrivingAnswer::push(uint32_t token) {
  const std::string text = stops_.push(text_.push(token));
  if (stops_.found()) answer_.cut_text();
  return answer_.push(token, text);
}

std::vector<AnswerPart> ArrivingAnswer::finish() {
  std::string text = stops_.push(text_.flush());
  return answer_.finish(text + stops_.flush());
}

} // namespace pumice
