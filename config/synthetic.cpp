#include "config/synthetic.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <set>

namespace troupe::config {

namespace {

constexpr uint64_t largest_side = 4096;
constexpr uint64_t most_bytes = uint64_t{8} << 30;

uint64_t parse_count(const call::argument& from, uint64_t most) {
  uint64_t value = 0;
  try {
    value = parse_unsigned(from.value, most);
  } catch (const bad_value& why) {
    throw bad_value(std::string{from.name} + " of synthetic " + why.what());
  }
  if (value == 0)
    throw bad_value(std::string{from.name} +
                    " of synthetic must be at least 1");
  return value;
}

/// "3x32x32"
std::array<int64_t, 3> parse_shape(const call::argument& from) {
  std::array<int64_t, 3> out{};
  auto rest = from.value;
  for (auto& extent : out) {
    auto end = rest.find('x');
    auto last = &extent == &out.back();
    if ((end == std::string_view::npos) != last)
      throw bad_value("shape of synthetic must be CxHxW, such as 3x32x32");
    extent = static_cast<int64_t>(
      parse_count({from.name, rest.substr(0, end)}, largest_side));
    rest = last ? "" : rest.substr(end + 1);
  }
  return out;
}

void take(synthetic_data& out, const call::argument& from) {
  if (from.name == "shape")
    out.shape = parse_shape(from);
  else if (from.name == "classes")
    out.classes = static_cast<int64_t>(parse_count(from, 256));
  else if (from.name == "samples")
    out.samples = parse_count(from, UINT32_MAX);
  else
    throw bad_value(in_quotes(from.name.empty() ? from.value : from.name) +
                    " is no parameter of synthetic, which has shape, classes "
                    "and samples");
}

} // namespace

bool is_synthetic(std::string_view text) {
  return name_of_call(text) == "synthetic";
}

synthetic_data parse_synthetic(std::string_view text) {
  synthetic_data out;
  if (trim(text) == "synthetic")
    return out;
  auto written = parse_call(text);
  std::set<std::string_view> given;
  if (!written.empty())
    for (const auto& argument : written.arguments) {
      take(out, argument);
      if (!given.insert(argument.name).second)
        throw bad_value(std::string{argument.name} +
                        " of synthetic is given twice");
    }
  auto pixels =
    static_cast<uint64_t>(out.shape[0] * out.shape[1] * out.shape[2]);
  if (pixels > most_bytes / out.samples)
    throw bad_value("asks for more than 8 GiB of samples");
  return out;
}

std::string to_string(const synthetic_data& what) {
  auto [channels, height, width] = what.shape;
  return "synthetic(shape=" + std::to_string(channels) + "x" +
         std::to_string(height) + "x" + std::to_string(width) +
         ",classes=" + std::to_string(what.classes) +
         ",samples=" + std::to_string(what.samples) + ")";
}

} // namespace troupe::config
