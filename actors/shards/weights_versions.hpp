#pragma once
// Versions of a range of the weights as they are given to others, in the host's
// memory or on a GPU. On a GPU, what makes a version is enqueued on the current
// stream, and readers on other streams and threads are kept in order with it.
//
// A member of the lead's model or of a remote shard's state. Not thread-safe,
// except that any thread may read and release a version.

#include "config/text/settings.hpp"
#include "messages/ids.hpp"
#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"
#include "models/layout/weights_store.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace troupe {

class weights_versions {
public:
  /// @param count Elements of the range.
  /// @param memory Where versions, or copies of those on a GPU, lie in the
  /// host's memory.
  /// @param remote_readers Whether other processes read them: then the host's
  /// copy is made with the version, since no link can say that the GPU has
  /// failed.
  weights_versions(uint64_t count, config::scalar_type dtype, c10::Device where,
                   payload_memory_ptr memory, bool remote_readers);

  /// The newest version; shares its memory. Empty before the first.
  payload newest() const;

  /// The same as a tensor, for reading only, on the current stream.
  at::Tensor newest_flat() const;

  /// Memory for the next version: that of the newest one if nobody reads it any
  /// more, else another buffer.
  at::Tensor step_buffer();

  /// Makes `flat`, a buffer of this object, the newest version. Throws
  /// `run_error` if the GPU has failed.
  void publish(version id, at::Tensor flat);

  /// The same numbers where the versions are.
  payload place(const payload& numbers) const;

private:
  c10::Device where_;
  bool remote_readers_;
  models::weights_store store_;
  std::shared_ptr<payload_pool> copies_; ///< The host's, of those on a GPU.
  payload newest_; ///< Empty while the next one is made in its memory.
};

} // namespace troupe
