#include "config/run_folder/own_file.hpp"

#include "config/text/failure.hpp"

#include <fstream>
#include <system_error>

namespace troupe::config {

std::string beginning_of(const std::filesystem::path& path, size_t most) {
  std::error_code error;
  auto kind = std::filesystem::status(path, error);
  if (!std::filesystem::exists(kind))
    return {};
  if (!std::filesystem::is_regular_file(kind))
    throw usage_error(path.string() + ": is no regular file");
  std::ifstream in{path, std::ios::binary};
  std::string out(most, '\0');
  if (!in ||
      (in.read(out.data(), static_cast<std::streamsize>(most)), in.bad()))
    throw usage_error(path.string() + ": is there already and cannot be read");
  out.resize(static_cast<size_t>(in.gcount()));
  return out;
}

void require_own_file(const std::string& cite,
                      const std::filesystem::path& path,
                      std::string_view beginning) {
  auto found = beginning_of(path);
  auto ours = !beginning.empty() && found.starts_with(beginning);
  if (!found.empty() && !ours)
    throw usage_error(
      cite + " " + path.string() + ": is there already" +
      (beginning.empty() ? "" : ", as a file of something else") +
      ": name another file, or move it away");
}

} // namespace troupe::config
