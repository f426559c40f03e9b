#pragma once
// `--outliers refuse(factor=10)`: what becomes of a gradient whose norm is far
// beyond those of the other workers. Here the declaration is only read;
// actors/core/norm_watch.hpp decides. Plain values.

#include <optional>
#include <string_view>

namespace troupe::config {

/// Reads `none` or `refuse(factor=X)`. Returns how many times the median of the
/// other workers' norms a norm may be; nothing for `none`. Throws `bad_value`
/// that says what is wrong.
std::optional<double> parse_outliers(std::string_view text);

} // namespace troupe::config
