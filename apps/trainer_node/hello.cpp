#include "apps/trainer_node/hello.hpp"

#include "config/cast.hpp"
#include "config/failure.hpp"
#include "config/script.hpp"
#include "config/value.hpp"
#include "config/version.hpp"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"
#include "models/durable_file.hpp"

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
  for (auto& [key, value] : config::explicit_cast_settings(config)) {
    auto* one = out.add_explicit_();
    one->set_key(key);
    one->set_value(value);
  }
  return out;
}

config::settings join_settings(config::settings own,
                               const proto::Welcome& welcome) {
  auto run = description_of(welcome);
  config::apply_cast_settings(own, run.settings);
  config::require_allowed(own.training);
  const auto& network = own.training.network;
  config::run_description here;
  if (config::is_script(network))
    here.network_sha256 = models::digest_of_file(config::script_file(network));
  if (!config::differences(run, here, config::relation::join).empty())
    throw run_error("--network " + network +
                    ": the file here is another than the parameter server's; "
                    "copy it to all nodes");
  return own;
}

} // namespace troupe::app
