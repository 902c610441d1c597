#include "text/chat/picture_markup.h"

#include <fmt/format.h>

namespace pumice {

namespace {

std::string with_number(std::string text, std::string_view name, uint32_t number) {
  const size_t at = text.find(name);
  return at == std::string::npos ? text : text.replace(at, name.size(), std::to_string(number));
}

std::string repeated(const std::string& text, uint32_t count) {
  std::string result;
  for (uint32_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string tiles_text(const PictureMarkup& markup, const PictureGrid& grid) {
  std::string result;
  for (uint32_t row = 1; row <= grid.rows; ++row) {
    if (row > 1) result += markup.row_break;
    for (uint32_t column = 1; column <= grid.columns; ++column)
      result += with_number(with_number(markup.tile, "{row}", row), "{column}", column) + markup.picture +
                markup.tile_close;
    result += markup.row_end;
  }
  return grid.pictures() > 1 ? result + markup.tiles_end : result;
}

std::string whole_text(const PictureMarkup& markup, const PictureGrid& grid) {
  std::string result = markup.begin;
  for (uint32_t line = 1; !markup.line_end.empty() && line < grid.lines; ++line)
    result += repeated(markup.picture, grid.line) + markup.line_end;
  return result + repeated(markup.picture, markup.line_end.empty() ? 1 : grid.line) + markup.end;
}

} // namespace

std::string PictureMarkup::text(const PictureGrid& grid, uint32_t number) const {
  const std::string tiles = tiles_text(*this, grid), whole = whole_text(*this, grid);
  return with_number(opening, "{number}", number) + (whole_first ? whole + tiles : tiles + whole);
}

PicturePlaces picture_places(const PictureMarkup& markup, std::span<const PictureGrid> grids) {
  PicturePlaces places{markup.place, {}};
  for (const PictureGrid& grid : grids)
    places.texts.push_back(markup.text(grid, static_cast<uint32_t>(places.texts.size())));
  return places;
}

std::string PictureShower::show(std::string_view part) {
  if (places_.place.empty()) return std::string(part);
  std::string result;
  for (;;) {
    const size_t at = part.find(places_.place);
    result += part.substr(0, at);
    if (at == std::string_view::npos) return result;
    if (found_ < places_.texts.size()) result += places_.texts[found_];
    ++found_;
    part.remove_prefix(at + places_.place.size());
  }
}

Status PictureShower::finish(const std::string& source) const {
  if (places_.place.empty() || found_ == places_.texts.size()) return {};
  return Error{Code::invalid_argument,
               fmt::format("{}: it has {} of '{}', which stands for a picture, and {} "
                           "pictures: expected one for each",
                           source, found_, places_.place, places_.texts.size())};
}

Result<std::string> show_pictures(std::string_view text, const PicturePlaces& places,
                                  const std::string& source) {
  PictureShower shower(places);
  std::string result = shower.show(text);
  PUMICE_CHECK(shower.finish(source));
  return result;
}

} // namespace pumice
