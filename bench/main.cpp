// troupe_bench: measures Troupe next to references in the same run.

#include "apps/large_pages.hpp"
#include "bench/topics.hpp"
#include "config/text/failure.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace troupe;

struct part {
  std::string_view name; ///< <topic>/<what>
  void (*measure)(const bench::setting& how, bench::report& out);
};

/// In the order in which they are measured when none is named.
constexpr part parts[] = {
  {"transport/paths", bench::measure_transport},
  {"transport/overlap", bench::measure_overlap},
  {"transport/encryption", bench::measure_encryption},
  {"transport/compression", bench::measure_compression},
  {"server/step", bench::measure_server_step},
  {"data/batches", bench::measure_batches},
  {"train/lenet", bench::measure_lenet},
  {"train/resnet18", bench::measure_resnet},
  {"train/wide", bench::measure_wide},
  {"train/local_steps/lenet", bench::measure_rounds_of_lenet},
  {"train/local_steps/resnet18", bench::measure_rounds_of_resnet},
  {"train/local_steps/wide", bench::measure_rounds_of_wide},
  {"train/local_steps/exchange", bench::measure_exchange},
  {"parallel/remote_forward", bench::measure_remote_forward},
  {"parallel/remote_control", bench::measure_remote_control},
  {"parallel/pipeline", bench::measure_pipeline},
  {"parallel/contexts", bench::measure_contexts},
  {"parallel/peers", bench::measure_peer_nodes},
  {"parallel/peers_over_stream", bench::measure_peers_over_stream},
  {"parallel/slow_peer", bench::measure_slow_peer},
  {"peers/lenet", bench::compare_lenet},
  {"peers/resnet18", bench::compare_resnet},
  {"peers/wide", bench::compare_wide},
  {"cluster/killed_workers", bench::measure_killed_workers},
  {"python/lenet", bench::measure_python_lenet},
  {"python/step", bench::measure_python_steps},
  {"python/start", bench::measure_python_start},
  {"simulate/policy_events", bench::measure_policy_events},
  {"simulate/growth", bench::measure_growth},
  {"simulate/real_gradients", bench::measure_overhead},
};

struct request {
  std::vector<part> what;
  std::optional<std::filesystem::path> json;
  bench::setting how;
};

/// The parts that a name means: a topic means all of its parts.
std::vector<part> find_parts(std::string_view name) {
  std::vector<part> out;
  std::string known;
  for (const auto& x : parts) {
    if (x.name == name || x.name.starts_with(std::string{name} + "/"))
      out.push_back(x);
    known += (known.empty() ? "" : ", ") + std::string{x.name};
  }
  if (out.empty())
    throw usage_error("no such topic: " + std::string{name} +
                      "; there are: " + known);
  return out;
}

/// Its whole path, since it is started without a shell.
std::filesystem::path program(const std::string& name) {
  auto out = std::filesystem::absolute(name);
  if (!std::filesystem::is_regular_file(out))
    throw usage_error("--python " + name + ": there is no such file");
  return out;
}

request parse(const std::vector<std::string>& arguments) {
  request out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& word = arguments[i];
    if (word == "--quick")
      out.how.quick = true;
    else if (word == "--json" && i + 1 < arguments.size())
      out.json = arguments[++i];
    else if (word == "--python" && i + 1 < arguments.size())
      out.how.python = program(arguments[++i]);
    else if (word == "--json" || word == "--python")
      throw usage_error(word + " needs a file");
    else if (word.starts_with("-"))
      throw usage_error("unknown flag: " + word +
                        "; known are --json FILE, --python FILE and --quick");
    else
      std::ranges::copy(find_parts(word), std::back_inserter(out.what));
  }
  if (out.what.empty())
    out.what.assign(std::begin(parts), std::end(parts));
  out.how.trainer_node =
    std::filesystem::read_symlink("/proc/self/exe").parent_path() /
    "trainer_node";
  return out;
}

void run(const request& wish) {
  bench::report out;
  for (const auto& one : wish.what)
    one.measure(wish.how, out);
  if (wish.json)
    out.save(*wish.json);
}

} // namespace

int main(int argc, char** argv) {
  try {
    app::prefer_large_pages(); // As trainer_node does.
    run(parse({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& err) {
    std::fflush(stdout);
    std::fprintf(stderr, "troupe_bench: %s\n", err.what());
    auto known = dynamic_cast<const failure*>(&err);
    return static_cast<int>(known != nullptr ? known->status()
                                             : exit_status::failed);
  }
}
