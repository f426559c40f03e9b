#include "config/sources/rendezvous.hpp"

#include "config/sources/next_life_settings.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"

namespace troupe::config {

namespace {

constexpr const char* endpoint_id = "cluster.rdzv-endpoint";

/// By `--init-method file:///PATH`.
std::optional<std::filesystem::path>
file_of_init_method(const cluster_settings& cluster) {
  constexpr std::string_view file = "file://";
  const auto& method = cluster.init_method;
  if (!method.starts_with(file))
    return std::nullopt;
  std::filesystem::path out{method.substr(file.size())};
  if (!out.is_absolute() || !out.has_filename())
    return std::nullopt;
  return out;
}

bool meets_by_file(const cluster_settings& cluster) {
  return cluster.rdzv_backend == "file";
}

} // namespace

std::optional<meeting_place> find_meeting(const cluster_settings& cluster) {
  if (meets_by_file(cluster))
    return meeting_place{std::filesystem::path{cluster.rdzv_endpoint} /
                           cluster.run_id,
                         endpoint_id,
                         "--rdzv-endpoint " + cluster.rdzv_endpoint +
                           " --rdzv-id " + cluster.run_id};
  if (auto file = file_of_init_method(cluster))
    return meeting_place{*file, "cluster.init-method",
                         "--init-method " + cluster.init_method};
  return std::nullopt;
}

void check_rendezvous(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (!meets_by_file(cluster))
    return;
  if (cluster.rdzv_endpoint.empty())
    refuse(all, "cluster.rdzv-backend",
           "needs --rdzv-endpoint DIR, a folder that all nodes see");
  if (cluster.run_id.empty())
    refuse(all, "cluster.rdzv-backend",
           "needs --rdzv-id NAME, the same at all nodes of the run");
  if (cluster.run_id.starts_with('.') ||
      cluster.run_id.find('/') != std::string::npos)
    refuse(all, "cluster.run-id",
           "names a file of --rdzv-endpoint, so it must have no '/', and no "
           "'.' at its beginning");
  if (file_of_init_method(cluster))
    refuse(all, "cluster.init-method",
           "names a file, as --rdzv-endpoint does: give one of them");
}

void take_rendezvous(resolved& all) {
  const auto& cluster = all.values.cluster;
  auto what = all.values.what;
  auto is_node = what != role::none && what != role::simulate;
  // In a run's next life the lead may be elsewhere.
  if (!is_node || meets_by_file(cluster) || cluster.rdzv_endpoint.empty() ||
      all.origin_of("cluster.host").where == next_life_variable)
    return;
  try {
    auto where = parse_address(cluster.rdzv_endpoint);
    const auto& from = all.origin_of(endpoint_id);
    all.set_value({&key_of("cluster.host"), where.host, from});
    all.set_value({&key_of("cluster.port"), std::to_string(where.port), from});
  } catch (const bad_value& why) {
    refuse(all, endpoint_id,
           std::string{why.what()} +
             "; for a folder that all nodes see, give --rdzv-backend file");
  }
}

} // namespace troupe::config
