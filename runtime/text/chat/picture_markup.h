#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice {

// How a picture is cut: into rows and columns of tiles, with the whole picture beside them; 0 x 0: not at
// all.
struct PictureGrid {
  uint32_t rows = 0, columns = 0;
  // Of a picture of any size: the lines of rows that the decoder reads, and how many each has.
  uint32_t lines = 0, line = 0;

  uint32_t pictures() const { return rows * columns + 1; } // tiles, and the whole
};

// How the text of a prompt shows a picture. Models that only repeat a token leave all of it empty.
struct PictureMarkup {
  std::string place;      // stands for a picture in what people and chat templates write
  std::string begin, end; // around the whole picture
  std::string picture;    // the whole picture, or a tile: spells PictureTokens::token
  // Of a picture that is cut: before a tile, where {row} and {column} are its numbers from 1 on; after a row
  // of tiles; and after all of them.
  std::string tile, row_end, tiles_end;
  // Of a picture of any size: between its lines. Then `picture` stands once for each row that the decoder
  // reads.
  std::string line_end = {};
  // Before all of it, tiles and the whole; {number} is the picture's, from 0 on.
  std::string opening = {};
  std::string tile_close = {}; // after a tile
  std::string row_break = {};  // between rows of tiles
  bool whole_first = false;    // the whole stands before the tiles

  // What stands in the text in place of a picture.
  std::string text(const PictureGrid& grid, uint32_t number = 0) const;
};

// The places of pictures in a text, with what is to stand there, in their order.
struct PicturePlaces {
  std::string place; // empty: the text stays as it is
  std::vector<std::string> texts;
};

// The places of pictures that are cut in these ways.
PicturePlaces picture_places(const PictureMarkup& markup, std::span<const PictureGrid> grids);

// Puts the texts in their places. invalid_argument where there are not as many; `source` names the text.
Result<std::string> show_pictures(std::string_view text, const PicturePlaces& places,
                                  const std::string& source);

// The same in steps, for a text that is in parts.
class PictureShower {
public:
  explicit PictureShower(const PicturePlaces& places) : places_(places) {}

  std::string show(std::string_view part);
  // invalid_argument if there were not as many places as texts.
  Status finish(const std::string& source) const;

private:
  const PicturePlaces& places_;
  size_t found_ = 0;
};

} // namespace pumice
