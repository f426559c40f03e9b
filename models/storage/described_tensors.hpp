#pragma once
// What the metadata of a description (`--network weights:FILE`) says of its
// tensors; docs/formats.md has the form. Pure functions; any thread.

#include "models/storage/safetensors.hpp"

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// These keys correct the lists of frozen tensors and of running statistics,
/// which are as earlier releases made them: which of the frozen ones are
/// running statistics, and which of the running statistics are frozen.
inline constexpr std::string_view carried_key = "troupe.carried";
inline constexpr std::string_view constant_key = "troupe.constant";

/// The lines of this key; none if the metadata has none.
std::vector<std::string> description_lines(const tensor_metadata& from,
                                           const std::string& key);

/// Takes the name that a line begins with, and the " = " behind it. A name that
/// would be misread stands in quotes, as JSON has a text.
std::string take_name(std::string_view& line);

/// The names in the lines of a key that has one name in each.
std::set<std::string> described_names(const tensor_metadata& from,
                                      const std::string& key);

/// The frozen tensors whose type is not that of the trained ones: they keep it.
std::set<std::string> described_constants(std::span<const named_tensor> tensors,
                                          const tensor_metadata& metadata);

/// SHA-256 of what is described, whatever the values: names, types, shapes and
/// metadata, in the order of the file. Leaves out the constants and the two
/// keys, which earlier releases did not have, so that their runs can go on. A
/// constant that is a single I64 counts, since it was a counter to them.
std::string digest_of_described(std::span<const named_tensor> tensors,
                                const tensor_metadata& metadata);

} // namespace troupe::models
