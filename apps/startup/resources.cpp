#include "apps/startup/resources.hpp"

#include "actors/session/path_choice.hpp"
#include "apps/startup/cores.hpp"
#include "config/patterns/placement.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/nccl/nccl_row.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/gpu_choice.hpp"
#include "models/engine/tensor_memory.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
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

namespace {

/// The result of listening at an address for a moment.
struct listened {
  int error = 0; ///< `errno`; 0: it listened.
  uint16_t port = 0;
};

listened listen_briefly(const addrinfo& where) {
  auto fd = socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return {errno, 0};
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage found{};
  socklen_t size = sizeof found;
  auto* address = reinterpret_cast<sockaddr*>(&found);
  auto can = bind(fd, where.ai_addr, where.ai_addrlen) == 0 &&
             listen(fd, 1) == 0 && getsockname(fd, address, &size) == 0;
  listened out{can ? 0 : errno, 0};
  close(fd);
  // The port lies at the same place in both families of addresses.
  out.port = ntohs(reinterpret_cast<const sockaddr_in&>(found).sin_port);
  return out;
}

using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// The addresses of a host, or why there are none.
struct looked_up {
  address_list all{nullptr, &freeaddrinfo};
  std::string why_none;
};

looked_up look_up(const std::string& host, uint16_t port, int flags, int kind) {
  addrinfo hints{};
  hints.ai_socktype = kind;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  looked_up out;
  auto error =
    getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == 0)
    out.all.reset(found);
  else
    out.why_none =
      error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
  return out;
}

/// What to do about an `errno` of listening.
std::string advice_on(int error) {
  switch (error) {
  case EADDRINUSE:
    return "; choose another port, or end the program that has it";
  case EACCES:
    return "; choose a port that this user may have, such as one above 1023";
  case EADDRNOTAVAIL:
    return "; give an address of this machine, or 0.0.0.0 for all";
  default:
    return "";
  }
}

/// Listens at the first of the host's addresses at which this works; else
/// returns why it does not work at the last one.
std::variant<listened, std::string> listen_at(const std::string& host,
                                              uint16_t port) {
  auto where = look_up(host, port, AI_PASSIVE, SOCK_STREAM);
  if (!where.all)
    return where.why_none +
           "; check the name, or give an address of this machine";
  listened out;
  for (const auto* one = where.all.get(); one != nullptr; one = one->ai_next)
    if (out = listen_briefly(*one); out.error == 0)
      return out;
  return std::strerror(out.error) + advice_on(out.error);
}

} // namespace

std::optional<std::string> trouble_listening(const std::string& host,
                                             uint16_t port) {
  auto out = listen_at(host, port);
  if (auto* why = std::get_if<std::string>(&out))
    return std::move(*why);
  return std::nullopt;
}

uint16_t find_free_port(const std::string& host) {
  auto out = listen_at(host, 0);
  if (auto* why = std::get_if<std::string>(&out))
    throw run_error("cannot listen on the address " + host + ": " + *why);
  return std::get<listened>(out).port;
}

// Nothing is sent: connecting a datagram socket only chooses the way.
std::string address_towards(const std::string& host) {
  constexpr uint16_t any_port = 9;
  auto where = look_up(host, any_port, 0, SOCK_DGRAM);
  if (!where.all)
    throw run_error("the host " + host +
                    " cannot be looked up: " + where.why_none);
  const auto* found = where.all.get();
  auto fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage here{};
  socklen_t size = sizeof here;
  auto* at = reinterpret_cast<sockaddr*>(&here);
  auto there = connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
               getsockname(fd, at, &size) == 0;
  auto error = errno;
  close(fd);
  char text[NI_MAXHOST];
  if (!there ||
      getnameinfo(at, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    throw run_error("there is no way to the host " + host + ": " +
                    std::strerror(error));
  return text;
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

[[noreturn]] void no_nccl(const std::string& why) {
  throw run_error("--transport nccl: " + why + "; or use --transport auto");
}

transport::nccl::library_ptr load_nccl() {
  auto found = transport::nccl::library::load();
  if (!found.library)
    no_nccl(found.why_not);
  return found.library;
}

} // namespace

transport::nccl::library_ptr nccl_for(const config::settings& settings) {
  using namespace transport::nccl;
  const auto* wanted = config::find_path(settings.cluster.transport);
  if (wanted == nullptr || !wanted->needs_gpu)
    return nullptr;
  auto found = load_nccl();
  auto of_worker = settings.what == config::role::worker;
  // Shards connect to workers, never to each other: they share the lead's GPU.
  if (!of_worker && settings.cluster.rank.value_or(0) > 0)
    return found;
  if (auto computes_on = models::device_named(settings.training.device);
      of_worker && computes_on.has_index())
    return found->with_device(computes_on.index(), nullptr);
  using enum models::gpu_owner;
  auto device = models::take_gpu(models::wish_of_process(
    found->devices(), of_worker ? worker_of_gpu_server : server));
  if (auto* why = std::get_if<std::string>(&device))
    no_nccl(*why);
  auto& ours = std::get<models::gpu>(device);
  return found->with_device(ours.device, std::move(ours.claim));
}

namespace {

/// The GPU of this process, claimed until the process ends; `cpu` for `auto` if
/// others have taken all.
/// @param name As in the error, such as "--device cuda".
std::string gpu_of_process(const std::string& wanted, const std::string& name,
                           int devices, models::gpu_owner whose) {
  static std::optional<models::gpu> ours;
  if (ours)
    return "cuda:" + std::to_string(ours->device);
  auto found = models::take_gpu(models::wish_of_process(devices, whose));
  if (auto* why = std::get_if<std::string>(&found)) {
    if (wanted == "auto")
      return "cpu";
    throw run_error(name + ": " + *why + ", or name one with " + name + ":N");
  }
  ours = std::move(std::get<models::gpu>(found));
  return "cuda:" + std::to_string(ours->device);
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
  // One file or command line serves all nodes, and workers need the GPUs more.
  if (serves && !device.starts_with("cuda:") &&
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
  const auto* wanted = config::find_path(settings.cluster.transport);
  auto server_has_one = wanted != nullptr && wanted->needs_gpu;
  using enum models::gpu_owner;
  if (device == "auto" || device == "cuda")
    device = gpu_of_process(device, "--device cuda", devices,
                            server_has_one ? worker_of_gpu_server : worker);
  if (device == "cpu")
    return device;
  require_gpu(device, "--device " + device, devices);
  auto name = models::name_of_gpu(models::device_named(device).index());
  return name.empty() ? device : device + " (" + name + ")";
}

transport::collective_coordinator_ptr
collective_for(transport::nccl::library_ptr library,
               const payload_shape& weights,
               const std::function<void(const std::string&)>& say) {
  if (!library)
    return nullptr;
  transport::collective_terms terms;
  terms.device = transport::nccl_device(*library, false);
  terms.library = std::move(library);
  terms.weights = weights;
  terms.say = say;
  return std::make_shared<transport::collective_coordinator>(std::move(terms));
}

size_t terminal_width() {
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

double time_of_day() {
  std::chrono::duration<double> since =
    std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

} // namespace troupe::app
