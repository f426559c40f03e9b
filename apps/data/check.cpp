#include "apps/data/data.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

namespace troupe::app {

namespace {

/// The most damaged samples that are listed one by one.
constexpr size_t most_listed = 20;

struct findings {
  std::vector<uint64_t> of_class;
  /// Samples with their errors, in the order of the samples.
  std::vector<std::pair<int64_t, std::string>> damaged;
};

data::window whole_image(int64_t height, int64_t width) {
  return {0, 0, height, width};
}

findings look_at(const data::dataset_source& part) {
  findings out;
  out.of_class.resize(static_cast<size_t>(part.classes));
  for (uint64_t i = 0; i < part.store->size(); ++i)
    ++out.of_class[static_cast<size_t>(part.store->label(i))];
  if (!part.store->decodes())
    return out;
  std::mutex access;
  auto n = static_cast<int64_t>(part.store->size());
  at::parallel_for(0, n, 16, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      try {
        part.store->load(static_cast<uint64_t>(i), whole_image);
      } catch (const run_error& why) {
        std::lock_guard lock{access};
        out.damaged.emplace_back(i, why.what());
      }
    }
  });
  std::ranges::sort(out.damaged);
  return out;
}

std::string to_text(const std::array<int64_t, 3>& shape) {
  if (shape[1] == 0)
    return "images of any size";
  return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" +
         std::to_string(shape[2]);
}

void say_part(const char* name, const data::dataset_source& part,
              const findings& found) {
  auto [least, most] = std::ranges::minmax(found.of_class);
  std::printf("%-12s %llu samples, %s; %llu to %llu of a class\n", name,
              static_cast<unsigned long long>(part.store->size()),
              to_text(part.shape).c_str(),
              static_cast<unsigned long long>(least),
              static_cast<unsigned long long>(most));
  for (size_t i = 0; i < std::min(most_listed, found.damaged.size()); ++i)
    std::printf("damaged      %s\n", found.damaged[i].second.c_str());
  if (found.damaged.size() > most_listed)
    std::printf("damaged      and %zu more\n",
                found.damaged.size() - most_listed);
}

} // namespace

bool check_data(const config::data_settings& what) {
  const auto& entry = data::entry_of(what.dataset);
  std::printf("data set     %s in %s\n", what.dataset.c_str(),
              what.data_dir.c_str());
  std::fflush(stdout);
  auto source = entry.load(what, 1, data::data_part::both);
  std::printf("classes      %lld\n",
              static_cast<long long>(source.train.classes));
  size_t damaged = 0;
  for (const auto& [name, part] :
       {std::pair{"train", &source.train}, std::pair{"test", &source.test}}) {
    auto found = look_at(*part);
    say_part(name, *part, found);
    damaged += found.damaged.size();
  }
  if (damaged == 0) {
    std::printf("all of it can be read\n");
    return true;
  }
  throw run_error(what.data_dir + ": " + std::to_string(damaged) +
                  (damaged == 1 ? " sample is" : " samples are") +
                  " damaged; --on-bad-sample skip trains without");
}

} // namespace troupe::app
