#pragma once
// Small helpers on text: what was typed, as it is read and as it is shown.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// Without blanks and tabs at either end.
std::string_view trim(std::string_view text);

/// Fit for an error message whatever was typed: control characters are
/// escaped, and long text is cut short.
std::string shown(std::string_view text);

/// `shown` between single quotes.
std::string in_quotes(std::string_view text);

/// Whether `text` has a control character (a NUL or a line break, say).
bool has_control_character(std::string_view text);

/// With small letters for capital ones.
std::string in_small_letters(std::string_view text);

/// The one of `names` that `word` is: letter by letter, or else without regard
/// to capitals, '-' and '_', where that leaves a single one ("ResNet-18" for
/// resnet18). None otherwise.
std::optional<std::string> spelt(std::string_view word,
                                 std::span<const std::string> names);

/// The candidate that `word` was most likely meant to be; none when no
/// candidate is close. '_' counts as '-'; letter case and leading dashes do not
/// count.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

/// "; did you mean 'X'?", or nothing when no candidate is close.
std::string did_you_mean(std::string_view word,
                         std::span<const std::string> candidates);

/// "1 worker", "3 workers"
std::string count(uint64_t n, std::string_view what);

/// The parts with `between` between them.
std::string join(std::span<const std::string> parts, std::string_view between);

} // namespace troupe::config
