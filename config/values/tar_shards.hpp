#pragma once
// `--dataset tar(train=a-{000..146}.tar,val=b-{00..06}.tar)`: which files of
// the data-dir are the shards of a data set. Plain values.

#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// File names, each with at most one range; empty: the files are found by their
/// usual names.
struct tar_shards {
  std::string train;
  std::string validation;
};

bool is_tar_shards(std::string_view text);

/// Reads a declaration, or the bare name `tar`. Throws `bad_value`.
tar_shards parse_tar_shards(std::string_view text);

/// "a-{08..10}.tar" is a-08.tar, a-09.tar, a-10.tar. Throws `bad_value`.
std::vector<std::string> expand_range(const std::string& pattern);

} // namespace troupe::config
