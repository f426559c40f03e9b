#pragma once
// Small helpers for reading what users typed and showing it in messages. Pure
// functions; any thread.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// The text without blanks and tabs at either end.
std::string_view trim(std::string_view text);

/// The text made fit for an error message: control characters are escaped, and
/// long text is cut short.
std::string shown(std::string_view text);

/// `shown` between single quotes.
std::string in_quotes(std::string_view text);

/// Whether `text` has a control character (a NUL or a line break, say).
bool has_control_character(std::string_view text);

/// The text in lower case.
std::string in_small_letters(std::string_view text);

/// The name that `word` spells: exactly, or else ignoring case, '-' and '_', if
/// only one matches ("ResNet-18" for resnet18). None otherwise.
std::optional<std::string> spelt(std::string_view word,
                                 std::span<const std::string> names);

/// The candidate closest to `word`; none when no candidate is close. '_' counts
/// as '-'; case and leading dashes are ignored.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

/// "; did you mean 'X'?", or nothing when no candidate is close.
std::string did_you_mean(std::string_view word,
                         std::span<const std::string> candidates);

/// Whether one of `list` equals `word`.
template <class List>
bool is_among(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// "1 worker", "3 workers"
std::string count(uint64_t n, std::string_view noun);

/// The parts with `between` between them.
std::string join(std::span<const std::string> parts, std::string_view between);

/// "1.7 MB", in powers of 1000.
std::string size_text(uint64_t bytes);

} // namespace troupe::config
