#pragma once
// Reads Python's pickles (protocols 2 to 5) as plain values and runs nothing: a
// pickle that names a function or class gets what it asked for only as a record
// of the call, and only if the caller allows that name.
//
// Source: the Python documentation of `pickletools`. A `pickle` is immutable
// once made, and does not refer to the bytes that it was read from. Errors are
// `run_error`s that begin with `where`.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

class pickle {
public:
  /// Where a value is.
  using index = uint32_t;

  enum class kind : uint8_t {
    none,
    truth,  ///< In `whole`.
    whole,  ///< A whole number of at most 64 bits.
    number, ///< Floating-point.
    text,
    sequence,  ///< A list, tuple or set; in `items`.
    mapping,   ///< A dictionary; `items` are key, value, key, value, ...
    name,      ///< Of a function or class: "torch.FloatStorage", in `text`.
    call,      ///< `items` are a name and a sequence of arguments.
    reference, ///< To data outside of the pickle; `items` is what names it.
    other      ///< Bytes, and larger numbers.
  };

  struct value {
    kind what = kind::none;
    uint32_t depth = 1; ///< 1, or more than that of each item.
    int64_t whole = 0;
    double number = 0;
    std::string text{};
    std::vector<index> items{};
  };

  /// A pickle with more values, or with deeper ones, is refused.
  static constexpr size_t most_values = 1u << 20;
  static constexpr uint32_t most_depth = 64;

  /// A pickle is refused if it uses a name that is not among `names`.
  pickle(std::span<const std::byte> bytes,
         std::span<const std::string_view> names, const std::string& where);

  /// The value that the whole pickle is.
  const value& root() const { return values_[root_]; }

  const value& operator[](index at) const { return values_[at]; }

  /// The item of a sequence or call; null if it has fewer.
  const value* item(const value& of, size_t at) const {
    return at < of.items.size() ? &values_[of.items[at]] : nullptr;
  }

  /// What a mapping has under this text, the last one if there are several;
  /// null if it has none or `in` is no mapping.
  const value* find(const value& in, std::string_view key) const;

private:
  friend class pickle_reader;

  std::vector<value> values_;
  index root_ = 0;
};

} // namespace troupe::models
