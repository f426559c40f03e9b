#include "data/formats/idx.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace troupe::data {

namespace {

constexpr std::array<uint8_t, 4> images_magic{0, 0, 8, 3};
constexpr std::array<uint8_t, 4> labels_magic{0, 0, 8, 1};

[[noreturn]] void fail_at(const std::string& name, uint64_t position,
                          const std::string& reason) {
  throw run_error(name + ": at byte " + std::to_string(position) + ": " +
                  reason);
}

/// Bytes with a known end, or a stream of them out of a file.
class source {
public:
  explicit source(std::string title) : name(std::move(title)) {
    // nop
  }

  virtual ~source() = default;

  /// Fills `to` as far as there are bytes; returns how many.
  virtual uint64_t read(std::span<uint8_t> to) = 0;

  /// The most bytes that can come from here.
  virtual uint64_t upper_bound() const = 0;

  virtual bool upper_bound_is_size() const { return true; }

  const std::string name;
};

class memory_source final : public source {
public:
  memory_source(std::span<const uint8_t> bytes, std::string title)
    : source(std::move(title)), bytes_(bytes) {
    // nop
  }

  uint64_t read(std::span<uint8_t> to) override {
    auto n = std::min(to.size(), bytes_.size() - position_);
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(position_), n,
                to.begin());
    position_ += n;
    return n;
  }

  uint64_t upper_bound() const override { return bytes_.size(); }

private:
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

/// A plain or a gzip file: zlib looks at the first bytes.
class file_source final : public source {
public:
  explicit file_source(const std::filesystem::path& file)
    : source(file.string()) {
    auto size = open(file);
    gzbuffer(in_.get(), 1 << 17);
    // Deflate makes at most 1,032 bytes of one.
    upper_bound_ = upper_bound_is_size() ? size : size * 1032;
  }

  uint64_t read(std::span<uint8_t> to) override {
    constexpr uint64_t at_once = 1 << 24;
    uint64_t done = 0;
    while (done < to.size()) {
      auto wanted = std::min<uint64_t>(to.size() - done, at_once);
      int n =
        gzread(in_.get(), to.data() + done, static_cast<unsigned>(wanted));
      done += n > 0 ? static_cast<uint64_t>(n) : 0;
      position_ += n > 0 ? static_cast<uint64_t>(n) : 0;
      check();
      if (n <= 0) {
        break;
      }
    }
    return done;
  }

  uint64_t upper_bound() const override { return upper_bound_; }

  bool upper_bound_is_size() const override { return gzdirect(in_.get()) != 0; }

private:
  struct closer {
    void operator()(gzFile file) const noexcept { gzclose_r(file); }
  };

  /// Returns the file's size.
  uint64_t open(const std::filesystem::path& file) try {
    config::input_file found{file};
    auto size = found.size();
    auto handle = found.release();
    in_.reset(gzdopen(handle, "rb"));
    if (!in_) {
      ::close(handle);
      throw run_error(name + ": cannot be opened: no memory");
    }
    return size;
  } catch (const config::unreadable& why) {
    throw run_error(name + ": cannot be opened: " + why.what());
  }

  void check() {
    int code = Z_OK;
    std::string_view text = gzerror(in_.get(), &code);
    if (code == Z_BUF_ERROR) {
      fail_at(name, position_, "the compressed data is cut off");
    }
    if (code == Z_ERRNO) {
      fail_at(name, position_,
              std::string{"reading failed: "} + std::strerror(errno));
    }
    if (code != Z_OK) {
      auto colon = text.rfind(": ");
      text.remove_prefix(colon == std::string_view::npos ? 0 : colon + 2);
      fail_at(name, position_,
              "the compressed data is damaged: " + std::string{text});
    }
  }

  std::unique_ptr<gzFile_s, closer> in_;
  uint64_t upper_bound_ = 0;
  uint64_t position_ = 0;
};

uint32_t big_endian(std::span<const uint8_t, 4> x) {
  return uint32_t{x[0]} << 24 | uint32_t{x[1]} << 16 | uint32_t{x[2]} << 8 |
         uint32_t{x[3]};
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (auto x : bytes) {
    result += result.empty() ? "" : " ";
    result += {digits[x >> 4], digits[x & 15]};
  }
  return result;
}

template <size_t N>
std::array<uint32_t, N> read_header(source& in,
                                    const std::array<uint8_t, 4>& magic,
                                    std::string_view name) {
  std::array<uint8_t, 4 + 4 * N> bytes{};
  auto n = in.read(bytes);
  auto found = std::span{bytes}.first(std::min<size_t>(n, 4));
  if (!std::ranges::equal(found, magic)) {
    fail_at(in.name, 0,
            "not an IDX file of " + std::string{name} + ": it begins with " +
              (found.empty() ? "nothing" : hex(found)) + " instead of " +
              hex(magic));
  }
  if (n < bytes.size()) {
    fail_at(in.name, n,
            "the header is cut off: it has " + std::to_string(bytes.size()) +
              " bytes");
  }
  std::array<uint32_t, N> result{};
  for (size_t i = 0; i < N; ++i) {
    result[i] =
      big_endian(std::span{bytes}.subspan(4 + 4 * i).template first<4>());
  }
  return result;
}

/// Reads the `promised` bytes after a header of `header` bytes; memory grows
/// with what has really been read.
std::vector<uint8_t> read_body(source& in, uint64_t header, uint64_t promised) {
  if (promised > in.upper_bound() - std::min(header, in.upper_bound())) {
    fail_at(in.name, header,
            "the header promises " + std::to_string(promised) +
              " bytes, but the file cannot hold more than " +
              std::to_string(in.upper_bound() - header));
  }
  constexpr uint64_t block = 1 << 20;
  std::vector<uint8_t> body;
  if (in.upper_bound_is_size()) {
    body.reserve(promised); // Otherwise the header may lie.
  }
  while (body.size() < promised) {
    auto have = body.size();
    auto at_once =
      body.capacity() < promised ? std::max<uint64_t>(have, block) : block;
    auto more = std::min(promised - have, at_once);
    body.resize(have + more);
    auto n = in.read(std::span{body}.subspan(have));
    if (n < more) {
      fail_at(in.name, header + have + n,
              "the file ends, but the header promises " +
                std::to_string(promised - have - n) + " more bytes");
    }
  }
  std::array<uint8_t, 1> rest{};
  if (in.read(rest) != 0) {
    fail_at(in.name, header + promised,
            "the file goes on after the data that its header describes");
  }
  return body;
}

void check_limit(const source& in, uint64_t bytes, bool overflow,
                 uint64_t limit) {
  if (overflow || bytes > limit) {
    fail_at(in.name, 4,
            "the header promises " +
              (overflow ? "an absurd number of" : std::to_string(bytes)) +
              " bytes; the limit is " + std::to_string(limit));
  }
}

idx_header read_images_header(source& in, uint64_t limit) {
  auto [count, rows, columns] = read_header<3>(in, images_magic, "images");
  if (rows == 0 || columns == 0) {
    fail_at(in.name, 8, "the images have no pixels");
  }
  uint64_t bytes = uint64_t{rows} * columns;
  bool overflow = __builtin_mul_overflow(bytes, uint64_t{count}, &bytes);
  check_limit(in, bytes, overflow, limit);
  return {count, rows, columns};
}

idx_images read_images(source& in, uint64_t limit) {
  auto [count, rows, columns] = read_images_header(in, limit);
  return {count, rows, columns,
          read_body(in, 16, count * (uint64_t{rows} * columns))};
}

std::vector<uint8_t> read_labels(source& in, uint32_t classes, uint64_t limit) {
  auto [count] = read_header<1>(in, labels_magic, "labels");
  check_limit(in, count, false, limit);
  auto labels = read_body(in, 8, count);
  auto bad = std::ranges::find_if(labels, [&](auto x) { return x >= classes; });
  if (bad != labels.end()) {
    fail_at(in.name, 8 + static_cast<uint64_t>(bad - labels.begin()),
            "label " + std::to_string(*bad) + " is not in 0 to " +
              std::to_string(classes - 1));
  }
  return labels;
}

} // namespace

idx_images read_idx_images(const std::filesystem::path& file,
                           uint64_t max_bytes) {
  file_source in{file};
  return read_images(in, max_bytes);
}

std::vector<uint8_t> read_idx_labels(const std::filesystem::path& file,
                                     uint32_t classes, uint64_t max_bytes) {
  file_source in{file};
  return read_labels(in, classes, max_bytes);
}

idx_header read_idx_images_header(const std::filesystem::path& file) {
  file_source in{file};
  return read_images_header(in, max_idx_bytes);
}

idx_header read_idx_labels_header(const std::filesystem::path& file) {
  file_source in{file};
  return {read_header<1>(in, labels_magic, "labels")[0], 0, 0};
}

idx_images parse_idx_images(std::span<const uint8_t> bytes,
                            const std::string& name) {
  memory_source in{bytes, name};
  return read_images(in, max_idx_bytes);
}

std::vector<uint8_t> parse_idx_labels(std::span<const uint8_t> bytes,
                                      uint32_t classes,
                                      const std::string& name) {
  memory_source in{bytes, name};
  return read_labels(in, classes, max_idx_bytes);
}

} // namespace troupe::data
