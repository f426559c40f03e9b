#include "apps/checkpoint/places.hpp"

#include "config/text/failure.hpp"
#include "models/storage/best_weights.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The run directory above a folder of checkpoints; empty if the folder is in
/// no run.
fs::path run_above(const fs::path& checkpoints) {
  auto whole = fs::absolute(checkpoints).lexically_normal();
  return whole.filename() == "checkpoints" ? whole.parent_path() : fs::path{};
}

/// The metrics in a line about an evaluation. Release 0.1.0 wrote loss and
/// accuracy alone, each under a key of its own.
config::metrics metrics_of(const json& line) {
  config::metrics out;
  auto put = [&](const std::string& name, const json& value) {
    if (value.is_number() && config::is_metric_name(name))
      out.push_back({name, value.get<double>()});
  };
  if (auto all = line.find("metrics"); all != line.end() && all->is_object()) {
    for (const auto& [name, value] : all->items())
      put(name, value);
  } else {
    for (const char* name :
         {config::native_metrics::accuracy, config::native_metrics::loss})
      put(name, line.value(name, json{}));
  }
  return out;
}

} // namespace

weights_place find_weights(const fs::path& given) {
  if (!is_there(given))
    throw run_error(given.string() + ": no such file or folder");
  weights_place out;
  if (!is_folder(given)) {
    out.file = given;
    return out;
  }
  auto path = given.lexically_normal();
  if (!path.has_filename() && path.has_parent_path())
    path = path.parent_path();
  if (is_there(path / "manifest.pb")) {
    out.run = run_above(fs::absolute(path).parent_path());
    out.checkpoints.push_back({models::read_manifest(path).step(), path});
    return out;
  }
  auto is_run = is_folder(path / "checkpoints") ||
                is_there(path / models::best_weights_file);
  auto below = is_run ? path / "checkpoints" : path;
  out.checkpoints = models::list_checkpoints(below);
  out.run = is_run ? path : run_above(below);
  if (out.checkpoints.empty() && !is_run)
    throw run_error(given.string() + ": holds no checkpoint");
  return out;
}

std::map<uint64_t, config::metrics> scores_of(const fs::path& run) {
  std::map<uint64_t, config::metrics> out;
  std::ifstream in{run / "metrics.jsonl"};
  for (std::string text; std::getline(in, text);) {
    if (text.find("\"evaluation\"") == text.npos)
      continue;
    auto line = json::parse(text, nullptr, false);
    if (!line.is_object() || line.value("kind", "") != "evaluation")
      continue;
    auto step = line.find("step");
    auto found = metrics_of(line);
    if (step != line.end() && step->is_number_unsigned() && !found.empty())
      out[step->get<uint64_t>()] = std::move(found);
  }
  return out;
}

} // namespace troupe::app
