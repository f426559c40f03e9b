#include "actors/policies/state_text.hpp"

namespace troupe::policies {

state_writer::state_writer(std::string_view name) : text_(name) {
  // nop
}

void state_writer::number(std::string_view key, uint64_t x) {
  rows(key, 1, {&x, 1});
}

void state_writer::rows(std::string_view key, size_t columns,
                        std::span<const uint64_t> flat) {
  text_ += ' ';
  text_ += key;
  text_ += '=';
  for (size_t i = 0; i < flat.size(); ++i) {
    if (i > 0)
      text_ += i % columns == 0 ? ',' : ':';
    text_ += std::to_string(flat[i]);
  }
}

} // namespace troupe::policies
