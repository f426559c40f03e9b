#include "apps/startup/resources.hpp"

#include "apps/startup/cores.hpp"
#include "apps/startup/next_life.hpp"
#include "config/patterns/placement.hpp"
#include "config/schema/paths.hpp"
#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"
#include "config/values/address.hpp"
#include "config/values/compression.hpp"
#include "config/values/outliers.hpp"
#include "messages/transport/wire/host_address.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/gpu_choice.hpp"
#include "models/device/nccl/network.hpp"
#include "models/engine/tensor_memory.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace troupe::app {

int threads_share(const config::settings& settings) {
  return threads_share(settings, find_cpus());
}

models::lanes lanes_for(const config::settings& settings) {
  return models::lanes{lanes_share(settings, find_cpus())};
}

void keep_tensor_memory(const config::settings& settings) {
  constexpr uint64_t mebibyte = 1024 * 1024;
  auto limit = settings.training.memory_limit * mebibyte;
  models::keep_tensor_memory(limit > 0 ? limit : find_memory() / 4 * 3);
}

uint16_t find_free_port(const std::string& host) try {
  return transport::port_of(transport::listen_at(host, 0, true).front());
} catch (const transport::path_error& why) {
  throw run_error("cannot listen on the address " + host + ": " + why.what());
}

std::shared_ptr<transport::shared_memory>
shared_memory_for(const config::settings& settings) {
  if (!config::takes_paths(settings.cluster.transport, config::reach::host))
    return nullptr;
  auto out = std::make_shared<transport::shared_memory>();
  if (settings.training.device != "cpu")
    out->pin_with(&models::pin_memory);
  return out;
}

namespace {

/// The GPUs that this process has chosen, which it keeps until it ends.
std::vector<models::gpu>& gpus_of_process() {
  static std::vector<models::gpu> all;
  return all;
}

std::string device_name(const models::gpu& which) {
  return "cuda:" + std::to_string(which.device);
}

/// The GPU of this process; `cpu` for `auto` if others have taken all.
/// @param name As in the error, such as "--device cuda".
std::string gpu_of_process(const std::string& wanted, const std::string& name,
                           int devices, models::gpu_owner whose) {
  auto& ours = gpus_of_process();
  if (!ours.empty())
    return device_name(ours.front());
  auto found = models::take_gpu(models::wish_of_process(devices, whose));
  if (auto* why = std::get_if<std::string>(&found)) {
    if (wanted == "auto")
      return "cpu";
    throw run_error(name + ": " + *why + ", or name one with " + name + ":N");
  }
  ours.push_back(std::move(std::get<models::gpu>(found)));
  return device_name(ours.front());
}

models::gpu_owner owner_of_gpus(const config::settings& settings) {
  const auto* path = config::find_path(settings.cluster.transport);
  auto server_has_one = path != nullptr && path->needs_gpu;
  auto leads = settings.what == config::role::ps &&
               !config::is_peer(settings) &&
               settings.cluster.rank.value_or(0) == 0;
  return !server_has_one ? models::gpu_owner::worker
         : leads         ? models::gpu_owner::server
                         : models::gpu_owner::worker_of_gpu_server;
}

void require_gpu(const std::string& device, const std::string& name,
                 int devices) {
  if (models::device_named(device).index() < devices)
    return;
  throw run_error(
    name + ": there " +
    (devices == 1 ? "is one GPU, cuda:0"
                  : "are " + std::to_string(devices) +
                      " GPUs, cuda:0 to cuda:" + std::to_string(devices - 1)));
}

} // namespace

bool computes_parts_of(const std::optional<uint32_t>& server,
                       const config::settings& settings) {
  if (settings.what == config::role::simulate)
    return true;
  if (settings.what == config::role::worker)
    return !server;
  return settings.what == config::role::ps && server &&
         (!config::has_remote_shards(settings) ||
          *server == settings.cluster.rank.value_or(0));
}

std::string device_of_part(const std::string& named,
                           const config::settings& settings) {
  const auto& own = settings.training.device;
  if (named.empty() || (named == "cuda" && own != "cpu"))
    return own;
  if (named == "cpu")
    return named;
  auto devices = models::open_cuda();
  auto name = "[placement]: device " + named;
  if (named == "cuda")
    return gpu_of_process(named, name, devices, models::gpu_owner::worker);
  require_gpu(named, name, devices);
  return named;
}

void open_placed_devices(const config::settings& settings) {
  for (const auto& rule : config::parse_placement(settings.training.placement))
    if (computes_parts_of(rule.server, settings))
      device_of_part(rule.device, settings);
}

std::string choose_device(config::settings& settings) {
  auto& device = settings.training.device;
  if (device == "cpu")
    return {};
  auto serves = settings.what == config::role::ps && !config::is_peer(settings);
  const auto* wanted = config::find_path(settings.cluster.transport);
  auto server_has_one = wanted != nullptr && wanted->needs_gpu;
  // One file or command line serves all nodes, and workers need the GPUs more.
  if (serves && !device.starts_with("cuda:") && !server_has_one &&
      !config::may_have_modules(settings)) {
    device = "cpu";
    return "cpu: a parameter server computes there; --device cuda:N gives it a "
           "GPU";
  }
  if (!serves && settings.training.compute == config::compute_kind::external) {
    device = "cpu"; // Its program chooses.
    return {};
  }
  if (device == "auto" && !models::has_cuda())
    return device = "cpu";
  auto devices = models::open_cuda();
  if (device == "auto" || device == "cuda")
    device =
      gpu_of_process(device, "--device cuda", devices, owner_of_gpus(settings));
  if (device == "cpu")
    return device;
  require_gpu(device, "--device " + device, devices);
  // Without trust in the network nothing leaves this host: the ranks of NCCL,
  // which reads this when it is first called, meet over loopback.
  if (!settings.cluster.insecure_network)
    setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  auto name = models::name_of_gpu(models::device_named(device).index());
  return name.empty() ? device : device + " (" + name + ")";
}

std::vector<std::string> devices_of_replicas(const config::settings& settings) {
  const auto& device = settings.training.device;
  auto& ours = gpus_of_process();
  if (ours.empty() || device != device_name(ours.front()))
    return {device};
  while (ours.size() < settings.parallel.replicas) {
    auto found = models::take_gpu(
      models::wish_of_process(models::open_cuda(), owner_of_gpus(settings)));
    auto* next = std::get_if<models::gpu>(&found);
    if (next == nullptr || !next->claim) // None is free, or it may be shared.
      break;
    ours.push_back(std::move(*next));
  }
  std::vector<std::string> out;
  for (const auto& gpu : ours)
    out.push_back(device_name(gpu));
  return out;
}

transport::gpu_network_ptr
gpu_network_for(const config::settings& settings,
                const std::function<void(const std::string&)>& say) {
  const auto& cluster = settings.cluster;
  const auto* wanted = config::find_path(cluster.transport);
  auto must = wanted != nullptr && wanted->needs_gpu;
  if (!must && cluster.transport != "auto")
    return nullptr;
  if (auto next = this_life(); next && next->without_nccl)
    return nullptr;
  auto device = models::device_named(settings.training.device);
  if (device.is_cpu() && must)
    throw run_error(
      "--transport nccl: sends from GPU to GPU, and this node has "
      "its tensors in the host's memory; add --device cuda, or "
      "use --transport auto");
  if (device.is_cpu() ||
      settings.parallel.mode != config::parallel_mode::data_parallel)
    return nullptr;
  if (!cluster.insecure_network && !config::is_loopback(cluster.host)) {
    say(std::string{"path         nccl is not used: "} + config::open_nccl);
    return nullptr;
  }
  auto found = models::nccl::library::load();
  if (!found.library && must)
    throw run_error("--transport nccl: " + found.why_not +
                    "; or use --transport auto");
  if (!found.library) {
    say("path         nccl is not used: " + found.why_not);
    return nullptr;
  }
  return models::nccl::make_network(found.library, device.index(),
                                    models::gpu_of_all(device.index()));
}

// The running statistics lie behind the gradients, and so are averaged as these
// are. In a sum nobody sees the norm of a single gradient.
transport::gpu_exchange_ptr
gpu_exchange_for(const config::settings& settings,
                 const std::function<void(const std::string&)>& say) {
  using enum config::compression_kind;
  auto kind = config::parse_compression(settings.cluster.compression).kind;
  auto adds_up = config::is_peer(settings) && settings.cluster.shards > 1 &&
                 config::facts_of(settings.policy).summable &&
                 !config::parse_outliers(settings.training.outliers) &&
                 settings.training.buffers == config::buffers_rule::average &&
                 (kind == none || kind == fp16 || kind == bf16);
  auto network = adds_up ? gpu_network_for(settings, say) : nullptr;
  return network ? std::make_shared<transport::gpu_exchange>(network) : nullptr;
}

size_t terminal_width() {
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

} // namespace troupe::app
