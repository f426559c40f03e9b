#include "apps/data/data.hpp"
#include "config/text/text.hpp"

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
  if (!part.store)
    return out;
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

void say_damaged(const std::string& line) {
  std::printf("damaged      %s\n", line.c_str());
}

/// Says how many more there are than those that are listed.
void say_more(size_t count) {
  if (count > most_listed)
    say_damaged("and " + std::to_string(count - most_listed) + " more");
}

void say_part(const char* name, const data::dataset_source& part,
              const findings& found) {
  auto samples = part.store ? part.store->size() : 0;
  if (samples == 0) {
    std::printf("%-12s no sample can be read\n", name);
  } else {
    auto [least, most] = std::ranges::minmax(found.of_class);
    std::printf("%-12s %llu samples, %s; %llu to %llu of a class\n", name,
                static_cast<unsigned long long>(samples),
                to_text(part.shape).c_str(),
                static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(most));
  }
  if (!part.without.empty())
    std::printf("left out     %s\n", part.without.text().c_str());
  for (size_t i = 0; i < std::min(most_listed, found.damaged.size()); ++i)
    say_damaged(found.damaged[i].second);
  say_more(found.damaged.size());
}

/// The samples, and the files that are damaged as a whole.
data::source_pair read_all(const config::data_settings& settings,
                           data::damage_list& damage) {
  const auto& entry = data::entry_of(settings.dataset);
  return entry.inspect ? entry.inspect(settings, damage)
                       : entry.load(settings, 1, data::data_part::both);
}

[[noreturn]] void refuse_damaged(const std::string& where, size_t files,
                                 size_t samples) {
  std::string line = where + ":";
  if (files > 0)
    line += " " + std::to_string(files) +
            (files == 1 ? " file or folder" : " files or folders") +
            " cannot be used, and a run needs them all";
  if (files > 0 && samples > 0)
    line += ";";
  if (samples > 0)
    line += " " + config::count(samples, "sample") +
            (samples == 1 ? " is" : " are") +
            " damaged; --on-bad-sample skip trains without";
  throw run_error(line);
}

} // namespace

bool check_data(const config::data_settings& settings) {
  std::printf("data set     %s in %s\n", settings.dataset.c_str(),
              settings.data_dir.c_str());
  std::fflush(stdout);
  data::damage_list files;
  auto source = read_all(settings, files);
  std::printf("classes      %lld\n",
              static_cast<long long>(source.train.classes));
  for (size_t i = 0; i < std::min(most_listed, files.size()); ++i)
    say_damaged(files[i]);
  say_more(files.size());
  size_t damaged = 0;
  auto without = false;
  for (const auto& [name, part] :
       {std::pair{"train", &source.train}, std::pair{"test", &source.test}}) {
    auto found = look_at(*part);
    say_part(name, *part, found);
    damaged += found.damaged.size();
    without = without || !part->without.empty();
  }
  if (!files.empty() || damaged > 0)
    refuse_damaged(settings.data_dir, files.size(), damaged);
  std::puts(without ? "all samples can be read; only .jpg, .jpeg and .png are "
                      "taken for images"
                    : "all of it can be read");
  return true;
}

} // namespace troupe::app
