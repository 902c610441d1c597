#include "step/picture_rows.h"

#include <algorithm>

#include "step/patch_order.h"

namespace pumice {

namespace {

// Rows are in the order of their windows.
std::vector<float> ordered_rows(const PatchGroups& groups, const PatchGrid& grid, std::vector<float> all,
                                size_t columns) {
  const std::vector<uint32_t> squares = ordered_squares(grid, groups);
  std::vector<float> rows(std::min(all.size(), squares.size() * columns));
  for (size_t i = 0; (i + 1) * columns <= rows.size(); ++i) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(i * columns);
    std::copy_n(from, columns, rows.begin() + static_cast<ptrdiff_t>(squares[i] * columns));
  }
  return rows;
}

// Of a sound's positions each so-many'th is a row. Its columns are followed by those of a row that stands
// behind the sound.
std::vector<float> heard_rows(uint32_t joined, size_t count, std::span<const float> all, size_t columns) {
  std::vector<float> rows;
  for (size_t i = 0; i < count && !all.empty(); ++i) {
    const size_t from = i * joined * columns;
    const auto row =
        from < all.size() ? all.subspan(from, columns / 2) : all.subspan(columns / 2, columns / 2);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

} // namespace

std::vector<float> rows_of_picture(const PictureTokens& shape, const EncoderShape& tower,
                                   const PatchGrid& grid, std::vector<float> all, size_t columns) {
  if (tower.patch_groups) return ordered_rows(*tower.patch_groups, grid, std::move(all), columns);
  if (tower.sound_windows && tower.kind == InputKind::samples)
    return heard_rows(tower.sound_windows->joined, shape.rows_of(grid), all, columns);
  const size_t skipped = std::min(columns * shape.skipped, all.size());
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(skipped));
  all.resize(std::min(columns * shape.rows_of(grid), all.size()));
  return all;
}

Result<PictureRows> PictureRows::create(std::shared_ptr<const Model> tower, const PictureTokens& shape) {
  PictureRows result;
  result.shape_ = shape;
  result.tile_tower_ = tower->for_tiles();
  result.tower_ = std::move(tower);
  if (!shape.of_any_size()) PUMICE_CHECK(result.make_room(0));
  return result;
}

Status PictureRows::make_room(uint32_t positions) {
  if (encoder_ && positions <= encoder_->longest()) return {};
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  options.tokens = std::min(positions, tower_->shape().encoder->context);
  encoder_.reset(); // its memory is free for the next one
  PUMICE_TRY(encoder_, Encoder::create(tower_, std::move(options)));
  return {};
}

Result<Encoder*> PictureRows::encoder_for(const EncoderInput& picture) {
  if (tile_tower_ && picture.grid.count() > 0) {
    if (!tile_encoder_) {
      EncoderOptions options;
      options.readable = {PictureTokens::features};
      PUMICE_TRY(tile_encoder_, Encoder::create(tile_tower_, std::move(options)));
    }
    return tile_encoder_.get();
  }
  if (shape_.of_any_size())
    PUMICE_CHECK(make_room(static_cast<uint32_t>(std::min<uint64_t>(picture.grid.count(), UINT32_MAX))));
  return encoder_.get();
}

Result<std::vector<std::vector<float>>> PictureRows::rows(std::span<const EncoderInput> pictures,
                                                          const std::atomic<bool>* interrupt) {
  std::vector<std::vector<float>> result;
  for (const EncoderInput& picture : pictures) {
    PUMICE_TRY(Encoder* const encoder, encoder_for(picture));
    encoder->runner().set_interrupt(interrupt);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder->encode(std::span(&picture, 1)));
    for (const InputRange& range : ranges) encoder->release(range);
    PUMICE_TRY(std::vector<float> rows, encoder->read(PictureTokens::features, 0));
    result.push_back(rows_of_picture(shape_, encoder->shape(), picture.grid, std::move(rows),
                                     encoder->columns(PictureTokens::features)));
  }
  return result;
}

} // namespace pumice
