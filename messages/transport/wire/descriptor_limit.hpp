#pragma once
// Counts how many more files and sockets this process may open, so that a
// listener stops accepting before they run out. One owner; not thread-safe.

#include <cstddef>
#include <memory>

namespace troupe::transport {

/// Opens one file at construction: it must be able to count even when no
/// descriptor is left.
class descriptor_limit {
public:
  descriptor_limit();
  ~descriptor_limit();

  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

  /// The current limit; it can change while the process runs.
  size_t most() const;

  /// Files that may still be opened; SIZE_MAX if the system does not tell.
  size_t left() const;

private:
  struct folder;

  std::unique_ptr<folder> open_files_;
};

} // namespace troupe::transport
