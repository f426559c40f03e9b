#pragma once
// How a policy writes its state: one line of text, `name key=value ...`, where
// a value is a list of rows (`,`) of unsigned numbers (`:`), for example
//
//   ssp s=3 v=12 clocks=0:4,1:5 held=1
//
// Keys come in a fixed order, and all are present. Checkpoints record the line.
// Made by a policy's `state`; not thread-safe.

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

} // namespace troupe::policies
