#pragma once
// `--inner-optimizer adamw(lr=3e-4,weight-decay=0.1)`: the optimiser of each
// worker's own with `--local-steps`. Here the declaration is only read;
// models/optim/local_steps.hpp makes the steps. Pure; any thread.

#include "config/text/settings.hpp"

#include <string_view>

namespace troupe::config {

/// Checks a declaration: the name of an optimiser, with its numbers. Throws
/// `bad_value` that says what is wrong.
void check_inner_optimizer(std::string_view text);

/// The settings by which a worker makes its own steps: those of the run, with
/// the numbers and the schedule of the inner optimiser in the place of those of
/// the server's. @pre The declaration is valid.
training_settings inner_training(const training_settings& of);

} // namespace troupe::config
