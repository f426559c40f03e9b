#include "data/formats/tar.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace troupe::data {

namespace {

constexpr uint64_t block = 512;

/// The most bytes of a long name or of an extended header.
constexpr uint64_t longest_extra = 1 << 20;

using header = std::array<uint8_t, block>;

class walker {
public:
  walker(const bytes_at& read, uint64_t size, const std::string& name,
         left_out* without)
    : read_(read), size_(size), name_(name), without_(without) {
    // nop
  }

  std::vector<tar_member> walk() {
    if (size_ < block)
      fail("the file is too short for a tar file");
    while (at_ < size_ && read_member())
      ; // nop
    if (pending_)
      fail("the file ends between a name and its member");
    return std::move(members_);
  }

private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw run_error(name_ + ": at byte " + std::to_string(at_) + ": " + reason);
  }

  /// Takes the member at the position; false at the end of the archive.
  bool read_member() {
    header raw{};
    if (read_(at_, raw) < block)
      fail("the file is cut off within a header");
    if (std::ranges::all_of(raw, [](auto x) { return x == 0; }))
      return false;
    check_sum(raw);
    auto begin = at_ + block;
    auto size = number(raw, 124, 12);
    auto kind = static_cast<char>(raw[156]);
    // Links and devices have no bytes, whatever their headers say, and are no
    // samples.
    if (kind >= '1' && kind <= '6')
      size = 0;
    if (regular(kind) && size_override_)
      size = *size_override_;
    if (size > size_ - begin)
      fail("the header promises " + std::to_string(size) +
           " bytes, but the file holds " + std::to_string(size_ - begin) +
           " more");
    // The last block may be short.
    auto end = std::min(begin + (size + block - 1) / block * block, size_);
    if (!pending_)
      first_header_ = at_;
    if (kind == 'L' || kind == 'x' || kind == 'X') // X: Sun's form of x.
      take_extra(kind, begin, size);
    else if (kind != 'g' && kind != 'K')
      take_member(raw, kind, begin, size, end);
    else
      pending_ = kind == 'K' || pending_;
    at_ = end;
    return true;
  }

  /// '7' is a file that some system stores in one piece.
  static bool regular(char kind) {
    return kind == '0' || kind == 0 || kind == '7';
  }

  void take_member(const header& raw, char kind, uint64_t begin, uint64_t size,
                   uint64_t end) {
    auto name = long_name_.value_or(short_name(raw));
    check_name(name);
    // Old archives mark folders by their name alone.
    if (regular(kind) && !name.ends_with('/'))
      members_.push_back({name, first_header_, begin, size, end});
    else if ((kind == '1' || kind == '2') && without_)
      without_->add_link(name);
    long_name_.reset();
    size_override_.reset();
    pending_ = false;
  }

  void take_extra(char kind, uint64_t begin, uint64_t size) {
    if (size > longest_extra)
      fail("a name of " + std::to_string(size) + " bytes is too long");
    std::string text(size, '\0');
    if (read_(begin, {reinterpret_cast<uint8_t*>(text.data()), size}) < size)
      fail("the file is cut off within a name");
    if (kind == 'L')
      long_name_ = text.substr(0, text.find('\0'));
    else
      take_records(text);
    pending_ = true;
  }

  /// Lines "LENGTH KEY=VALUE\n".
  void take_records(std::string_view text) {
    while (!text.empty()) {
      auto blank = text.find(' ');
      auto length =
        blank == text.npos ? std::nullopt : decimal(text.substr(0, blank));
      if (!length || *length <= blank + 1 || *length > text.size() ||
          text[*length - 1] != '\n')
        fail("the extended header is damaged");
      auto record = text.substr(blank + 1, *length - blank - 2);
      auto equals = record.find('=');
      auto key = record.substr(0, equals);
      auto value =
        equals == record.npos ? std::string_view{} : record.substr(equals + 1);
      if (key == "path")
        long_name_ = std::string{value};
      if (key == "size") {
        size_override_ = decimal(value);
        if (!size_override_)
          fail("the extended header is damaged");
      }
      text.remove_prefix(*length);
    }
  }

  static std::optional<uint64_t> decimal(std::string_view text) {
    uint64_t out = 0;
    if (text.empty() || text.size() > 18)
      return std::nullopt;
    for (auto c : text) {
      if (c < '0' || c > '9')
        return std::nullopt;
      out = out * 10 + static_cast<uint64_t>(c - '0');
    }
    return out;
  }

  /// Reads a number: octal, or base 256 if the highest bit is set.
  uint64_t number(const header& raw, size_t first, size_t length) const {
    uint64_t out = 0;
    if ((raw[first] & 0x80) != 0) {
      for (auto i = first; i < first + length; ++i) {
        if ((out >> 55) != 0)
          fail("the header holds an absurd number");
        out = out << 8 | (i == first ? raw[i] & 0x7f : raw[i]);
      }
      return out;
    }
    auto i = first;
    while (i < first + length && raw[i] == ' ')
      ++i;
    for (; i < first + length && raw[i] != 0 && raw[i] != ' '; ++i) {
      if (raw[i] < '0' || raw[i] > '7')
        fail("the header holds no number where one should be");
      out = out << 3 | static_cast<uint64_t>(raw[i] - '0');
    }
    return out;
  }

  void check_sum(const header& raw) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < block; ++i)
      sum += i >= 148 && i < 156 ? ' ' : raw[i];
    if (sum != number(raw, 148, 8))
      fail("is no header of a tar file");
  }

  static std::string text(const header& raw, size_t first, size_t length) {
    std::string_view all{reinterpret_cast<const char*>(raw.data()) + first,
                         length};
    return std::string{all.substr(0, all.find('\0'))};
  }

  static std::string short_name(const header& raw) {
    auto name = text(raw, 0, 100);
    auto is_ustar = text(raw, 257, 6) == "ustar";
    auto prefix = is_ustar ? text(raw, 345, 155) : "";
    return prefix.empty() ? name : prefix + "/" + name;
  }

  void check_name(const std::string& name) const {
    auto leaves = name.starts_with('/');
    for (std::string_view rest{name}; !rest.empty();) {
      auto end = std::min(rest.find('/'), rest.size());
      leaves = leaves || rest.substr(0, end) == "..";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (leaves)
      fail("the path " + config::in_quotes(name) + " leaves the root");
    if (name.empty() || name.find('\0') != name.npos)
      fail("a member has no name");
  }

  const bytes_at& read_;
  uint64_t size_;
  const std::string& name_;
  left_out* without_;
  uint64_t at_ = 0;
  uint64_t first_header_ = 0;
  bool pending_ = false; ///< Headers came that belong to the next member.
  std::optional<std::string> long_name_;
  std::optional<uint64_t> size_override_;
  std::vector<tar_member> members_;
};

} // namespace

std::vector<tar_member> index_tar(const bytes_at& read, uint64_t size,
                                  const std::string& name, left_out* without) {
  return walker{read, size, name, without}.walk();
}

stem_and_kind split_name(const std::string& name) {
  auto slash = name.rfind('/');
  auto dot = name.find('.', slash == name.npos ? 0 : slash + 1);
  if (dot == name.npos)
    return {name, ""};
  return {name.substr(0, dot), config::in_small_letters(name.substr(dot + 1))};
}

} // namespace troupe::data
