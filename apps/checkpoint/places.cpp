#include "apps/checkpoint/places.hpp"

#include "config/text/failure.hpp"
#include "models/storage/best_weights.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The run directory above a folder of checkpoints; empty if that is no run's.
fs::path run_above(const fs::path& checkpoints) {
  auto whole = fs::absolute(checkpoints).lexically_normal();
  return whole.filename() == "checkpoints" ? whole.parent_path() : fs::path{};
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

std::map<uint64_t, version_score> scores_of(const fs::path& run) {
  std::map<uint64_t, version_score> out;
  std::ifstream in{run / "metrics.jsonl"};
  for (std::string text; std::getline(in, text);) {
    if (text.find("\"evaluation\"") == text.npos)
      continue;
    auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || line.value("kind", "") != "evaluation")
      continue;
    auto step = line.find("step");
    auto accuracy = line.find("accuracy");
    auto loss = line.find("loss");
    if (step == line.end() || !step->is_number_unsigned() ||
        accuracy == line.end() || !accuracy->is_number() ||
        loss == line.end() || !loss->is_number())
      continue;
    out[step->get<uint64_t>()] = {accuracy->get<double>(), loss->get<double>()};
  }
  return out;
}

} // namespace troupe::app
