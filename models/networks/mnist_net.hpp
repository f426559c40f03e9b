#pragma once
// The small convolutional network of PyTorch's MNIST and RPC examples: conv
// 1-32 (3x3), relu, conv 32-64 (3x3), relu, pool 2, dropout 0.25, fully
// connected 9216-128, relu, dropout 0.5, fully connected 128-classes. 1,199,882
// parameters for 10 classes. Made through the registry; the result is one
// replica, for one thread.

#include "models/network.hpp"

#include <cstdint>
#include <memory>

namespace troupe::models {

/// For samples of shape [1, 28, 28].
std::shared_ptr<network> make_mnist_net(int64_t classes);

} // namespace troupe::models
