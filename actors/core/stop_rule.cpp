#include "actors/core/stop_rule.hpp"

#include <array>
#include <charconv>

namespace troupe::cores {

namespace {

/// The shortest text that reads back as `x`.
std::string text_of(double x) {
  std::array<char, 32> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

} // namespace

std::string_view to_string(stop_reason x) {
  switch (x) {
  case stop_reason::none:
    return "none";
  case stop_reason::epochs:
    return "epochs";
  case stop_reason::max_steps:
    return "max_steps";
  case stop_reason::target_accuracy:
    return "target_accuracy";
  }
  return "???";
}

stop_rule::stop_rule(const stop_limits& limits) : limits_(limits) {
  // nop
}

stop_reason stop_rule::updated(uint64_t steps, uint64_t epochs_completed) {
  if (reason_ != stop_reason::none)
    return reason_;
  if (limits_.epochs && epochs_completed >= *limits_.epochs)
    reason_ = stop_reason::epochs;
  else if (limits_.max_steps && steps >= *limits_.max_steps)
    reason_ = stop_reason::max_steps;
  return reason_;
}

stop_reason stop_rule::scored(double accuracy) {
  if (reason_ == stop_reason::none && limits_.target_accuracy &&
      accuracy >= *limits_.target_accuracy)
    reason_ = stop_reason::target_accuracy;
  return reason_;
}

std::string stop_rule::line() const {
  switch (reason_) {
  case stop_reason::none:
    return {};
  case stop_reason::epochs:
    return "reached epochs = " + std::to_string(*limits_.epochs);
  case stop_reason::max_steps:
    return "reached max-steps = " + std::to_string(*limits_.max_steps);
  case stop_reason::target_accuracy:
    return "reached target-accuracy = " + text_of(*limits_.target_accuracy);
  }
  return {};
}

} // namespace troupe::cores
