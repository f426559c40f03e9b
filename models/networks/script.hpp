#pragma once
// Networks that come as a TorchScript file, saved from Python by
// torch.jit.script(...).save(FILE) or torch.jit.trace(...).save(FILE), and are
// trained as any other: `--network script:FILE`.
//
// Such a file is a program. Whoever loads it, runs it.

#include "models/network.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::models {

/// Loads a network; its first weights are those of the file. Each call makes a
/// replica of its own. Dropout of scripts draws from LibTorch's generator of
/// the process, which is seeded for each batch; meanwhile other scripts wait.
/// @throws run_error that names the file, if it cannot be read or holds what
/// cannot be trained: no float32 parameters, frozen or shared ones.
std::shared_ptr<network> load_script(const std::string& file);

/// Tries the network on two samples of zeros.
/// @param shape C, H, W of a sample.
/// @param classes Scores that are wanted for each; 0: any number.
/// @throws usage_error if it does not take them, or gives something else.
void require_scores(network& net, const std::string& name,
                    const std::string& dataset,
                    const std::vector<int64_t>& shape, int64_t classes);

} // namespace troupe::models
