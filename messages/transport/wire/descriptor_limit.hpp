#pragma once
// How many more files and sockets this process may open.

#include <cstddef>
#include <memory>

namespace troupe::transport {

/// Needs a file itself, which it opens once: it must be able to count when none
/// is left. Not thread-safe.
class descriptor_limit {
public:
  descriptor_limit();
  ~descriptor_limit();

  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

  /// The limit as it is now: others may change it.
  size_t most() const;

  /// Files that may still be opened; without end where nobody can tell.
  size_t left() const;

private:
  struct folder;

  std::unique_ptr<folder> open_files_;
};

} // namespace troupe::transport
