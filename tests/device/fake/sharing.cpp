// Memory of the fake device that two processes use, and memory of the host that
// its user registers. The first is a file without a name, with the uses of both
// processes behind it.

#include "tests/device/fake/device.hpp"
#include "tests/device/fake/hub.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace troupe::testing::fake {

namespace {

constexpr int of_taker = 0;
constexpr int of_opener = 1;

/// Maps the file of shared memory, with its uses behind the rest; null if that
/// cannot be.
held_memory* map_shared(int file, size_t bytes, int side) {
  auto own = std::make_unique<held_memory>();
  auto* x = own.get();
  x->user = map(2 * bytes + page, PROT_NONE);
  x->behind = x->user + bytes;
  if (mmap(x->behind, bytes + page, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
    return nullptr;
  x->bytes = bytes;
  x->asked = bytes;
  x->device = current_device().index();
  x->side = side;
  x->uses = reinterpret_cast<open_uses*>(x->behind + bytes);
  auto& on = device();
  std::lock_guard guard{on.mutex};
  on.blocks.emplace(x->user, std::move(own));
  return x;
}

/// Ends the process if this memory, which is to be unmapped, is in use.
void require_unused(const hub& on, const held_memory& x) {
  if (has_failed() || x.history.open_for(on.times.host()).empty())
    return;
  std::fputs("fake device: memory is given back while it is in use\n", stderr);
  std::abort();
}

} // namespace

std::string address_of(int device) {
  const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream names{visible == nullptr ? "" : visible};
  auto out = std::to_string(device);
  for (int i = 0; i <= device; ++i)
    if (std::string name; std::getline(names, name, ','))
      out = name;
  return "fake:" + out;
}

void* take_shared(size_t bytes) {
  bytes = whole_pages(bytes);
  if (!take_bytes(bytes))
    return nullptr;
  auto file = memfd_create("fake GPU", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes + page)) != 0)
    return nullptr;
  auto* x = map_shared(file, bytes, of_taker);
  if (x != nullptr)
    x->file = file;
  return x == nullptr ? nullptr : x->user;
}

shared_name name_of_shared(const void* at) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(at);
  if (x == nullptr || x->user != at || x->file < 0)
    return {};
  return {getpid(), x->file, x->bytes};
}

void* open_shared(const shared_name& where) {
  if (where.process == getpid())
    return nullptr;
  auto path = "/proc/" + std::to_string(where.process) + "/fd/" +
              std::to_string(where.file);
  auto file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return nullptr;
  auto* x = map_shared(file, where.bytes, of_opener);
  close(file);
  return x == nullptr ? nullptr : x->user;
}

bool close_shared(void* at) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(at);
  if (x == nullptr || x->user != at || x->side != of_opener)
    return false;
  require_unused(on, *x);
  on.in_flight.erase(x);
  munmap(x->user, 2 * x->bytes + page);
  on.blocks.erase(x->user);
  return true;
}

// The second mapping is of the same pages, if others can see them as well.
bool pin(void* at, size_t bytes, bool writable) {
  auto* second = mremap(at, 0, bytes, MREMAP_MAYMOVE);
  if (second == MAP_FAILED)
    return false;
  mprotect(second, bytes, PROT_READ | PROT_WRITE);
  auto x = std::make_unique<held_memory>();
  x->user = static_cast<std::byte*>(at);
  x->behind = static_cast<std::byte*>(second);
  x->bytes = whole_pages(bytes);
  x->asked = bytes;
  x->most = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  x->protections.resize(x->bytes / page, x->most);
  x->pinned = true;
  x->registered = true;
  auto& on = device();
  std::lock_guard guard{on.mutex};
  return on.blocks.emplace(x->user, std::move(x)).second;
}

bool unpin(void* at) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(at);
  if (x == nullptr || x->user != at || !x->registered)
    return false;
  require_unused(on, *x);
  munmap(x->behind, x->bytes);
  on.in_flight.erase(x);
  on.blocks.erase(x->user);
  return true;
}

} // namespace troupe::testing::fake
