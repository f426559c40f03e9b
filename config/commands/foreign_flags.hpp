#pragma once
// Flags of other programs that people come from: main.py of PyTorch's ImageNet
// example, torchvision's references, torchrun, ps_pytorch. Pure; any thread.

#include <string>
#include <string_view>

namespace troupe::config {

/// The counterpart here of a flag of theirs, as the rest of an error line: ";
/// here it is --weight-decay X". Empty if the flag is none of theirs.
/// @param typed With its dashes, perhaps with a value: "-b", "-b64", "--wd=1".
std::string hint_for_foreign(std::string_view typed);

} // namespace troupe::config
