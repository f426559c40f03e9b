#include "apps/startup/hello.hpp"

#include "config/rules/external_compute.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/text/version.hpp"
#include "config/values/script.hpp"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"
#include "models/networks/described.hpp"
#include "models/networks/registry.hpp"

#include <unistd.h>

namespace troupe::app {

namespace {

std::string name_of_process() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return std::string{host} + "/" + std::to_string(getpid());
}

} // namespace

proto::Hello make_hello(const config::resolved& config) {
  proto::Hello out;
  out.set_protocol(protocol_version);
  out.set_troupe_version(std::string{config::version()});
  out.set_role(print(config.values.what));
  out.set_name(name_of_process());
  for (auto& [key, value] : config::explicit_shared_settings(config)) {
    auto* one = out.add_explicit_();
    one->set_key(key);
    one->set_value(value);
  }
  return out;
}

config::settings join_settings(config::settings own,
                               const proto::Welcome& welcome) {
  auto run = description_of(welcome);
  auto given = own.training.network;
  config::apply_shared_settings(own, run.settings);
  config::require_allowed(own.training);
  config::require_who_computes(own);
  auto& network = own.training.network;
  if (config::is_described(network))
    network =
      config::is_described(given)
        ? given
        : models::keep_description({welcome.network(), welcome.network_bytes()},
                                   config::short_name(network));
  config::run_description here;
  here.network_sha256 = models::digest_of_network(network);
  if (!config::differences(run, here, config::relation::join).empty())
    throw run_error("--network " + network +
                    ": the file here is another than the parameter server's; " +
                    (config::is_described(network) ? "leave it out"
                                                   : "copy it to all nodes"));
  return own;
}

} // namespace troupe::app
