#include "apps/data/data.hpp"

#include "apps/data/fetch.hpp"
#include "config/keys.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <system_error>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* help_text =
  R"(usage: trainer_node data check DIR [--dataset NAME]
       trainer_node data split DIR --parts N [--out OUT] [--dataset NAME]
       trainer_node data fetch NAME --data-dir DIR [--mirror URL]

check reads every sample in DIR and says what there is: samples, classes,
damaged files. Exit status 1 if something is damaged.
split cuts the samples for training into OUT/part-0, OUT/part-1, ..., each a
data-dir of its own with all classes; all samples for testing go to each. OUT is
DIR-in-N-parts unless given, and appears whole or not at all.
fetch downloads mnist, fashion-mnist, cifar10 or cifar100 into DIR, goes on with
what was begun, and compares with the published MD5 sums. --mirror names another
place that has the files.
--dataset says what the files are when their names do not; see
trainer_node --list-datasets.
)";

constexpr uint64_t most_parts = 100'000;

struct request {
  std::string verb;
  std::optional<std::string> folder;
  std::optional<std::string> dataset;
  std::optional<std::string> out;
  std::optional<std::string> data_dir;
  std::string mirror;
  std::optional<uint32_t> parts;
  bool help = false;
};

uint32_t parse_parts(const std::string& text) {
  try {
    auto out = config::parse_unsigned(text, most_parts);
    if (out == 0)
      throw config::bad_value("must be at least 1");
    return static_cast<uint32_t>(out);
  } catch (const config::bad_value& why) {
    throw usage_error("--parts " + config::shown(text) + ": " + why.what());
  }
}

std::string parse_dataset(const std::string& text) {
  config::settings checked;
  try {
    config::key_of("data.dataset").set(checked, text);
    return checked.data.dataset;
  } catch (const config::bad_value& why) {
    throw usage_error("--dataset " + config::shown(text) + ": " + why.what());
  }
}

void take_flag(request& out, const std::string& name,
               const std::string& value) {
  if (name == "--data-dir" && out.verb == "fetch")
    out.data_dir = value;
  else if (name == "--mirror" && out.verb == "fetch")
    out.mirror = value;
  else if (name == "--dataset" && out.verb != "fetch")
    out.dataset = parse_dataset(value);
  else if (name == "--parts" && out.verb == "split")
    out.parts = parse_parts(value);
  else if (name == "--out" && out.verb == "split")
    out.out = value;
  else
    throw usage_error("data " + out.verb + " has no flag " +
                      config::in_quotes(name) +
                      "; see trainer_node data "
                      "--help");
}

request parse(const std::vector<std::string>& arguments) {
  request out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& one = arguments[i];
    auto equals = one.find('=');
    if (one == "--help" || one == "-h")
      out.help = true;
    else if (out.verb.empty())
      out.verb = one;
    else if (one.starts_with("--") && equals != one.npos)
      take_flag(out, one.substr(0, equals), one.substr(equals + 1));
    else if (one.starts_with("--") && i + 1 < arguments.size())
      take_flag(out, one, arguments[++i]);
    else if (one.starts_with("--"))
      throw usage_error(one + " needs a value");
    else if (!out.folder)
      out.folder = one;
    else
      throw usage_error("unexpected argument " + config::in_quotes(one));
  }
  if (out.help)
    return out;
  if (out.verb != "check" && out.verb != "split" && out.verb != "fetch")
    throw usage_error("data needs to be told what to do: data check DIR, data "
                      "split DIR --parts N or data fetch NAME --data-dir DIR");
  if (out.verb == "fetch") {
    if (!out.folder || !out.data_dir)
      throw usage_error("data fetch needs a name and --data-dir DIR");
    return out;
  }
  if (!out.folder)
    throw usage_error("data " + out.verb + " needs a folder");
  if (out.verb == "split" && !out.parts)
    throw usage_error("data split needs --parts N");
  return out;
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

void fetch(const request& what) {
  auto live = isatty(STDOUT_FILENO) != 0;
  fetch_set(remote_of(*what.folder), *what.data_dir, what.mirror,
            [live](const std::string& line, bool short_lived) {
              if (!short_lived)
                std::printf("%s%s\n", live ? "\r\033[K" : "", line.c_str());
              else if (live)
                std::printf("\r\033[K%s", line.c_str());
              std::fflush(stdout);
            });
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
  if (fs::is_directory(folder / "train", error))
    return "folder";
  if (has_shards(folder))
    return "tar";
  throw run_error(folder.string() + ": holds the files of no data set; "
                                    "--list-datasets shows what they are "
                                    "called");
}

exit_status data_verb(const std::vector<std::string>& arguments) {
  auto what = parse(arguments);
  if (what.help) {
    std::fputs(help_text, stdout);
    return exit_status::done;
  }
  if (what.verb == "fetch") {
    fetch(what);
    return exit_status::done;
  }
  config::data_settings settings;
  settings.data_dir = *what.folder;
  settings.dataset = what.dataset ? *what.dataset : recognise(*what.folder);
  if (what.verb == "check")
    return check_data(settings) ? exit_status::done : exit_status::failed;
  auto out = what.out.value_or(
    fs::path{*what.folder / fs::path{}}.parent_path().string() + "-in-" +
    std::to_string(*what.parts) + "-parts");
  split_data(settings, *what.parts, out);
  std::printf("written      %u parts below %s\n", *what.parts, out.c_str());
  return exit_status::done;
}

} // namespace troupe::app
