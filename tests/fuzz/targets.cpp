#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>

namespace troupe::fuzz {

namespace {

constexpr std::array targets{
  target{"idx", idx},
  target{"cifar", cifar},
  target{"tar", tar},
  target{"image", image},
  target{"safetensors", safetensors},
  target{"weights", weights},
  target{"checkpoint", checkpoint},
  target{"tape", event_log},
  target{"metrics", metrics},
  target{"ini", ini},
  target{"settings", settings},
  target{"hello", hello},
  target{"welcome", welcome},
  target{"message", message},
  target{"frame", frame},
  target{"header", header},
  target{"chunks", chunks},
  target{"packed", compressed},
  target{"handshake", handshake},
  target{"certificate", certificate},
  target{"opening", opening_bytes},
  target{"answer", answer},
  target{"basp", basp},
  target{"key", key},
  target{"token", token},
  target{"pin", pin},
  target{"address", address},
  target{"hosts", hosts},
  target{"launch", launch_frame},
};

} // namespace

std::span<const target> all_targets() {
  return targets;
}

const target* find_target(std::string_view name) {
  auto found = std::ranges::find(targets, name, &target::name);
  return found == targets.end() ? nullptr : &*found;
}

} // namespace troupe::fuzz
