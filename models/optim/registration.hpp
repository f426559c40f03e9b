#pragma once
// Registers an optimiser of your own under a name, like those of Troupe: define
// one such object in a source file of your program.
//
//   static const troupe::models::register_optimizer mine{
//     {{.name = "lion", .slots = [](const auto&) -> uint64_t { return 1; }},
//      [](const auto& settings, const auto& layout, auto groups) {
//        return std::make_unique<lion>(settings, layout, std::move(groups));
//      }}};
//
// `--optimizer lion` then works wherever `--optimizer sgd` does, with shards in
// other processes and with checkpoints, too. It is set by the keys of
// [training], as the others are. models/optim/slotted_optimizer.hpp has what
// optimisers share.
//
// To be constructed before main begins; not thread-safe.

#include "config/schema/optimizers.hpp"
#include "models/optim/optimizer.hpp"

#include <functional>
#include <memory>

namespace troupe::models {

/// Everything that the program knows of an optimiser.
struct optimizer_entry {
  config::optimizer_facts facts;
  /// Called for each shard with the layout of its range.
  std::function<std::unique_ptr<optimizer>(
    const config::training_settings& settings, const flat_layout& layout,
    parameter_groups groups)>
    make;
};

class register_optimizer {
public:
  /// A name that is taken or invalid is reported as `usage_error` when settings
  /// are read, because before main nobody could catch it.
  explicit register_optimizer(optimizer_entry entry);
};

} // namespace troupe::models
