#include "media/heat_map.h"

#include "media/axis_marks.h"
#include "media/canvas.h"
#include "media/svg.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr Colour ink = {28, 36, 48}, faint = {108, 118, 132}, lines = {222, 227, 233},
                 white = {255, 255, 255};
constexpr uint32_t margin = 24, gap = 8, tick = 4;
constexpr uint32_t longest_label = 220;
constexpr uint32_t legend_width = 14, legend_room = 64;
constexpr uint32_t cell_with_number = 34;

const Font& small() {
  return fonts()[0];
}
const Font& normal() {
  return fonts()[1];
}
const Font& large() {
  return fonts()[2];
}

std::u32string line(std::string_view text) {
  return cut_to(drawable(text), normal(), longest_label);
}

// A colour of the OKLCH space, in which equal differences look equal.
Colour from_oklch(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto byte = [](double linear) {
    linear = std::clamp(linear, 0.0, 1.0);
    const double encoded = linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(std::lround(encoded * 255));
  };
  return {byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

// The colour of a share from 0 to 1: lightness falls evenly, while the hue goes from green to blue.
Colour colour_of(double share) {
  share = std::clamp(share, 0.0, 1.0);
  const double hue = (165 + 110 * std::sqrt(share)) / 180 * std::numbers::pi;
  const double chroma = 0.006 + 0.06 * share + 0.1 * std::sin(std::numbers::pi * std::pow(share, 0.85));
  return from_oklch(0.985 - 0.735 * share, chroma, hue);
}

// The tokens along one side: their labels and the size of a cell.
struct Side {
  std::vector<std::u32string> labels;
  const Font* font = nullptr;
  uint32_t cell = 0;
  uint32_t widest = 0; // width of the widest label, in pixels
  bool sparse = false; // most tokens have no label

  uint32_t length() const { return cell * static_cast<uint32_t>(labels.size()); }
  int64_t centre(size_t token) const { return static_cast<int64_t>(token) * cell + cell / 2; }

  explicit Side(const std::vector<std::string>& texts) : font(&normal()) {
    size_t named = 0;
    for (const std::string& text : texts) {
      labels.push_back(line(text));
      named += text.empty() ? 0 : 1;
      widest = std::max(widest, text_width(labels.back(), normal()));
    }
    sparse = named * 2 <= texts.size();
  }

  // Chooses a cell size from `least` to `most` so that the side has about `length` pixels; a smaller one if
  // there are too many cells.
  void choose_cell(uint32_t length, uint32_t least, uint32_t most) {
    const auto count = static_cast<uint32_t>(labels.size());
    if (sparse && count > length / least) {
      cell = std::clamp(length / count, 1U, least);
    } else if (count <= length * 3 / 2 / least) {
      cell = std::clamp(length / count, least, most);
    } else {
      cell = std::clamp(static_cast<uint32_t>(max_heat_map_tokens) / count, 1U, small().size + 3);
      font = &small();
      widest = 0;
      for (const std::u32string& label : labels) widest = std::max(widest, text_width(label, small()));
    }
  }

  // Whether horizontal labels fit without touching each other.
  bool fits_across() const {
    int64_t end = INT32_MIN;
    for (size_t token = 0; token < labels.size(); ++token) {
      if (labels[token].empty()) continue;
      const int64_t half = text_width(labels[token], *font) / 2;
      if (centre(token) - half < end + gap / 2) return false;
      end = centre(token) + half;
    }
    return true;
  }
};

struct Layout {
  Side rows, columns;
  bool upright = false; // whether the columns' labels run upwards
  double darkest = 1;   // the weight with the darkest colour
  uint32_t left = 0, top = 0, width = 0, height = 0;
  uint32_t legend_height = 0;

  explicit Layout(const HeatMap& map) : rows(map.rows), columns(map.columns) {
    const auto count = static_cast<uint32_t>(map.columns.size());
    rows.choose_cell(900, 22, 36);
    if (!columns.sparse && count * (columns.widest + 2 * gap) <= 1000)
      columns.cell = std::max(columns.widest + 2 * gap, 40U);
    else
      columns.choose_cell(1000, 20, 36);
    upright = !columns.fits_across();
    if (map.scale_to_largest) {
      const float largest = *std::ranges::max_element(map.weights);
      if (largest > 0) darkest = largest;
    }
    const uint32_t title = map.title.empty() ? 0 : large().size + 2 * gap;
    left = margin + (map.row_axis.empty() ? 0 : small().size + gap) + rows.widest + gap;
    top = margin + title + (map.column_axis.empty() ? 0 : small().size + gap) +
          (upright ? columns.widest : columns.font->size) + gap;
    legend_height = std::clamp(rows.length(), 96U, 240U);
    const uint32_t title_width = text_width(drawable(map.title), large()) + 2 * margin;
    width = std::clamp(title_width, left + columns.length() + 3 * gap + legend_room + margin,
                       left + std::max(columns.length(), 1200U) + 3 * gap + legend_room + margin);
    height = top + std::max(rows.length(), legend_height) + margin;
  }
};

void draw_cells(Surface& surface, const Layout& layout, const HeatMap& map) {
  const Side &rows = layout.rows, &columns = layout.columns;
  const uint32_t between = std::min(rows.cell, columns.cell) >= 8 ? 1 : 0;
  surface.fill(layout.left - 1, layout.top - 1, columns.length() + 2 - between, rows.length() + 2 - between,
               lines);
  for (size_t row = 0; row < map.rows.size(); ++row)
    for (size_t column = 0; column < map.columns.size(); ++column) {
      const double weight = map.weights[row * map.columns.size() + column], share = weight / layout.darkest;
      surface.fill(layout.left + column * columns.cell, layout.top + row * rows.cell, columns.cell - between,
                   rows.cell - between, colour_of(share));
      if (columns.cell < cell_with_number || rows.cell < 20 || std::abs(weight) < 0.005) continue;
      const std::u32string number = drawable(fmt::format("{:.2f}", weight));
      const int64_t x = layout.left + columns.centre(column) - text_width(number, small()) / 2;
      surface.text(x, layout.top + rows.centre(row) + small().size * 3 / 8, number, small(),
                   share > 0.33 ? white : ink);
    }
}

void draw_labels(Surface& surface, const Layout& layout) {
  const Side &rows = layout.rows, &columns = layout.columns;
  const uint32_t space = layout.rows.sparse ? tick : 0;
  int64_t free_from = 0;
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    const std::u32string& label = rows.labels[row];
    const int64_t y = layout.top + rows.centre(row);
    if (label.empty() || y < free_from) continue;
    free_from = y + rows.font->size;
    if (space) surface.fill(layout.left - tick - 1, y, tick, 1, faint);
    surface.text(layout.left - gap - text_width(label, *rows.font), y + rows.font->size * 3 / 8, label,
                 *rows.font, ink);
  }
  free_from = 0;
  for (size_t column = 0; column < columns.labels.size(); ++column) {
    const std::u32string& label = columns.labels[column];
    const int64_t x = layout.left + columns.centre(column), y = layout.top - gap;
    if (label.empty() || (layout.upright && x < free_from)) continue;
    free_from = x + columns.font->size;
    if (columns.sparse) surface.fill(x, layout.top - tick - 1, 1, tick, faint);
    if (layout.upright)
      surface.text(x + columns.font->size * 3 / 8, y, label, *columns.font, ink, Direction::up);
    else
      surface.text(x - text_width(label, *columns.font) / 2, y, label, *columns.font, ink);
  }
}

void draw_names(Surface& surface, const Layout& layout, const HeatMap& map) {
  uint32_t y = margin;
  if (!map.title.empty()) {
    surface.text(margin, y + large().size * 4 / 5,
                 cut_to(drawable(map.title), large(), layout.width - 2 * margin), large(), ink);
    y += large().size + 2 * gap;
  }
  surface.text(layout.left, y + small().size * 4 / 5, line(map.column_axis), small(), faint);
  const std::u32string name = line(map.row_axis);
  surface.text(margin + small().size * 4 / 5, layout.top + text_width(name, small()), name, small(), faint,
               Direction::up);
}

void draw_legend(Surface& surface, const Layout& layout) {
  const uint32_t x = layout.left + layout.columns.length() + 3 * gap, last = layout.legend_height - 1;
  for (uint32_t step = 0; step <= last; ++step)
    surface.fill(x, layout.top + last - step, legend_width, 1, colour_of(static_cast<double>(step) / last));
  surface.fill(x - 1, layout.top, 1, last + 1, lines);
  surface.fill(x + legend_width, layout.top, 1, last + 1, lines);
  surface.fill(x - 1, layout.top - 1, legend_width + 2, 1, lines);
  surface.fill(x - 1, layout.top + last + 1, legend_width + 2, 1, lines);
  for (const double mark : axis_marks(0, layout.darkest, 5)) {
    const int64_t y = layout.top + std::llround(last * (1 - mark / layout.darkest));
    surface.fill(x + legend_width + 1, y, tick, 1, faint);
    const std::u32string number = drawable(fmt::format("{:.6g}", mark));
    surface.text(x + legend_width + gap, y + small().size * 3 / 8, number, small(), faint);
  }
}

void draw(Surface& surface, const Layout& layout, const HeatMap& map) {
  draw_cells(surface, layout, map);
  draw_labels(surface, layout);
  draw_names(surface, layout, map);
  draw_legend(surface, layout);
}

Status check(const HeatMap& map) {
  const size_t rows = map.rows.size(), columns = map.columns.size();
  if (rows == 0 || columns == 0 || rows > max_heat_map_tokens || columns > max_heat_map_tokens)
    return Error{Code::invalid_argument,
                 fmt::format("a heat map: expected 1 to {} rows and columns, found {} x {}",
                             max_heat_map_tokens, rows, columns)};
  if (map.weights.size() != rows * columns)
    return Error{Code::invalid_argument, fmt::format("a heat map: expected {} x {} weights, found {}", rows,
                                                     columns, map.weights.size())};
  if (!std::ranges::all_of(map.weights, [](float weight) { return std::isfinite(weight); }))
    return Error{Code::invalid_argument, "a heat map: expected finite weights, found one that is not"};
  return {};
}

} // namespace

Result<Image> draw_heat_map(const HeatMap& map) {
  PUMICE_CHECK(check(map));
  const Layout layout(map);
  Canvas canvas(layout.width, layout.height);
  draw(canvas, layout, map);
  return std::move(canvas).take();
}

Result<std::string> heat_map_svg(const HeatMap& map) {
  PUMICE_CHECK(check(map));
  if (map.weights.size() > max_svg_cells)
    return Error{Code::invalid_argument,
                 fmt::format("a heat map: expected at most {} weights in an SVG file, found {}: a PNG file "
                             "takes as many as there are",
                             max_svg_cells, map.weights.size())};
  const Layout layout(map);
  Svg svg(layout.width, layout.height);
  draw(svg, layout, map);
  return std::move(svg).take();
}

std::u32string boxes_in(const HeatMap& map) {
  std::u32string missing;
  for (const std::vector<std::string>* labels : {&map.rows, &map.columns}) {
    for (const std::string& label : *labels) {
      for (const char32_t code : line(label)) {
        if (!has_glyph(code, normal()) && missing.find(code) == std::u32string::npos) missing += code;
      }
    }
  }
  return missing;
}

} // namespace pumice
