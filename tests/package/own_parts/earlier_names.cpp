// Headers by the names that they had before.

#include <actors/modules/training.hpp>

static_assert(sizeof(troupe::remote::training_function) > 0);
