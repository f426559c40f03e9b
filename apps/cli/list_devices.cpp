#include "apps/cli/list_devices.hpp"

#include "apps/startup/cores.hpp"
#include "config/commands/verb.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/nccl/library.hpp"

#include <cstdio>

namespace troupe::app {

namespace {

const config::verb devices_verb{
  "devices",
  "devices lists what --device can name on this machine: the CPU and each GPU, "
  "with its memory and the GPUs whose memory it reaches directly, the versions "
  "of CUDA and NCCL, or why no GPU can be used."};

std::string gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB",
                static_cast<double>(bytes) / (1 << 30));
  return text;
}

void print_row(const std::string& device, const std::string& name,
               const std::string& memory, const std::string& reaches) {
  std::printf("%-8s  %-28s  %-24s  %s\n", device.c_str(), name.c_str(),
              memory.c_str(), reaches.c_str());
}

void print_gpus() {
  int index = 0;
  for (const auto& gpu : models::accelerators()) {
    std::string reaches;
    for (auto other : gpu.reaches)
      reaches += (reaches.empty() ? "cuda:" : " cuda:") + std::to_string(other);
    print_row("cuda:" + std::to_string(index++),
              gpu.name.empty() ? "unknown" : gpu.name,
              gibibytes(gpu.free) + " of " + gibibytes(gpu.memory),
              reaches.empty() ? "none" : reaches);
  }
  auto versions = models::versions_of_cuda();
  std::printf("CUDA: driver %s, runtime %s\n",
              models::text_of_cuda(versions.driver).c_str(),
              models::text_of_cuda(versions.runtime).c_str());
  auto nccl = models::nccl::library::load();
  std::printf(
    "%s\n",
    nccl.library
      ? ("NCCL: " + models::nccl::version_text(nccl.library->version())).c_str()
      : nccl.why_not.c_str());
}

} // namespace

exit_status list_devices(const std::vector<std::string>& arguments) {
  if (!config::read_verb(devices_verb, arguments)) {
    std::printf("%s", config::help_of({&devices_verb, 1}).c_str());
    return exit_status::done;
  }
  print_row("device", "name", "free memory", "reaches directly");
  print_row("cpu", std::to_string(find_cpus().cores) + " cores", "", "");
  try {
    print_gpus();
  } catch (const run_error& err) {
    std::printf("%s\n", err.what());
  }
  return exit_status::done;
}

} // namespace troupe::app
