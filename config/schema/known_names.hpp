#pragma once
// The names of networks, data sets and losses, for checks and help before
// anything is loaded: config links neither LibTorch nor data formats. The
// registries of models and data tell their names before main begins; there is
// no other list of them. A program without those registries knows no names.
//
// Adding is not thread-safe and must end before main begins; afterwards any
// thread may read.

#include <span>
#include <string>

namespace troupe::config {

void add_network(std::string name);
/// @param reads_files Whether its samples come from files in `data-dir`.
/// @param image The shape of its samples, "3x32x32"; "any" if that is not
/// fixed.
void add_dataset(std::string name, bool reads_files,
                 const std::string& image = "any");

/// @param is_complete Whether it has all that a loss needs.
void add_loss(std::string name, bool is_complete);

/// In the order in which they were added, which users see.
std::span<const std::string> known_networks();
std::span<const std::string> known_datasets();
/// @throws usage_error if one that was added is taken, is no name, or is not
/// complete.
std::span<const std::string> known_losses();

/// The shape of a data set's samples, as it was added; empty for others.
std::string image_of(const std::string& dataset);

/// Whether the samples of this data set, a name or a declaration, come from
/// files in `data-dir`.
bool reads_files(const std::string& dataset);

} // namespace troupe::config
