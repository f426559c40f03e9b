#include "models/exchange/pickle.hpp"

#include "config/text/text.hpp"
#include "models/exchange/byte_reader.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace troupe::models {

namespace {

using kind = pickle::kind;
using value = pickle::value;

constexpr uint8_t newest_protocol = 5;

/// Dictionaries that are made by a call.
constexpr std::string_view ordered_dictionary = "collections.OrderedDict";

double number_of(std::span<const std::byte> big_endian) {
  uint64_t bits = 0;
  for (auto each : big_endian)
    bits = bits << 8 | std::to_integer<uint64_t>(each);
  return std::bit_cast<double>(bits);
}

/// The whole number in at most eight bytes, in two's complement.
int64_t whole_of(std::span<const std::byte> little_endian) {
  uint64_t bits = 0;
  for (size_t i = 0; i < little_endian.size(); ++i)
    bits |= std::to_integer<uint64_t>(little_endian[i]) << (8 * i);
  auto unused = 64 - 8 * little_endian.size();
  if (unused == 64)
    return 0;
  return static_cast<int64_t>(bits << unused) >> unused;
}

} // namespace

/// Follows the operations of a pickle with a stack, as Python does.
class pickle_reader {
public:
  pickle_reader(std::span<const std::byte> bytes,
                std::span<const std::string_view> names,
                const std::string& where, pickle& out)
    : in_(bytes, where), names_(names), where_(where), out_(out) {
    // nop
  }

  void read() {
    for (;;) {
      auto operation = static_cast<uint8_t>(in_.number<uint8_t>());
      if (operation == '.')
        break;
      follow(operation);
    }
    out_.root_ = pop();
  }

private:
  using index = pickle::index;

  [[noreturn]] void refuse(const std::string& why) const {
    throw run_error(where_ + ": " + why);
  }

  // -- values -----------------------------------------------------------------

  value& at(index where) { return out_.values_[where]; }

  void push(value item) {
    if (out_.values_.size() >= pickle::most_values)
      refuse("holds more than " + std::to_string(pickle::most_values) +
             " values");
    stack_.push_back(static_cast<index>(out_.values_.size()));
    out_.values_.push_back(std::move(item));
  }

  void push(kind type) {
    value made;
    made.what = type;
    push(std::move(made));
  }

  void push_truth(bool is) {
    value made;
    made.what = kind::truth;
    made.whole = is ? 1 : 0;
    push(std::move(made));
  }

  void push_whole(int64_t number) {
    value made;
    made.what = kind::whole;
    made.whole = number;
    push(std::move(made));
  }

  void push_text(std::string_view text) {
    value made;
    made.what = kind::text;
    made.text = text;
    push(std::move(made));
  }

  void push_items(kind type, std::span<const index> items) {
    value made;
    made.what = type;
    for (auto item : items)
      add(made, item);
    push(std::move(made));
  }

  void add(value& to, index item) {
    to.depth = std::max(to.depth, at(item).depth + 1);
    if (to.depth > pickle::most_depth)
      refuse("is nested deeper than " + std::to_string(pickle::most_depth) +
             " levels");
    to.items.push_back(item);
  }

  /// Skips bytes, which no caller asks for.
  void skip(uint64_t count) {
    in_.bytes(count);
    push(kind::other);
  }

  // -- the stack --------------------------------------------------------------

  index pop() {
    if (stack_.size() <= floor())
      refuse("takes from an empty stack");
    auto out = stack_.back();
    stack_.pop_back();
    return out;
  }

  index top() const {
    if (stack_.size() <= floor())
      refuse("looks at an empty stack");
    return stack_.back();
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void mark() {
    if (marks_.size() >= pickle::most_depth)
      refuse("is nested deeper than " + std::to_string(pickle::most_depth) +
             " levels");
    marks_.push_back(stack_.size());
  }

  /// What lies above the last mark.
  std::vector<index> pop_marked() {
    if (marks_.empty())
      refuse("takes from a stack without a mark");
    auto first = stack_.begin() + static_cast<std::ptrdiff_t>(floor());
    std::vector<index> out{first, stack_.end()};
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return out;
  }

  std::vector<index> pop_last(size_t count) {
    std::vector<index> out(count);
    for (auto i = count; i > 0; --i)
      out[i - 1] = pop();
    return out;
  }

  void append(std::span<const index> items) {
    auto& list = at(top());
    if (list.what != kind::sequence)
      refuse("appends to what is no list");
    for (auto item : items)
      add(list, item);
  }

  void set(std::span<const index> items) {
    auto& mapping = at(top());
    if (mapping.what != kind::mapping || items.size() % 2 != 0)
      refuse("sets items of what is no dictionary");
    for (auto item : items)
      add(mapping, item);
  }

  // -- memory -----------------------------------------------------------------

  void remember(uint32_t place) { memory_[place] = top(); }

  void recall(uint32_t place) {
    auto found = memory_.find(place);
    if (found == memory_.end())
      refuse("recalls what it did not store");
    if (stack_.size() >= pickle::most_values)
      refuse("holds more than " + std::to_string(pickle::most_values) +
             " values");
    stack_.push_back(found->second);
  }

  // -- names and calls --------------------------------------------------------

  void push_name(std::string_view module, std::string_view of) {
    value made;
    made.what = kind::name;
    made.text = std::string{module} + "." + std::string{of};
    if (std::ranges::find(names_, made.text) == names_.end())
      refuse("holds an object of " + config::shown(made.text) +
             ", and only tensors and plain values are read");
    push(std::move(made));
  }

  void push_name_from_stack() {
    auto both = pop_last(2);
    if (at(both[0]).what != kind::text || at(both[1]).what != kind::text)
      refuse("names what is no name");
    auto module = at(both[0]).text;
    auto of = at(both[1]).text;
    push_name(module, of);
  }

  void call() {
    auto both = pop_last(2);
    const auto& callee = at(both[0]);
    if (callee.what != kind::name || at(both[1]).what != kind::sequence)
      refuse("calls what is no function");
    if (callee.text != ordered_dictionary)
      return push_items(kind::call, both);
    if (!at(both[1]).items.empty())
      refuse("makes a dictionary in an unknown way");
    push(kind::mapping);
  }

  /// Python would give a state to the object beneath it. Plain values need
  /// none, so the state is dropped.
  void build() {
    pop();
    auto what = at(top()).what;
    if (what != kind::mapping && what != kind::call)
      refuse("gives a state to a plain value");
  }

  // -- operations -------------------------------------------------------------

  void follow(uint8_t operation) {
    switch (operation) {
    case 0x80:
      if (in_.number<uint8_t>() > newest_protocol)
        refuse("is a pickle of an unknown protocol");
      return;
    case 0x95: // A frame's length.
      in_.bytes(8);
      return;
    case '(':
      return mark();
    case '0':
      pop();
      return;
    case '1':
      pop_marked();
      return;
    case 'N':
      return push(kind::none);
    case 0x88:
    case 0x89:
      return push_truth(operation == 0x88);
    case 'J':
      return push_whole(in_.number<int32_t>());
    case 'K':
      return push_whole(in_.number<uint8_t>());
    case 'M':
      return push_whole(in_.number<uint16_t>());
    case 0x8a:
      return read_long(in_.number<uint8_t>());
    case 'G':
      return read_double();
    case 'X':
      return push_text(in_.text(in_.number<uint32_t>()));
    case 0x8c:
    case 'U':
      return push_text(in_.text(in_.number<uint8_t>()));
    case 0x8d:
      return push_text(in_.text(in_.number<uint64_t>()));
    case 'T':
      return push_text(in_.text(in_.number<uint32_t>()));
    case 'B':
      return skip(in_.number<uint32_t>());
    case 'C':
      return skip(in_.number<uint8_t>());
    case 0x8e:
    case 0x96:
      return skip(in_.number<uint64_t>());
    case 'q':
      return remember(in_.number<uint8_t>());
    case 'r':
      return remember(in_.number<uint32_t>());
    case 0x94:
      return remember(static_cast<uint32_t>(memory_.size()));
    case 'h':
      return recall(in_.number<uint8_t>());
    case 'j':
      return recall(in_.number<uint32_t>());
    default:
      return follow_other(operation);
    }
  }

  /// Containers, names and calls.
  void follow_other(uint8_t operation) {
    switch (operation) {
    case '}':
      return push(kind::mapping);
    case ']':
    case ')':
    case 0x8f:
      return push(kind::sequence);
    case 't':
    case 0x91:
      return push_items(kind::sequence, pop_marked());
    case 0x85:
    case 0x86:
    case 0x87:
      return push_items(kind::sequence, pop_last(operation - 0x84u));
    case 'a':
      return append(pop_last(1));
    case 'e':
    case 0x90:
      return append(pop_marked());
    case 's':
      return set(pop_last(2));
    case 'u':
      return set(pop_marked());
    case 'c': {
      auto module = in_.line();
      return push_name(module, in_.line());
    }
    case 0x93:
      return push_name_from_stack();
    case 'Q':
      return push_items(kind::reference, pop_last(1));
    case 'R':
      return call();
    case 'b':
      return build();
    default:
      refuse("has the operation " + std::to_string(operation) +
             ", which is not read");
    }
  }

  void read_long(size_t size) {
    if (size > 8)
      return skip(size);
    push_whole(whole_of(in_.bytes(size)));
  }

  void read_double() {
    value made;
    made.what = kind::number;
    made.number = number_of(in_.bytes(8));
    push(std::move(made));
  }

  byte_reader in_;
  std::span<const std::string_view> names_;
  const std::string& where_;
  pickle& out_;
  std::vector<index> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, index> memory_;
};

pickle::pickle(std::span<const std::byte> bytes,
               std::span<const std::string_view> names,
               const std::string& where) {
  pickle_reader{bytes, names, where, *this}.read();
}

const pickle::value* pickle::find(const value& in, std::string_view key) const {
  if (in.what != kind::mapping)
    return nullptr;
  for (auto i = in.items.size(); i > 0; i -= 2) {
    const auto& name = values_[in.items[i - 2]];
    if (name.what == kind::text && name.text == key)
      return &values_[in.items[i - 1]];
  }
  return nullptr;
}

} // namespace troupe::models
