#include "models/exchange/zip_members.hpp"

#include "config/text/text.hpp"
#include "models/exchange/byte_reader.hpp"

#include <limits>
#include <optional>

namespace troupe::models {

namespace {

using bytes = std::span<const std::byte>;

constexpr uint32_t member_signature = 0x04034b50;
constexpr uint32_t entry_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50;
constexpr uint32_t zip64_end_signature = 0x06064b50;
constexpr uint32_t zip64_locator_signature = 0x07064b50;

constexpr size_t end_size = 22;
constexpr size_t zip64_locator_size = 20;
constexpr size_t longest_comment = 0xffff;

/// Stands in a field of 32 bits if the number is in the entry's zip64 field.
constexpr uint32_t elsewhere = 0xffffffff;
constexpr uint16_t zip64_field = 1;
constexpr uint16_t encrypted = 1;

class archive {
public:
  archive(bytes all, const std::string& where) : all_(all), where_(where) {
    // nop
  }

  zip_members members() const {
    auto directory = find_directory();
    zip_members out;
    for (byte_reader in{directory, where_}; !in.at_end();) {
      auto [name, content] = read_entry(in);
      if (!out.emplace(name, content).second)
        refuse("names two members alike: " + config::shown(name));
    }
    return out;
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw run_error(where_ + ": " + why);
  }

  bytes part(uint64_t first, uint64_t count) const {
    if (first > all_.size() || count > all_.size() - first)
      refuse("names places outside the file");
    return all_.subspan(first, count);
  }

  byte_reader at(uint64_t first) const {
    return {part(first, all_.size() - std::min<uint64_t>(first, all_.size())),
            where_};
  }

  /// Where the record at the end of the archive begins.
  size_t find_end() const {
    auto most = std::min(all_.size(), end_size + longest_comment);
    for (auto back = end_size; back <= most; ++back) {
      auto first = all_.size() - back;
      if (at(first).number<uint32_t>() == end_signature)
        return first;
    }
    refuse("is no complete zip archive");
  }

  bytes find_directory() const {
    auto end = find_end();
    if (auto large = find_zip64_directory(end))
      return *large;
    auto in = at(end);
    in.bytes(12); // Signature, disks, numbers of entries.
    auto size = in.number<uint32_t>();
    return part(in.number<uint32_t>(), size);
  }

  std::optional<bytes> find_zip64_directory(size_t end) const {
    if (end < zip64_locator_size)
      return std::nullopt;
    auto locator = at(end - zip64_locator_size);
    if (locator.number<uint32_t>() != zip64_locator_signature)
      return std::nullopt;
    locator.bytes(4); // Disk.
    auto in = at(locator.number<uint64_t>());
    if (in.number<uint32_t>() != zip64_end_signature)
      refuse("its zip64 record is not where it should be");
    in.bytes(36); // Size, versions, disks, numbers of entries.
    auto size = in.number<uint64_t>();
    return part(in.number<uint64_t>(), size);
  }

  struct entry {
    std::string name;
    bytes content;
  };

  entry read_entry(byte_reader& in) const {
    if (in.number<uint32_t>() != entry_signature)
      refuse("its directory is damaged");
    in.bytes(4); // Versions.
    auto flags = in.number<uint16_t>();
    auto method = in.number<uint16_t>();
    in.bytes(8); // Time, date, checksum.
    uint64_t packed = in.number<uint32_t>();
    uint64_t size = in.number<uint32_t>();
    auto name_size = in.number<uint16_t>();
    auto extra_size = in.number<uint16_t>();
    auto comment_size = in.number<uint16_t>();
    in.bytes(8); // Disk, attributes.
    uint64_t first = in.number<uint32_t>();
    std::string name{in.text(name_size)};
    read_zip64({in.bytes(extra_size), where_}, size, packed, first);
    in.bytes(comment_size);
    if (method != 0 || packed != size || (flags & encrypted) != 0)
      refuse("its member " + config::shown(name) +
             " is compressed or encrypted; torch.save stores members as they "
             "are");
    return {std::move(name), content_at(first, size)};
  }

  /// Replaces the numbers that are elsewhere, which come in this order.
  void read_zip64(byte_reader extra, uint64_t& size, uint64_t& packed,
                  uint64_t& first) const {
    while (extra.left() >= 4) {
      auto what = extra.number<uint16_t>();
      byte_reader in{extra.bytes(extra.number<uint16_t>()), where_};
      if (what != zip64_field)
        continue;
      for (auto* number : {&size, &packed, &first})
        if (*number == elsewhere)
          *number = in.number<uint64_t>();
      return;
    }
  }

  bytes content_at(uint64_t first, uint64_t size) const {
    auto in = at(first);
    if (in.number<uint32_t>() != member_signature)
      refuse("a member is not where its directory says");
    in.bytes(22); // As in the directory.
    auto name_size = in.number<uint16_t>();
    auto extra_size = in.number<uint16_t>();
    in.bytes(uint64_t{name_size} + extra_size);
    return in.bytes(size);
  }

  bytes all_;
  const std::string& where_;
};

} // namespace

zip_members read_zip(std::span<const std::byte> all, const std::string& where) {
  return archive{all, where}.members();
}

} // namespace troupe::models
