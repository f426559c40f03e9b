#include "data/image_file.hpp"

#include "config/failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

namespace troupe::data {

bool has_image_name(std::string_view name) {
  auto dot = name.rfind('.');
  if (dot == std::string_view::npos)
    return false;
  std::string ending{name.substr(dot + 1)};
  for (auto& c : ending)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return ending == "jpg" || ending == "jpeg" || ending == "png";
}

picture decode_image(std::span<const uint8_t> bytes, const std::string& name,
                     const window_choice& choose) {
  constexpr std::array<uint8_t, 3> jpeg{0xff, 0xd8, 0xff};
  constexpr std::array<uint8_t, 8> png{0x89, 'P',  'N', 'G',
                                       '\r', '\n', 26,  '\n'};
  auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (begins_with(jpeg))
    return decode_jpeg(bytes, name, choose);
  if (begins_with(png))
    return decode_png(bytes, name, choose);
  throw run_error(name + ": at byte 0: is neither a JPEG nor a PNG image");
}

std::vector<uint8_t> read_file(const std::filesystem::path& file) {
  auto fail = [&] {
    throw run_error(file.string() +
                    ": cannot be read: " + std::strerror(errno));
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in{
    std::fopen(file.c_str(), "rb"), &std::fclose};
  if (!in || std::fseek(in.get(), 0, SEEK_END) != 0)
    fail();
  auto size = std::ftell(in.get());
  // A folder opens, too, and says that it is endless.
  if (size < 0 || size == std::numeric_limits<long>::max())
    throw run_error(file.string() + ": is not a regular file");
  std::rewind(in.get());
  std::vector<uint8_t> out(static_cast<size_t>(size));
  out.resize(std::fread(out.data(), 1, out.size(), in.get()));
  if (std::ferror(in.get()) != 0)
    fail();
  return out;
}

void require_possible(const std::string& name, uint64_t width, uint64_t height,
                      uint64_t bytes, uint64_t densest) {
  auto promised = "the header promises " + std::to_string(width) + "x" +
                  std::to_string(height) + " pixels";
  if (width == 0 || height == 0 || width > max_image_pixels ||
      height > max_image_pixels || width * height > max_image_pixels)
    throw run_error(name + ": at byte 0: " + promised + "; the limit is " +
                    std::to_string(max_image_pixels) + " in all");
  if (width * height > bytes * densest)
    throw run_error(name + ": at byte 0: " + promised + ", more than " +
                    std::to_string(bytes) + " bytes can hold");
}

} // namespace troupe::data
