#pragma once
// The frames between a worker and the process that computes its gradients
// (`--compute external`): a header of 16 bytes (kind, bytes that follow,
// number), then the body. docs/formats.md describes them byte by byte. Plain
// values; any thread.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace troupe::external {

/// Both ends must speak the same.
inline constexpr uint64_t frame_version = 7;

/// A larger body is refused before memory is allocated for it.
inline constexpr uint32_t most_body = 1u << 20;

/// Format: append only, never renumber.
enum class process_frame_kind : uint32_t {
  // From the process. The number is that of a lease, if not said otherwise.
  hello = 1,    ///< The first; the number is the version of the frames.
  gradient = 2, ///< Is in the block that the weights' frame named.
  returned = 3, ///< The lease will not be computed.
  scored = 4,   ///< The metrics of a version; the number is the version's.
  paused = 5,   ///< The process has left its loop, and asks for no leases.
  resumed = 6,  ///< The process is in its loop again.
  tried = 7,    ///< Whether memory of its GPU could be opened.
  failed = 8,   ///< The program ends with an error: its text. The last frame.
  stepped = 9,  ///< A local step of the round that this lease began is made.

  // From the worker.
  welcome = 65,    ///< The answer to hello; the number is the version.
  memory = 66,     ///< A region, whose file comes with it; its number.
  lease = 67,      ///< Samples to compute, soon.
  withdrawn = 68,  ///< The lease is not to be computed any more.
  weights = 69,    ///< Compute this lease now, on these weights.
  cancelled = 70,  ///< The gradient is not needed: answer without it.
  end = 71,        ///< The run is over; status and line.
  forgotten = 72,  ///< A region is no longer used; its number.
  score = 73,      ///< Score the version of this number.
  last = 74,       ///< The run ends with the version of this number.
  place = 75,      ///< The rank of the worker, as it has a place; its number.
  trial = 76,      ///< Memory of the GPU, to be opened and closed once.
  gpu_memory = 77, ///< A region on the GPU; its number.
  stopping = 78    ///< The worker is about to leave; a text says why.
};

struct frame_header {
  process_frame_kind kind{};
  uint32_t bytes = 0; ///< Of the body.
  uint64_t number = 0;
};

static_assert(sizeof(frame_header) == 16);

struct process_frame {
  process_frame_kind kind{};
  uint64_t number = 0;
  std::string body;
};

/// Where a block of numbers is: the number of its region, and bytes from the
/// region's beginning.
struct block_place {
  uint64_t region = 0;
  uint64_t offset = 0;
};

/// Writes a body: numbers are little-endian, a text is its length as u32 and
/// its bytes.
class body_writer {
public:
  template <class T>
  requires std::is_arithmetic_v<T> body_writer& put(T x) {
    out_.append(reinterpret_cast<const char*>(&x), sizeof x);
    return *this;
  }

  body_writer& put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    out_ += text;
    return *this;
  }

  body_writer& put_bytes(std::span<const std::byte> bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }

  body_writer& put(const block_place& where) {
    return put(where.region).put(where.offset);
  }

  std::string take_bytes() { return std::move(out_); }

private:
  std::string out_;
};

/// Reads a body. After an error everything is 0 or empty.
class body_reader {
public:
  explicit body_reader(std::span<const std::byte> from) : rest_(from) {
    // nop
  }

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T out{};
    if (auto from = next(sizeof out); !from.empty())
      std::memcpy(&out, from.data(), sizeof out);
    return out;
  }

  std::string text() {
    auto from = next(number<uint32_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

  /// Whether the body had all that was read so far.
  bool good() const { return !failed_; }

  /// Whether the body had all that was read, and nothing else.
  bool complete() const { return !failed_ && rest_.empty(); }

private:
  std::span<const std::byte> next(size_t bytes) {
    failed_ = failed_ || bytes > rest_.size();
    if (failed_)
      return {};
    auto out = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return out;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

/// What the process says of itself.
struct hello {
  uint64_t samples = 0; ///< Of its data set.
  uint32_t leases = 0;  ///< That it wants to have at a time.
  std::string dataset;  ///< The id of its data set.
  std::string gpu; ///< The PCI address of the GPU with its model, or empty.
};

} // namespace troupe::external
