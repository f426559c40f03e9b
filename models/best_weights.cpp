#include "models/best_weights.hpp"

#include "config/failure.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

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
T number_in(const tensor_metadata& all, const std::string& key) {
  auto found = all.find(key);
  std::string_view text;
  if (found != all.end())
    text = found->second;
  T out{};
  auto [end, error] =
    std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size())
    throw run_error("no " + key + " in its header");
  return out;
}

best_score read_score(const fs::path& path, const std::string& run_id) {
  auto file = read_safetensors(path);
  const auto& about = file.metadata();
  if (auto found = about.find("run_id");
      found == about.end() || found->second != run_id)
    throw run_error("it is of another run");
  return {number_in<uint64_t>(about, "step"),
          number_in<double>(about, "accuracy"),
          number_in<double>(about, "loss")};
}

} // namespace

void write_best(const fs::path& run, const best_score& what,
                const std::string& run_id,
                std::span<const named_tensor> weights) {
  replace_file(run / best_weights_file, [&](output_file& out) {
    write_safetensors(out, weights,
                      {{"format", "pt"},
                       {"step", text_of(what.step)},
                       {"accuracy", text_of(what.accuracy)},
                       {"loss", text_of(what.loss)},
                       {"run_id", run_id}});
  });
}

std::optional<best_score> open_best(const fs::path& run,
                                    const std::string& run_id) {
  auto path = run / best_weights_file;
  std::error_code ignored;
  fs::remove(path.string() + ".tmp", ignored);
  if (!fs::exists(path, ignored))
    return std::nullopt;
  try {
    return read_score(path, run_id);
  } catch (const run_error&) {
    fs::remove(path, ignored);
    return std::nullopt;
  }
}

void copy_best(const fs::path& from, const fs::path& to, uint64_t step,
               const std::string& run_id) {
  auto source = from / best_weights_file;
  std::error_code error;
  if (!fs::exists(source, error) || fs::equivalent(from, to, error))
    return;
  std::optional<best_score> found;
  try {
    found = read_score(source, run_id);
  } catch (const run_error&) {
    return;
  }
  if (found->step == step)
    write_best(to, *found, run_id, read_safetensors(source).tensors());
}

} // namespace troupe::models
