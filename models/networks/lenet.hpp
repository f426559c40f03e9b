#pragma once
// LeNet as in ps_pytorch: conv 1-20 (5x5), pool 2, relu, conv 20-50 (5x5), pool
// 2, relu, fully connected 800-500, fully connected 500-classes. There is no
// nonlinearity between the last two. 431,080 parameters for 10 classes. Made
// through the registry; the result is one replica, for one thread.

#include "models/network.hpp"

#include <cstdint>
#include <memory>

namespace troupe::models {

/// LeNet for samples of shape [1, 28, 28].
std::shared_ptr<network> make_lenet(int64_t classes);

} // namespace troupe::models
