#include "apps/launch/ssh/parcel.hpp"

#include "apps/launch/ssh/known_digests.hpp"
#include "config/text/failure.hpp"
#include "models/storage/sha256.hpp"

#include <link.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace troupe::app {

namespace fs = std::filesystem;

namespace {

/// Of the C library. Names up to the first dot or dash.
constexpr std::array of_the_system{
  "linux-vdso",  "ld-linux", "libc.",      "libm.",    "libmvec.", "libdl.",
  "libpthread.", "librt.",   "libresolv.", "libutil.", "libnss_",  "libanl."};

/// Digits of a digest in a name: enough that two files of one name never share
/// it, and few enough that rsync sees what an older file of that name has in
/// common with it.
constexpr size_t digits = 16;

int add_library(dl_phdr_info* info, size_t, void* to) {
  fs::path path{info->dlpi_name};
  auto name = path.filename().string();
  auto is_of_system = std::ranges::any_of(
    of_the_system, [&](std::string_view one) { return name.starts_with(one); });
  if (path.is_absolute() && !is_of_system)
    static_cast<std::vector<fs::path>*>(to)->push_back(path);
  return 0;
}

std::string digest_of_all(std::span<const parcel_file> files) {
  std::string all;
  for (const auto& one : files)
    all += one.stored + "\n";
  return models::to_hex(models::sha256_of(std::as_bytes(std::span{all})))
    .substr(0, digits);
}

/// Lines of a script as one: not every login shell takes a line break between
/// quotes. None of them has a single quote.
std::string in_one_line(std::initializer_list<std::string_view> lines) {
  std::string out;
  for (const auto& one : lines)
    out += (out.empty() ? "" : " ") + std::string{one};
  return out;
}

} // namespace

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (auto c : word)
    out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return out + "'";
}

std::vector<parcel_file> files_of_program() {
  std::vector<fs::path> libraries;
  dl_iterate_phdr(add_library, &libraries);
  std::vector<parcel_file> out{
    {fs::read_symlink("/proc/self/exe"), "trainer_node", {}}};
  for (const auto& one : libraries)
    out.push_back({one, one.filename().string(), {}});
  known_digests known;
  for (auto& one : out) {
    one.stored = one.name + "-" + known.digest_of(one.from).substr(0, digits);
    one.size = file_size(one.from);
  }
  known.save();
  return out;
}

std::string command_of_agent(std::span<const parcel_file> program) {
  auto set = "set-" + digest_of_all(program);
  auto script = in_one_line(
    {"umask 077;", "d=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/launch;",
     "mkdir -p \"$d\" && cd \"$d\" && d=$(pwd) || {",
     "echo troupe-launch failed cannot make the folder \"$d\"; exit 0; };",
     // Before the question: those that are here are in use from now on.
     "touch -c \"$@\";",
     "lacks=; for one; do [ -s \"$one\" ] || lacks=\"$lacks $one\"; done;",
     "if [ -n \"$lacks\" ]; then way=tar;",
     "command -v rsync >/dev/null 2>&1 && way=rsync;",
     // In KiB, where df can say so; else a dash.
     "room=$(df -k --output=avail . 2>/dev/null | {",
     "read -r name; read -r n; echo \"$n\"; });",
     "echo \"troupe-launch lacks $way $d ${room:--}$lacks\"; exit 0; fi;",
     "s=" + set + ";", "if ! [ -d $s ]; then t=part-$$;",
     "mkdir -p $t/lib && for one; do",
     "ln -s \"../../$one\" \"$t/lib/${one%-*}\"; done;",
     "printf \"%s\\n\" \"#!/bin/sh\"",
     "\"LD_LIBRARY_PATH=\\\"$d/$s/lib\\${LD_LIBRARY_PATH:+:\\"
     "$LD_LIBRARY_PATH}\\\"\"",
     "\"export LD_LIBRARY_PATH\"",
     "\"exec \\\"$d/$s/lib/trainer_node\\\" \\\"\\$@\\\"\" > $t/trainer_node",
     "&& chmod 700 $t/trainer_node && mv -T $t $s 2>/dev/null || rm -rf $t;",
     "fi; find . -maxdepth 1 -type f -mtime +30 -exec rm -f {} + 2>/dev/null;",
     "find . -maxdepth 1 -name \"part-*\" -mtime +1 -exec rm -rf {} +"
     " 2>/dev/null;",
     "[ -x $s/trainer_node ] || {",
     "echo troupe-launch failed cannot write to the folder \"$d\"; exit 0; };",
     "echo troupe-launch ready; cd;",
     "exec \"$d/$s/trainer_node\" launch-agent \"$d/$s\""});
  auto out = "exec /bin/sh -c '" + script + "' troupe";
  for (const auto& one : program)
    out += " " + quoted(one.stored);
  return out;
}

std::string command_to_store(const std::string& folder) {
  auto script =
    in_one_line({"umask 077; cd \"$1\" && t=part-$$ && mkdir $t &&",
                 // -m: their age counts from now, or a launch of another host
                 // with the same home could remove them as unused.
                 "if tar -xmf - -C $t && mv $t/* . ; then rmdir $t;",
                 "echo troupe-launch stored; else rm -rf $t; exit 1; fi"});
  return "exec /bin/sh -c '" + script + "' troupe " + quoted(folder);
}

} // namespace troupe::app
