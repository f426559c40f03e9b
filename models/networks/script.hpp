#pragma once
// Networks from a TorchScript file, saved in Python by
// torch.jit.script(...).save(FILE) or torch.jit.trace(...).save(FILE), and
// trained like any other: `--network script:FILE`.
//
// Such a file is a program: loading it runs it. Callers must have checked that
// this node allows scripts (config/values/script.hpp). Any thread may load; a
// replica belongs to one thread.

#include "models/network.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::models {

/// Loads a network with the file's weights. Each call makes a new replica.
/// Dropout in scripts uses LibTorch's global generator, which is seeded for
/// each batch; other scripts of the process wait meanwhile.
/// @throws run_error that names the file, if it cannot be read or cannot be
/// trained: no float32 parameters, frozen or shared ones.
std::shared_ptr<network> load_script(const std::string& file);

/// Runs the network on two samples of zeros.
/// @param shape C, H, W of a sample.
/// @param classes Scores wanted for each sample; 0: any number.
/// @throws usage_error if it does not accept them, or returns something else.
void require_scores(network& net, const std::string& name,
                    const std::string& dataset,
                    const std::vector<int64_t>& shape, int64_t classes);

} // namespace troupe::models
