#include "tests/support/replayed_checkpoints.hpp"

#include "messages/proto/manifest.pb.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> bytes_of(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in)
    return std::nullopt;
  return std::string{std::istreambuf_iterator<char>{in}, {}};
}

std::string name_of(uint64_t step) {
  char out[32];
  std::snprintf(out, sizeof out, "step-%08llu",
                static_cast<unsigned long long>(step));
  return out;
}

/// The numbers of a safetensors file, all of them as float32.
std::vector<float> numbers_of(const std::string& file) {
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  auto first = sizeof header + header;
  std::vector<float> out((file.size() - first) / sizeof(float));
  std::memcpy(out.data(), file.data() + first, out.size() * sizeof(float));
  return out;
}

bool are_close(const std::string& x, const std::string& y, double tolerance) {
  if (x == y)
    return true;
  if (tolerance == 0 || x.size() != y.size())
    return false;
  auto a = numbers_of(x);
  auto b = numbers_of(y);
  double largest = 0;
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max<double>(largest, std::abs(a[i]));
    distance = std::max<double>(distance, std::abs(a[i] - b[i]));
  }
  return distance <= tolerance * largest;
}

} // namespace

/// A slot of an optimiser is a mean of gradients. Where rounding decides which
/// number of a pool is the largest, the whole gradient of a sample differs.
constexpr double more_in_slots = 10;

checkpoint_comparison compare_checkpoints(const fs::path& run, uint64_t life,
                                          const fs::path& replay,
                                          double tolerance) {
  checkpoint_comparison out;
  std::error_code none;
  for (const auto& saved : fs::directory_iterator{run / "checkpoints", none}) {
    proto::Manifest manifest;
    auto text = bytes_of(saved.path() / "manifest.pb");
    if (!text || !manifest.ParseFromString(*text) ||
        manifest.ps_incarnation() != life)
      continue;
    ++out.compared;
    auto again = replay / "checkpoints" / name_of(manifest.step());
    for (const auto& [name, allowed] :
         {std::pair{"model.safetensors", tolerance},
          std::pair{"optimizer.safetensors", more_in_slots * tolerance}})
      if (auto found = bytes_of(again / name);
          !found || !are_close(*found, *bytes_of(saved.path() / name), allowed))
        out.differences.push_back(
          (saved.path() / name).string() +
          (found ? " has other numbers than " : " is not in the replay: ") +
          again.string());
  }
  return out;
}

} // namespace troupe::test
