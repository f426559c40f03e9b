#include "models/storage/described_tensors.hpp"

#include "config/text/text.hpp"
#include "models/storage/sha256.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

namespace troupe::models {

namespace {

constexpr std::string_view between = " = ";
const std::string frozen_key = "troupe.frozen";
const std::string shared_key = "troupe.shared";

std::vector<std::string> split_lines(const std::string& all) {
  std::vector<std::string> out;
  std::istringstream text{all};
  for (std::string line; std::getline(text, line);)
    out.push_back(line);
  return out;
}

bool is_counter(const named_tensor& tensor) {
  return tensor.dtype == "I64" && tensor.shape.empty();
}

/// The end of the text in quotes with which the line begins.
size_t end_of_quotes(std::string_view line) {
  size_t end = 1;
  while (end < line.size() && line[end] != '"')
    end += line[end] == '\\' ? 2 : 1;
  return std::min(end + 1, line.size());
}

/// The value of a key without its lines about constants.
std::string without(const std::set<std::string>& constants,
                    const std::string& key, const std::string& value) {
  if (constants.empty() || (key != frozen_key && key != shared_key))
    return value;
  auto lines = split_lines(value);
  std::erase_if(lines, [&](const std::string& line) {
    std::string_view rest{line};
    auto name = take_name(rest);
    return constants.contains(key == shared_key ? take_name(rest) : name);
  });
  return config::join(lines, "\n");
}

} // namespace

std::vector<std::string> description_lines(const tensor_metadata& from,
                                           const std::string& key) {
  auto found = from.find(key);
  return found == from.end() ? std::vector<std::string>{}
                             : split_lines(found->second);
}

std::string take_name(std::string_view& line) {
  if (line.starts_with('"')) {
    auto text = line.substr(0, end_of_quotes(line));
    auto rest = line.substr(text.size());
    auto read = nlohmann::json::parse(text, nullptr, false);
    if (read.is_string() && (rest.empty() || rest.starts_with(between))) {
      line = rest.substr(std::min(between.size(), rest.size()));
      return read.get<std::string>();
    }
  }
  auto at = std::min(line.find(between), line.size());
  std::string out{line.substr(0, at)};
  line.remove_prefix(std::min(at + between.size(), line.size()));
  return out;
}

std::set<std::string> described_names(const tensor_metadata& from,
                                      const std::string& key) {
  std::set<std::string> out;
  for (const auto& line : description_lines(from, key)) {
    std::string_view rest{line};
    auto name = take_name(rest);
    out.insert(rest.empty() ? name : line);
  }
  return out;
}

std::set<std::string> described_constants(std::span<const named_tensor> tensors,
                                          const tensor_metadata& metadata) {
  auto frozen = described_names(metadata, frozen_key);
  std::string_view trained;
  for (const auto& what : tensors)
    if (trained.empty() && !frozen.contains(what.name) && !is_counter(what))
      trained = what.dtype;
  if (trained.empty())
    return {};
  std::set<std::string> out;
  for (const auto& what : tensors)
    if (frozen.contains(what.name) && what.dtype != trained)
      out.insert(what.name);
  return out;
}

std::string digest_of_described(std::span<const named_tensor> tensors,
                                const tensor_metadata& metadata) {
  auto constants = described_constants(tensors, metadata);
  std::ostringstream text;
  for (const auto& what : tensors) {
    if (constants.contains(what.name) && !is_counter(what))
      continue;
    text << what.name << '\n' << what.dtype;
    for (auto extent : what.shape)
      text << ' ' << extent;
    text << '\n';
  }
  for (const auto& [key, value] : metadata)
    if (key.starts_with("troupe.") && key != carried_key && key != constant_key)
      if (auto rest = without(constants, key, value);
          rest == value || !rest.empty())
        text << key << '\n' << rest << '\n';
  return to_hex(sha256_of(std::as_bytes(std::span{text.view()})));
}

} // namespace troupe::models
