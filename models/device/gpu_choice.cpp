#include "models/device/gpu_choice.hpp"

#include "config/sources/launcher_table.hpp"
#include "models/device/accelerator.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace troupe::models {

namespace {

const std::string advice =
  "each process needs a GPU of its own: start fewer on this host, or give each "
  "its own with LOCAL_RANK or CUDA_VISIBLE_DEVICES";

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

/// The GPU's name outside of this process.
std::string name_of(int device, const std::string& visible) {
  auto rest = visible;
  for (int i = 0; i < device && !rest.empty(); ++i) {
    auto comma = rest.find(',');
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  rest = rest.substr(0, rest.find(','));
  return rest.empty() ? std::to_string(device) : rest;
}

/// A name that one process of this user and host can have; null when it is
/// taken. It is free again when the process is gone, however it ends.
std::shared_ptr<const void> claim(const std::string& gpu) {
  auto name = "troupe-gpu-" + std::to_string(getuid()) + "-" + gpu;
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  auto size = std::min(name.size(), sizeof where.sun_path - 1);
  std::memcpy(where.sun_path + 1, name.data(), size);
  auto fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  auto length =
    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&where), length) != 0) {
    if (fd >= 0)
      close(fd);
    return nullptr;
  }
  return std::shared_ptr<const void>{new int{fd}, [](const void* x) {
                                       const auto* held =
                                         static_cast<const int*>(x);
                                       close(*held);
                                       delete held;
                                     }};
}

} // namespace

gpu_wish wish_of_process(int devices, gpu_owner whose) {
  auto rank = config::find_local_place(config::process_environment()).rank;
  auto local = rank.value_or(config::variable_fact{"LOCAL_RANK", ""});
  return {devices,
          whose,
          local.text,
          variable("CUDA_VISIBLE_DEVICES"),
          variable("NCCL_MULTI_RANK_GPU_ENABLE") == "1",
          local.name};
}

std::variant<std::vector<int>, std::string>
suitable_gpus(const gpu_wish& wish) {
  if (!wish.local_rank.empty()) {
    int rank = -1;
    const auto* end = wish.local_rank.data() + wish.local_rank.size();
    auto [last, error] = std::from_chars(wish.local_rank.data(), end, rank);
    auto cited = wish.rank_variable + "=" + wish.local_rank;
    if (error != std::errc{} || last != end || rank < 0)
      return cited + ": must be a whole number";
    // A process that sees only one GPU was assigned it.
    if (wish.devices == 1 && !wish.visible.empty())
      return std::vector{0};
    // The first process of the host may be a server without a GPU: then the
    // last of the others takes the first GPU.
    auto most = wish.devices - (wish.whose == gpu_owner::worker ? 0 : 1);
    if (rank > most && !wish.shared)
      return cited + ", but there are " + std::to_string(wish.devices) +
             " GPUs; " + advice;
    return std::vector{rank % wish.devices};
  }
  if (wish.whose == gpu_owner::server)
    return std::vector{0};
  auto first = wish.whose == gpu_owner::worker_of_gpu_server ? 1 : 0;
  std::vector<int> out;
  for (int i = 0; i < wish.devices; ++i)
    out.push_back((first + i) % wish.devices);
  return out;
}

std::variant<gpu, std::string> take_gpu(const gpu_wish& wish) {
  auto found = suitable_gpus(wish);
  if (auto* why = std::get_if<std::string>(&found))
    return *why;
  const auto& all = std::get<std::vector<int>>(found);
  if (wish.shared)
    return gpu{all.front(), nullptr};
  for (auto device : all)
    if (auto ours = claim(name_of(device, wish.visible)))
      return gpu{device, std::move(ours)};
  return "other processes have taken " +
         (all.size() == 1 ? "GPU " + name_of(all.front(), wish.visible)
                          : "all " + std::to_string(all.size()) + " GPUs") +
         "; " + advice;
}

std::string gpu_of_all(int device) {
  std::string host;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> host;
  auto wish = wish_of_process(device + 1, gpu_owner::worker);
  auto id = id_of_gpu(device);
  auto out = host + "/" + (id.empty() ? name_of(device, wish.visible) : id);
  // Where NCCL lets ranks share a GPU, each process has a part of it.
  return wish.shared ? out + "/" + std::to_string(getpid()) : out;
}

} // namespace troupe::models
