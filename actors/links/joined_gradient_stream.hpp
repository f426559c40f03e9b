#pragma once
// The gradient stream of a worker whose parameter server has shards in
// processes of their own: sends each shard its part of a gradient early, where
// the path of that shard can do so.
//
// Made by the session client, called by the worker's compute thread.

#include "messages/gradient_stream.hpp"

#include <vector>

namespace troupe {

class joined_gradient_stream final : public gradient_stream {
public:
  struct part {
    gradient_stream_ptr early_gradients; ///< Null: sent with the push.
    payload_shape shape;
  };

  /// @param parts In the order of the weights.
  explicit joined_gradient_stream(std::vector<part> parts);

  void begin(const payload& gradient) override;
  void ready(uint64_t from) override;
  void computed(double seconds) override;

private:
  std::vector<part> parts_;
};

} // namespace troupe
