#include "apps/data/data.hpp"

#include "apps/data/fetch.hpp"
#include "config/commands/verb.hpp"
#include "config/schema/keys.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <span>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

using config::parameter;

constexpr uint64_t most_parts = 100'000;

const parameter folder{"folder", "DIR", "a folder with a data set",
                       config::file_path()};
const parameter kind{"dataset",
                     "NAME",
                     "what the files are when their names do not say it; see "
                     "trainer_node --list-datasets",
                     config::any_text(),
                     {},
                     true};

const std::array<config::verb, 3> data_verbs{{
  {"data check",
   "check reads every sample in DIR and says what there is: samples, classes, "
   "files that are left out, damaged files. Exit status 1 if something is "
   "damaged.",
   {folder},
   false,
   {kind}},
  {"data split",
   "split cuts the samples for training into OUT/part-0, OUT/part-1, ..., each "
   "a data-dir of its own with all classes; all samples for testing go to "
   "each. OUT appears whole or not at all.",
   {folder},
   false,
   {{"parts", "N", "how many", config::whole(1, most_parts)},
    {"out",
     "OUT",
     "where they go; not given: DIR-in-N-parts",
     config::file_path(),
     {},
     true},
    kind}},
  {"data fetch",
   "fetch downloads a data set into DIR, goes on with what was begun, and "
   "compares with the published MD5 sums.",
   {{"name", "NAME", "a name: mnist, fashion-mnist, cifar10 or cifar100",
     config::any_text()}},
   false,
   {{"data-dir", "DIR", "where it goes", config::file_path()},
    {"mirror",
     "URL",
     "another place that has the files",
     config::any_text(),
     {},
     true}}},
}};

std::string parse_dataset(const std::string& text) {
  config::settings checked;
  try {
    config::key_of("data.dataset").set(checked, text);
    return checked.data.dataset;
  } catch (const config::bad_value& why) {
    throw usage_error("--dataset " + config::shown(text) + ": " + why.what());
  }
}

const remote_set& remote_of(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& each : remote_sets())
    known.push_back(each.name);
  auto meant = config::spelt(name, known);
  for (const auto& each : remote_sets())
    if (each.name == meant)
      return each;
  throw usage_error("data fetch " + config::shown(name) + ": can fetch only " +
                    config::join(known, ", "));
}

void fetch(const config::verb_call& call) {
  auto live = isatty(STDOUT_FILENO) != 0;
  auto mirror = call.flags.has("mirror") ? call.flags.text("mirror") : "";
  fetch_set(remote_of(call.operands.front()), call.flags.text("data-dir"),
            mirror, [live](const std::string& line, bool short_lived) {
              if (!short_lived)
                std::printf("%s%s\n", live ? "\r\033[K" : "", line.c_str());
              else if (live)
                std::printf("\r\033[K%s", line.c_str());
              std::fflush(stdout);
            });
}

/// The folder for the parts.
std::string folder_of_parts(const config::verb_call& call) {
  if (call.flags.has("out"))
    return call.flags.text("out");
  // Without a slash at the end.
  auto from = (fs::path{call.operands.front()} / fs::path{}).parent_path();
  return from.string() + "-in-" + call.flags.text("parts") + "-parts";
}

bool has(const fs::path& folder, const std::string& name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

bool has_idx(const fs::path& folder, const std::string& stem) {
  for (const auto* below : {"", "raw/"})
    for (const auto* name : {"-images-idx3-ubyte", "-images.idx3-ubyte"})
      for (const auto* ending : {"", ".gz"})
        if (has(folder, below + stem + name + ending))
          return true;
  return false;
}

bool has_shards(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator i{folder, error}, end; !error && i != end;
       i.increment(error)) {
    auto name = i->path().filename().string();
    if (name.starts_with("train") && name.ends_with(".tar"))
      return true;
  }
  return false;
}

} // namespace

std::string recognise(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw run_error(folder.string() + ": is no folder");
  if (has_idx(folder, "train"))
    return "mnist";
  for (const auto& each : data::dataset_registry())
    if (each.name.starts_with("emnist-") &&
        has_idx(folder, each.name + "-train"))
      return each.name;
  for (const auto* below : {"", "cifar-10-batches-bin/"})
    if (has(folder, std::string{below} + "data_batch_1.bin"))
      return "cifar10";
  for (const auto* below : {"", "cifar-100-binary/"})
    if (has(folder, std::string{below} + "train.bin"))
      return "cifar100";
  // For the versions for Python the reader says what to do.
  if (has(folder, "batches.meta") ||
      has(folder, "cifar-10-batches-py/batches.meta"))
    return "cifar10";
  if (fs::is_regular_file(folder / "train", error) ||
      has(folder, "cifar-100-python/meta"))
    return "cifar100";
  if (fs::is_directory(folder / "train", error))
    return "folder";
  if (has_shards(folder))
    return "tar";
  throw run_error(folder.string() + ": holds the files of no data set; "
                                    "--list-datasets shows what they are "
                                    "called");
}

exit_status data_verb(const std::vector<std::string>& arguments) {
  auto [verb, what, help] = config::choose_verb("data", data_verbs, arguments);
  if (verb == nullptr) {
    std::fputs(help.c_str(), stdout);
    return exit_status::done;
  }
  if (verb->name == "data fetch") {
    fetch(what);
    return exit_status::done;
  }
  config::data_settings settings;
  settings.data_dir = what.operands.front();
  settings.dataset = what.flags.has("dataset")
                       ? parse_dataset(what.flags.text("dataset"))
                       : recognise(settings.data_dir);
  if (verb->name == "data check")
    return check_data(settings) ? exit_status::done : exit_status::failed;
  auto parts = static_cast<uint32_t>(what.flags.whole("parts"));
  auto out = folder_of_parts(what);
  split_data(settings, parts, out);
  std::printf("written      %u parts below %s\n", parts, out.c_str());
  return exit_status::done;
}

} // namespace troupe::app
