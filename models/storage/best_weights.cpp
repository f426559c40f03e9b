#include "models/storage/best_weights.hpp"

#include "config/text/failure.hpp"
#include "models/storage/tensor_metadata.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::models {

namespace {

namespace fs = std::filesystem;

/// The shortest text that reads back as `x`.
template <class T>
std::string text_of(T x) {
  std::array<char, 32> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return {text.data(), end};
}

template <class T>
T number_in(const tensor_metadata& all, const std::string& key,
            const fs::path& where) {
  auto found = all.find(key);
  std::string_view text;
  if (found != all.end())
    text = found->second;
  T out{};
  auto [end, error] =
    std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size())
    throw run_error(where.string() + ": no " + key + " in its header");
  return out;
}

/// Stands before the names of metrics in the header, except for these two,
/// which release 0.1.0 wrote without it.
const std::string metric_prefix = "metric.";
constexpr std::array<std::string_view, 2> bare_metrics{
  config::native_metrics::accuracy, config::native_metrics::loss};

std::string key_of(const std::string& metric) {
  auto is_bare = std::ranges::count(bare_metrics, metric) > 0;
  return is_bare ? metric : metric_prefix + metric;
}

/// The metrics in the header, in the order of the keys.
config::metrics metrics_in(const tensor_metadata& about, const fs::path& path) {
  config::metrics out;
  for (const auto& [key, value] : about) {
    auto name =
      key.starts_with(metric_prefix) ? key.substr(metric_prefix.size()) : key;
    if (config::is_metric_name(name) && key_of(name) == key)
      out.push_back({name, number_in<double>(about, key, path)});
  }
  if (out.empty())
    throw run_error(path.string() + ": no metric in its header");
  return out;
}

/// Why a file that was read is of no use; `prefix` is for its new name.
struct unusable {
  std::string prefix;
  std::string why;
};

/// The file's bytes; nothing when there is no file. Throws `run_error` when the
/// system cannot tell or cannot read it, since the file may be good.
std::optional<file_bytes> read_if_there(const fs::path& path) {
  std::error_code error;
  auto kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::not_found)
    return std::nullopt;
  return read_file(path);
}

/// Whether its header has only what releases without a checksum wrote. With a
/// checksum, the file was verified when it was read.
bool is_whole(const tensor_metadata& about) {
  constexpr size_t keys_without_seal = 5;
  return about.contains(std::string{seal_key}) ||
         about.size() == keys_without_seal;
}

std::pair<best_score, tensor_file>
parse(file_bytes content, const fs::path& path, const std::string& run_id) try {
  tensor_file file{std::move(content), path.string()};
  const auto& about = file.metadata();
  best_score score{number_in<uint64_t>(about, "step", path),
                   metrics_in(about, path)};
  if (!is_whole(about))
    throw run_error(path.string() + ": its checksum is missing");
  auto found = about.find("run_id");
  if (found == about.end() || found->second != run_id)
    throw unusable{"abandoned-", path.string() + ": it is of another run"};
  return {score, std::move(file)};
} catch (const run_error& err) {
  throw unusable{"damaged-", err.what()};
}

} // namespace

void write_best(const fs::path& run, const best_score& best,
                const std::string& run_id,
                std::span<const named_tensor> weights) {
  replace_file(run / best_weights_file, [&](output_file& out) {
    tensor_metadata about{
      {"format", "pt"}, {"step", text_of(best.step)}, {"run_id", run_id}};
    for (const auto& one : best.metrics)
      about[key_of(one.name)] = text_of(one.value);
    write_sealed_safetensors(out, weights, about);
  });
}

std::optional<best_score>
open_best(const fs::path& run, const std::string& run_id,
          const std::function<void(const std::string&)>& on_line) {
  auto path = run / best_weights_file;
  std::error_code ignored;
  fs::remove(path.string() + ".tmp", ignored);
  auto content = read_if_there(path);
  if (!content)
    return std::nullopt;
  try {
    return parse(std::move(*content), path, run_id).first;
  } catch (const unusable& x) {
    auto to = free_name(run / (x.prefix + best_weights_file));
    rename_durably(path, to);
    if (on_line)
      on_line(x.why + "; it is now " + to.filename().string());
    return std::nullopt;
  }
}

best_score read_best_score(const fs::path& run) {
  auto path = run / best_weights_file;
  std::error_code error;
  if (!fs::exists(path, error))
    throw run_error(run.string() + ": holds no " + best_weights_file);
  auto about = read_metadata(path);
  return {number_in<uint64_t>(about, "step", path), metrics_in(about, path)};
}

void copy_best(const fs::path& from, const fs::path& to, uint64_t step,
               const std::string& run_id) {
  auto source = from / best_weights_file;
  std::error_code error;
  if (fs::equivalent(from, to, error))
    return;
  auto content = read_if_there(source);
  if (!content)
    return;
  try {
    auto [score, file] = parse(std::move(*content), source, run_id);
    if (score.step == step)
      write_best(to, score, run_id, file.tensors());
  } catch (const unusable&) {
    // The replay can do without it.
  }
}

} // namespace troupe::models
