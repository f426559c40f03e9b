#include "data/left_out.hpp"

#include "config/text/text.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::data {

namespace {

/// Kinds that are named; those with the most files come first.
constexpr size_t most_kinds = 8;

/// The longest ending that counts as a kind of file.
constexpr size_t longest_ending = 12;

/// What systems and file servers make beside users' files.
constexpr std::string_view of_systems[] = {
  "__macosx",  "thumbs.db", "ehthumbs.db",  "desktop.ini",
  "@eadir",    "#recycle",  "$recycle.bin", "system volume information",
  "lost+found"};

std::string ending_of(std::string_view name) {
  auto dot = name.rfind('.');
  if (dot == name.npos || dot == 0 || name.size() - dot > longest_ending ||
      dot + 1 == name.size())
    return "without an ending";
  return config::shown(config::in_small_letters(name.substr(dot)));
}

template <class Counts>
std::string listed_kinds(const Counts& of) {
  std::vector<std::pair<std::string, uint64_t>> all{of.begin(), of.end()};
  std::ranges::stable_sort(all, std::greater{},
                           [](const auto& x) { return x.second; });
  std::string out;
  uint64_t others = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if (i < most_kinds)
      out += (i > 0 ? ", " : "") + std::to_string(all[i].second) + " " +
             all[i].first;
    else
      others += all[i].second;
  return others > 0 ? out + ", " + std::to_string(others) + " others" : out;
}

} // namespace

bool is_hidden(std::string_view name) {
  return name.starts_with('.') || name.starts_with("PaxHeader") ||
         config::is_among(of_systems, config::in_small_letters(name));
}

std::string_view hidden_part(std::string_view path) {
  while (!path.empty()) {
    auto end = std::min(path.find('/'), path.size());
    auto part = path.substr(0, end);
    if (part != "." && is_hidden(part))
      return part;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return {};
}

void left_out::add(std::string_view name) {
  ++endings_[ending_of(name)];
}

// macOS makes a file ._NAME for each file: they count as one kind.
void left_out::add_hidden(std::string_view name) {
  ++hidden_[name.starts_with("._") ? "._*" : config::shown(name)];
}

void left_out::add_link(std::string_view path) {
  if (hidden_part(path).empty())
    ++endings_["link"];
}

void left_out::add(const left_out& other) {
  for (const auto& [name, count] : other.endings_)
    endings_[name] += count;
  for (const auto& [name, count] : other.hidden_)
    hidden_[name] += count;
  without_class_ += other.without_class_;
}

std::string left_out::text() const {
  auto out = listed_kinds(endings_);
  auto go_on = [&out](const std::string& with) {
    out += (out.empty() ? "" : "; ") + with;
  };
  if (without_class_ > 0)
    go_on(std::to_string(without_class_) + " beside the classes");
  if (!hidden_.empty())
    go_on("hidden: " + listed_kinds(hidden_));
  return out;
}

} // namespace troupe::data
