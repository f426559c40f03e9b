// Bilinear resizing with antialiasing as PIL does it (and with it torchvision
// on images): a triangle as wide as the scale, weights in 22 binary digits,
// rows first and rounded to bytes, then columns. The bytes are PIL's; PIL 13
// goes down the columns first for some shapes, and then a level may differ.

#include "data/transforms/transforms.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::data {

namespace {

constexpr int digits = 32 - 8 - 2;

/// Where the pixels of a row or column of the result come from.
struct weights {
  int64_t reach = 0;            ///< Room for the weights of a pixel.
  std::vector<int64_t> first;   ///< Of each pixel: the first that counts,
  std::vector<int64_t> count;   ///< and how many.
  std::vector<int32_t> factors; ///< [pixels, reach]
};

/// @param in, out Pixels along this side. Only pixels begin .. begin + count -
/// 1 of the result are asked for.
weights make_weights(int64_t in, int64_t out, int64_t begin, int64_t count) {
  auto scale = static_cast<double>(in) / static_cast<double>(out);
  auto wide = std::max(scale, 1.0);
  weights made;
  made.reach = static_cast<int64_t>(std::ceil(wide)) * 2 + 1;
  made.factors.resize(static_cast<size_t>(count * made.reach));
  std::vector<double> exact(static_cast<size_t>(made.reach));
  for (int64_t i = 0; i < count; ++i) {
    auto centre = (static_cast<double>(begin + i) + 0.5) * scale;
    auto first =
      std::max<int64_t>(static_cast<int64_t>(centre - wide + 0.5), 0);
    auto last =
      std::min<int64_t>(static_cast<int64_t>(centre + wide + 0.5), in);
    double sum = 0;
    auto n = static_cast<size_t>(last - first);
    for (size_t k = 0; k < n; ++k) {
      auto distance =
        (static_cast<double>(first) + static_cast<double>(k) - centre + 0.5) *
        (1.0 / wide);
      exact[k] = std::max(0.0, 1.0 - std::abs(distance));
      sum += exact[k];
    }
    auto* to = made.factors.data() + i * made.reach;
    for (size_t k = 0; k < n; ++k)
      to[k] = static_cast<int32_t>(
        0.5 + (sum != 0 ? exact[k] / sum : exact[k]) * (1 << digits));
    made.first.push_back(first);
    made.count.push_back(last - first);
  }
  return made;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> digits, 0, 255));
}

constexpr int32_t half = 1 << (digits - 1);

/// A row of pixels with `Channels` values side by side.
template <int Channels>
void shrink_row(const uint8_t* from, int64_t column, int64_t plane,
                const weights& how, uint8_t* to) {
  for (size_t x = 0; x < how.first.size(); ++x) {
    const auto* factors =
      how.factors.data() + static_cast<int64_t>(x) * how.reach;
    const auto* pixel = from + how.first[x] * column;
    std::array<int32_t, Channels> sums;
    sums.fill(half);
    for (int64_t k = 0; k < how.count[x]; ++k, pixel += column)
      for (int c = 0; c < Channels; ++c)
        sums[static_cast<size_t>(c)] += factors[k] * pixel[c * plane];
    for (auto sum : sums)
      *to++ = to_byte(sum);
  }
}

void shrink_row(const picture& from, int64_t y, const weights& how,
                uint8_t* to) {
  const auto* row = from.at(y, 0, 0);
  if (from.channels == 3 && from.plane == 1 && from.column == 3)
    shrink_row<3>(row, 3, 1, how, to);
  else if (from.channels == 3)
    shrink_row<3>(row, from.column, from.plane, how, to);
  else
    shrink_row<1>(row, from.column, from.plane, how, to);
}

/// Weighs rows of bytes into one.
void blend_rows(const uint8_t* from, size_t row, const int32_t* factors,
                int64_t count, int32_t* sums, uint8_t* to) {
  std::fill_n(sums, row, half);
  for (int64_t k = 0; k < count; ++k, from += row)
    for (size_t i = 0; i < row; ++i)
      sums[i] += factors[k] * from[i];
  for (size_t i = 0; i < row; ++i)
    to[i] = to_byte(sums[i]);
}

} // namespace

picture resize(const picture& from, int64_t height, int64_t width,
               const window& part) {
  if (from.height == height && from.width == width)
    return cut(from, part);
  auto across = make_weights(from.width, width, part.left, part.width);
  auto down = make_weights(from.height, height, part.top, part.height);
  // Rows that count.
  auto begin = part.top;
  auto end = part.top + part.height;
  if (from.height != height) {
    begin = down.first.front();
    end = down.first.back() + down.count.back();
  }
  auto row = static_cast<size_t>(part.width * from.channels);
  std::vector<uint8_t> narrow(static_cast<size_t>(end - begin) * row);
  if (from.width == width)
    narrow = cut(from, {begin, part.left, end - begin, part.width}).owned;
  else
    for (auto y = begin; y < end; ++y)
      shrink_row(from, y, across,
                 narrow.data() + static_cast<size_t>(y - begin) * row);
  if (from.height == height) {
    auto out = make_picture(part.height, part.width, from.channels);
    std::copy(narrow.begin(), narrow.end(), out.owned.begin());
    return out;
  }
  auto out = make_picture(part.height, part.width, from.channels);
  std::vector<int32_t> sums(row);
  for (size_t y = 0; y < down.first.size(); ++y)
    blend_rows(narrow.data() + static_cast<size_t>(down.first[y] - begin) * row,
               row, down.factors.data() + static_cast<int64_t>(y) * down.reach,
               down.count[y], sums.data(), out.owned.data() + y * row);
  return out;
}

} // namespace troupe::data
