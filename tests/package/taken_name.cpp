// A program whose network has the name of one of ours.

#include "models/networks/registration.hpp"

namespace {

const troupe::models::register_network mine{
  {"lenet", {1, 28, 28}, 10, 0, [](int64_t classes) {
     return troupe::models::make_network("mnist_net", classes,
                                         troupe::config::scalar_type::float32);
   }}};

} // namespace
