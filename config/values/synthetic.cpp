#include "config/values/synthetic.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

namespace troupe::config {

namespace {

constexpr uint64_t largest_side = 4096;
constexpr uint64_t most_bytes = uint64_t{8} << 30;

const call_schema synthetic_schema{
  "synthetic",
  {{"shape", "CxHxW", "of a sample", any_text(), "3x32x32"},
   {"classes", "N", "of labels", whole(1, 256),
    std::to_string(synthetic_data{}.classes)},
   {"samples", "N", "for training", whole(1, UINT32_MAX),
    std::to_string(synthetic_data{}.samples)}}};

/// "3x32x32"
std::array<int64_t, 3> parse_shape(std::string_view text) {
  std::array<int64_t, 3> out{};
  for (auto& extent : out) {
    auto end = text.find('x');
    auto last = &extent == &out.back();
    if ((end == std::string_view::npos) != last)
      throw bad_value("shape of synthetic must be CxHxW, such as 3x32x32");
    try {
      extent = static_cast<int64_t>(parse_unsigned(
        whole(1, largest_side).read(text.substr(0, end)), largest_side));
    } catch (const bad_value& why) {
      throw bad_value(std::string{"shape of synthetic "} + why.what());
    }
    text = last ? "" : text.substr(end + 1);
  }
  return out;
}

} // namespace

bool is_synthetic(std::string_view text) {
  return name_of_call(text) == "synthetic";
}

synthetic_data parse_synthetic(std::string_view text) {
  auto values = read_arguments(synthetic_schema, trim(text));
  synthetic_data out{parse_shape(values.text("shape")),
                     static_cast<int64_t>(values.whole("classes")),
                     values.whole("samples")};
  auto pixels =
    static_cast<uint64_t>(out.shape[0] * out.shape[1] * out.shape[2]);
  if (pixels > most_bytes / out.samples)
    throw bad_value("asks for more than 8 GiB of samples");
  return out;
}

std::string to_string(const synthetic_data& dataset) {
  auto [channels, height, width] = dataset.shape;
  return "synthetic(shape=" + std::to_string(channels) + "x" +
         std::to_string(height) + "x" + std::to_string(width) +
         ",classes=" + std::to_string(dataset.classes) +
         ",samples=" + std::to_string(dataset.samples) + ")";
}

} // namespace troupe::config
