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

/// Of the frozen tensors, those that are running statistics all the same; and
/// of these, those that are frozen all the same.
inline constexpr std::string_view carried_key = "troupe.carried";
inline constexpr std::string_view constant_key = "troupe.constant";

/// The lines of this key; none if the metadata has none.
std::vector<std::string> description_lines(const tensor_metadata& from,
                                           const std::string& key);

/// Takes the name that a line begins with, and the " = " behind it: the name is
/// as it is; or in quotes, as JSON has a text, if it would be misread
/// otherwise.
std::string take_name(std::string_view& line);

/// The names in the lines of a key that has one name in each.
std::set<std::string> described_names(const tensor_metadata& from,
                                      const std::string& key);

/// Those tensors that are frozen and not of the type of what is trained: they
/// keep a type of their own.
std::set<std::string> described_constants(std::span<const named_tensor> tensors,
                                          const tensor_metadata& metadata);

/// SHA-256 of what is described, whatever the values: names, types, shapes and
/// metadata, in the order of the file. Without the constants and the two keys,
/// which earlier releases did not have: their runs go on. A single I64 that is
/// a constant was a counter to them.
std::string digest_of_described(std::span<const named_tensor> tensors,
                                const tensor_metadata& metadata);

} // namespace troupe::models
