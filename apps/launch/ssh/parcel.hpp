#pragma once
// The program as it goes along to other hosts: trainer_node and the shared
// libraries that it has loaded, but for those of the C library, which belong to
// the system there. Each host keeps them in a folder, by name and digest, so
// that only what it lacks is sent. Free functions; any thread.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::app {

struct parcel_file {
  std::filesystem::path from; ///< Here.
  std::string name;           ///< By which it is loaded: "libtorch.so".
  std::string stored;         ///< Its name there: "libtorch.so-DIGEST".
  uint64_t size = 0;
};

/// This process's program, first, and its libraries. Throws `run_error`.
std::vector<parcel_file> files_of_program();

/// A command for the shell of a host. It prints a line: `troupe-launch ready`
/// before it becomes the agent of a launch; or `troupe-launch lacks WAY FOLDER
/// FILE...`, where WAY is `rsync` if the host has that, else `tar`; or
/// `troupe-launch failed REASON`.
std::string command_of_agent(std::span<const parcel_file> program);

/// A command for the shell of a host that stores the files of an archive of
/// tar, which it reads, in the folder, and then prints `troupe-launch stored`.
std::string command_to_store(const std::string& folder);

/// The text as one word of a command of the shell.
std::string quoted(const std::string& word);

} // namespace troupe::app
