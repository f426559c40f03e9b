#include "actors/worker/worker_files.hpp"
#include "apps/checkpoint/checkpoint.hpp"
#include "config/text/text.hpp"
#include "models/storage/best_weights.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

/// Reads files one after the other and counts those that are damaged.
class verification {
public:
  void check(const std::string& name, const std::function<void()>& read) {
    try {
      read();
      std::printf("good         %s\n", name.c_str());
    } catch (const run_error& why) {
      ++damaged_;
      std::printf("damaged      %s\n", why.what());
    }
    std::fflush(stdout);
  }

  /// Checks a file of tensors. If it holds no checksum, only its structure can
  /// be checked.
  void check_tensors(const fs::path& path) {
    check(path.string(), [&] {
      auto file = models::read_safetensors(path);
      if (!file.metadata().contains(std::string{models::seal_key}))
        std::printf("unsealed     %s: it has no checksum\n",
                    path.string().c_str());
    });
  }

  void end() const {
    if (damaged_ > 0)
      throw run_error(config::count(damaged_, "file or checkpoint") +
                      " damaged, see above");
  }

private:
  size_t damaged_ = 0;
};

/// What workers have saved in the run directory.
std::vector<fs::path> carried_files_of(const fs::path& run) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto* kind : {residuals_kind, inner_optimizer_kind})
    for (fs::recursive_directory_iterator i{run / kind, error}, end;
         !error && i != end; i.increment(error))
      if (i->path().extension() == ".safetensors")
        out.push_back(i->path());
  std::ranges::sort(out);
  return out;
}

} // namespace

void verify_checkpoints(const weights_place& at) {
  verification found;
  for (const auto& one : at.checkpoints)
    found.check(one.path.string(), [&] { models::read_checkpoint(one.path); });
  std::error_code error;
  auto best = at.run / models::best_weights_file;
  if (!at.file.empty())
    found.check_tensors(at.file);
  if (!at.run.empty() && at.checkpoints.size() != 1 && fs::exists(best, error))
    found.check_tensors(best);
  if (!at.run.empty())
    for (const auto& path : carried_files_of(at.run))
      found.check_tensors(path);
  found.end();
}

} // namespace troupe::app
