#pragma once
// Patterns that name tensors of a state dict, as `--init-skip` and
// `--freeze` take them:
// "fc.*,layer4.?.conv*". `*` stands for any text, dots included, `?` for one
// character, `[abc]` for one of these. Values; any thread.

#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct key_patterns {
  std::vector<std::string> all;

  /// Whether one of them matches the whole key.
  bool match(const std::string& key) const;

  bool empty() const { return all.empty(); }

  bool operator==(const key_patterns&) const = default;
};

/// Reads a list with commas between patterns; none for an empty text. Throws
/// `bad_value` for an empty pattern.
key_patterns parse_key_patterns(std::string_view text);

/// The first pattern that matches none of the keys; null if there is none.
const std::string* idle_pattern(const key_patterns& patterns,
                                const std::vector<std::string>& keys);

} // namespace troupe::config
