#include "apps/launch/luggage.hpp"

#include <cstdlib>
#include <utility>

namespace troupe::app {

launch_luggage pack_luggage(const launch_call& call,
                            const run_secrets& secrets) {
  launch_luggage out;
  const auto* given = std::getenv("TROUPE_SSH");
  out.ssh = call.own.flags.has("ssh")            ? call.own.flags.text("ssh")
            : given != nullptr && *given != '\0' ? given
                                                 : "ssh";
  out.program = files_of_program();
  out.secrets = &secrets.texts();
  auto add = [&](const std::string& flag, const std::string& path) {
    for (auto& one : files_to_copy(flag, path)) {
      auto name = one.from.string();
      out.files.push_back({std::move(one), std::move(name)});
    }
  };
  if (call.own.flags.has("config"))
    add("--config", call.own.flags.text("config"));
  if (auto copies = call.own.repeated.find("copy");
      copies != call.own.repeated.end())
    for (const auto& one : copies->second)
      add("--copy", one);
  return out;
}

std::vector<std::string>
describe_hosts(std::span<const listed_host> hosts, const launch_plan& plan,
               std::span<const std::filesystem::path> folders) {
  std::vector<std::string> out;
  for (size_t i = 0; i < hosts.size(); ++i) {
    auto line =
      "host         " + hosts[i].address + ": in " + folders[i].string();
    for (const auto* some : {&plan.servers, &plan.others})
      for (const auto& one : *some)
        if (one.host == i)
          line += ", " + one.name;
    out.push_back(std::move(line));
  }
  return out;
}

} // namespace troupe::app
