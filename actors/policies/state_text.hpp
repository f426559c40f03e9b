#pragma once
// How a policy writes its state: one line of text, `name key=value ...`, where
// a value is a list of rows (`,`) of unsigned numbers (`:`), for example
//
//   ssp s=3 v=12 clocks=0:4,1:5 held=1
//
// Keys come in a fixed order and every one is present. The line is stored in
// checkpoints: a policy that changes what it writes changes its first key too.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::policies {

class state_writer {
public:
  explicit state_writer(std::string_view name);

  void number(std::string_view key, uint64_t x);

  /// Writes `flat` as rows of `columns` numbers each.
  void rows(std::string_view key, size_t columns,
            std::span<const uint64_t> flat);

  const std::string& str() const { return text_; }

private:
  std::string text_;
};

/// Reads what `state_writer` wrote, in the same order. Each call returns false
/// when the text holds something else; the reader is of no use afterwards.
class state_reader {
public:
  explicit state_reader(std::string_view text) : rest_(text) {
    // nop
  }

  bool name(std::string_view expected);

  bool number(std::string_view key, uint64_t& x);

  /// Like `number`, for a parameter that must have this very value.
  bool same(std::string_view key, uint64_t expected);

  bool rows(std::string_view key, size_t columns, std::vector<uint64_t>& flat);

  /// True when all of the text has been read.
  bool end() const { return rest_.empty(); }

private:
  /// Takes `key=` and the value up to the next blank.
  bool value(std::string_view key, std::string_view& out);

  std::string_view rest_;
};

/// A list for people, `[4,5]`; a long one is cut: `[0,1,...,15 +84]`.
std::string brief(std::span<const uint64_t> xs);

} // namespace troupe::policies
