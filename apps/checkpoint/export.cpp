#include "apps/checkpoint/checkpoint.hpp"
#include "config/run_folder/own_file.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"
#include "models/exchange/torch_writer.hpp"
#include "models/storage/best_weights.hpp"

#include <cstdio>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

struct weights_to_export {
  models::tensor_file tensors;
  std::string name; ///< Of the file, without its extension.
};

void say_skipped(const std::string& line) {
  std::printf("skipped      %s\n", line.c_str());
}

weights_to_export newest_of(const weights_place& at) {
  for (auto one = at.checkpoints.rbegin(); one != at.checkpoints.rend(); ++one)
    try {
      auto found =
        models::read_checkpoint(one->path, models::checkpoint_content::weights);
      auto network = config::short_name(found.manifest.network());
      return {std::move(found.model),
              network + "-" + models::checkpoint_name(one->step)};
    } catch (const run_error& why) {
      if (std::next(one) == at.checkpoints.rend())
        throw;
      say_skipped(why.what());
    }
  throw run_error(at.run.string() + ": holds no checkpoint");
}

weights_to_export best_of(const fs::path& path, std::string name) {
  return {models::read_safetensors(path), std::move(name)};
}

/// The name for a file of the best weights. Only the manifest of a checkpoint
/// knows the network; without a checkpoint the name is "best".
std::string network_of(const weights_place& at) {
  if (at.checkpoints.empty())
    return "best";
  auto manifest = models::read_manifest(at.checkpoints.back().path);
  return config::short_name(manifest.network()) + "-best";
}

weights_to_export load(const weights_place& at, bool best) {
  if (!at.file.empty())
    return best_of(at.file, at.file.stem().string());
  if (!best)
    return newest_of(at);
  auto path = at.run / models::best_weights_file;
  std::error_code error;
  if (at.run.empty() || !fs::exists(path, error))
    throw run_error(
      (at.run.empty() ? fs::path{"the folder"} : at.run).string() +
      ": holds no best.safetensors");
  return best_of(path, network_of(at));
}

} // namespace

fs::path export_weights(const weights_place& at, bool best,
                        weights_format format, fs::path out) {
  auto what = load(at, best);
  if (out.empty())
    out =
      what.name + (format == weights_format::torch ? ".pt" : ".safetensors");
  config::require_own_file("--out", out);
  auto tensors = models::with_other_names(what.tensors);
  models::replace_file(out, [&](models::output_file& file) {
    if (format == weights_format::torch)
      models::write_torch(file, tensors);
    else
      models::write_safetensors(file, tensors, {{"format", "pt"}});
  });
  return out;
}

} // namespace troupe::app
