#include "data/formats/image_file.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"

#include <algorithm>
#include <array>

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

std::vector<uint8_t> read_file(const std::filesystem::path& file) try {
  config::input_file in{file};
  std::vector<uint8_t> out(in.size());
  out.resize(in.read(0, std::as_writable_bytes(std::span{out})));
  return out;
} catch (const config::unreadable& why) {
  config::refuse_file(file, why);
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
