#include "apps/launch/hosts/host_list.hpp"
#include "apps/launch/ssh/frames.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

bool hosts(bytes_view data) {
  return taken([&] {
    for (const auto& one : app::parse_host_list(text_of(data), "hosts"))
      require(!one.address.empty() && !one.login.starts_with('-') &&
                one.slots > 0,
              "a host has a name and slots");
  });
}

bool launch_frame(bytes_view data) {
  return taken([&] {
    auto rest = text_of(data);
    while (auto one = app::take_frame(rest)) {
      auto again = app::to_bytes(*one);
      std::string_view from{again};
      require(app::take_frame(from) == one, "a frame is what was read");
    }
  });
}

inputs launch_seeds(std::string_view format) {
  if (format == "hosts")
    return {{"plain", "10.0.0.1\n10.0.0.2\n"},
            {"all", "# hosts\nanna@node-1 slots=4 ; fast\n[::1]\n"}};
  if (format == "launch")
    return {{"start", app::to_bytes({app::frame_kind::start,
                                     7,
                                     80,
                                     "worker-0",
                                     {"trainer_node", "--role", "worker"},
                                     {{"OMP_NUM_THREADS", "2"}}})},
            {"ended", app::to_bytes({app::frame_kind::ended, 7, 137})}};
  return {};
}

} // namespace troupe::fuzz
