#pragma once
// The outlet of a worker whose parameter server has shards in processes of
// their own: each shard gets its part of a gradient ahead, where its path can.

#include "messages/gradient_outlet.hpp"

#include <vector>

namespace troupe {

class joined_outlet final : public gradient_outlet {
public:
  struct part {
    gradient_outlet_ptr outlet; ///< Null: its part goes with the push.
    payload_shape shape;
  };

  /// @param parts In the order of the weights.
  explicit joined_outlet(std::vector<part> parts);

  void begin(const payload& gradient) override;
  void ready(uint64_t from) override;
  void computed(double seconds) override;

private:
  std::vector<part> parts_;
};

} // namespace troupe
