#include "tests/power/disk_image.hpp"

#include "tests/support/temporary_folder.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::testing {

namespace fs = std::filesystem;

// -- reading a trace ----------------------------------------------------------

struct disk_image::reader {
  explicit reader(disk_image& image) : image(image) {
    image.root_ = make(true);
  }

  node_ptr make(bool is_folder) {
    auto out = std::make_shared<node>();
    out->is_folder = is_folder;
    out->number = image.nodes_++;
    sizes.push_back(0);
    entries.emplace_back();
    return out;
  }

  /// Folder and name of a path that need not be there.
  std::pair<node_ptr, std::string> place(const std::string& path) {
    auto at = image.root_;
    fs::path whole{path};
    for (const auto& part : whole.parent_path())
      at = look(at, part.string(), path);
    return {at, whole.filename().string()};
  }

  node_ptr look(const node_ptr& folder, const std::string& name,
                const std::string& path) {
    auto found = entries[folder->number].find(name);
    if (found == entries[folder->number].end())
      throw std::runtime_error("the trace tells of " + path +
                               ", which it never told to be made");
    return found->second;
  }

  node_ptr find(const std::string& path) {
    if (path.empty())
      return image.root_;
    auto [folder, name] = place(path);
    return look(folder, name, path);
  }

  effect& add(effect::kind kind, node_ptr of) {
    auto& out = image.effects_.emplace_back();
    out.what = kind;
    out.at = now;
    out.of = std::move(of);
    return out;
  }

  void link(const std::string& path, node_ptr node) {
    auto [folder, name] = place(path);
    auto& out = add(effect::kind::link, folder);
    out.name = name;
    out.target = node;
    entries[folder->number][name] = std::move(node);
  }

  void unlink(const std::string& path) {
    auto [folder, name] = place(path);
    auto& out = add(effect::kind::unlink, folder);
    out.name = name;
    out.target = look(folder, name, path);
    entries[folder->number].erase(name);
  }

  void move(const disk_event& event, effect::kind kind) {
    auto [from, name] = place(event.path);
    auto [to, other] = place(event.other);
    if (from != to)
      throw std::runtime_error("a rename between folders: " + event.path);
    auto& out = add(kind, from);
    out.name = name;
    out.other = other;
    out.target = look(from, name, event.path);
    auto& here = entries[from->number];
    if (kind == effect::kind::swap) {
      out.second = look(to, other, event.other);
      std::swap(here[name], here[other]);
    } else {
      here.erase(name);
      here[other] = out.target;
    }
  }

  void resize(const node_ptr& file, uint64_t size) {
    add(effect::kind::size, file).offset = size;
    sizes[file->number] = size;
  }

  void write(const node_ptr& file, const disk_event& event) {
    auto& size = sizes[file->number];
    auto& out = add(effect::kind::bytes, file);
    out.offset = event.offset == UINT64_MAX ? size : event.offset;
    out.text = event.text;
    size = std::max<uint64_t>(size, out.offset + out.text.size());
  }

  void open(const disk_event& event) {
    if (event.made)
      link(event.path, make(false));
    auto file = find(event.path);
    if (event.emptied)
      resize(file, 0);
    handles[event.file] = file;
  }

  void sync(const node_ptr& node) {
    for (auto& one : image.effects_)
      if (one.of == node && one.safe == SIZE_MAX)
        one.safe = now;
  }

  void note_event(const disk_event& event) {
    auto found = handles.find(event.file);
    auto file = found == handles.end() ? nullptr : found->second;
    switch (event.what) {
    case disk_call::open:
      return open(event);
    case disk_call::close:
      handles.erase(event.file);
      return;
    case disk_call::write:
      if (file && !file->is_folder)
        write(file, event);
      return;
    case disk_call::resize:
      if (file)
        resize(file, event.offset);
      return;
    case disk_call::sync:
      if (file)
        sync(file);
      return;
    case disk_call::make:
      return link(event.path, make(true));
    case disk_call::rename:
      return move(event, effect::kind::move);
    case disk_call::exchange:
      return move(event, effect::kind::swap);
    case disk_call::unlink:
    case disk_call::remove:
      return unlink(event.path);
    case disk_call::mark:
      return;
    default:
      throw std::runtime_error("a call that the recorder cannot tell, at " +
                               event.path + " " + event.other);
    }
  }

  void begin(const fs::path& before) {
    if (before.empty())
      return;
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator{before})
      all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    for (const auto& path : all) {
      auto name = path.lexically_relative(before).string();
      auto made = make(fs::is_directory(path));
      link(name, made);
      if (!made->is_folder) {
        disk_event all_of_it;
        all_of_it.text = slurp(path);
        write(made, all_of_it);
      }
    }
    for (auto& one : image.effects_)
      one.safe = 0;
  }

  disk_image& image;
  size_t now = 0;
  std::vector<uint64_t> sizes;
  std::vector<names> entries;
  std::map<int32_t, node_ptr> handles;
};

disk_image::disk_image(const std::vector<disk_event>& trace,
                       const fs::path& before) {
  reader in{*this};
  in.begin(before);
  for (const auto& event : trace) {
    ++in.now;
    in.note_event(event);
  }
  moments_ = in.now;
}

// -- after the power failed ---------------------------------------------------

struct disk_image::content {
  std::vector<names> entries;
  std::vector<std::string> bytes;
};

void disk_image::apply(const effect& step, content& to, bool torn,
                       std::mt19937_64& random) {
  auto number = step.of->number;
  auto& here = to.entries[number];
  auto& bytes = to.bytes[number];
  auto drop = [&](const std::string& name) {
    if (auto found = here.find(name);
        found != here.end() && found->second == step.target)
      here.erase(found);
  };
  switch (step.what) {
  case effect::kind::bytes: {
    auto end = step.offset + step.text.size();
    if (bytes.size() < end)
      bytes.resize(end); // Of a torn one the size is there, with zeros.
    auto n = torn ? random() % step.text.size() : step.text.size();
    std::copy_n(step.text.begin(), n,
                bytes.begin() + static_cast<ptrdiff_t>(step.offset));
    return;
  }
  case effect::kind::size:
    bytes.resize(step.offset);
    return;
  case effect::kind::link:
    here[step.name] = step.target;
    return;
  case effect::kind::unlink:
    return drop(step.name);
  case effect::kind::move:
    drop(step.name);
    here[step.other] = step.target;
    return;
  case effect::kind::swap:
    here[step.name] = step.second;
    here[step.other] = step.target;
    return;
  }
}

void disk_image::write(const fs::path& folder, size_t moment, fate rest,
                       std::mt19937_64& random) const {
  content found;
  found.entries.resize(nodes_);
  found.bytes.resize(nodes_);
  // Now nearly all is lost, now nearly nothing.
  auto share = random() % 8 + 1;
  for (const auto& one : effects_) {
    if (one.at > moment)
      break;
    auto safe = one.safe <= moment;
    auto lucky =
      rest == fate::all || (rest == fate::some && random() % 9 < share);
    auto torn = !safe && rest == fate::some && random() % 4 == 0;
    if (safe || lucky)
      apply(one, found, torn && !one.text.empty(), random);
  }
  fs::remove_all(folder);
  std::vector<std::pair<const node*, fs::path>> todo{{root_.get(), folder}};
  while (!todo.empty()) {
    auto [at, path] = todo.back();
    todo.pop_back();
    if (!at->is_folder) {
      spill(path, found.bytes[at->number]);
      continue;
    }
    fs::create_directory(path);
    for (const auto& [name, what] : found.entries[at->number])
      todo.emplace_back(what.get(), path / name);
  }
}

} // namespace troupe::testing
