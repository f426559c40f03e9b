#include "tests/device/fake/device.hpp"

#include "tests/device/fake/hub.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace troupe::testing::fake {

hub& device() {
  static auto* out = new hub;
  return *out;
}

std::byte* map(size_t bytes, int protection, int file) {
  auto* at = mmap(nullptr, bytes, protection,
                  file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  if (at == MAP_FAILED)
    throw std::bad_alloc{};
  return static_cast<std::byte*>(at);
}

void hub::protect(held_memory& x) {
  auto open = x.history.open_for(times.host());
  if (x.uses != nullptr)
    return tell(x, open);
  std::vector<int> wanted(x.bytes / page, x.most);
  for (const auto& use : open) {
    auto first = (use.first + page - 1) / page;
    auto last = use.last >= x.asked ? wanted.size() : use.last / page;
    for (auto i = first; i < last; ++i)
      wanted[i] &= use.writes ? PROT_NONE : PROT_READ;
  }
  for (size_t i = 0, end = 0; i < wanted.size(); i = end) {
    for (end = i; end < wanted.size() && wanted[end] == wanted[i] &&
                  x.protections[end] == x.protections[i];)
      ++end;
    if (wanted[i] != x.protections[i])
      mprotect(x.user + i * page, (end - i) * page, wanted[i]);
  }
  x.protections = std::move(wanted);
  note_in_flight(x, !open.empty());
}

void hub::tell(held_memory& x,
               const std::vector<access_history::access>& open) {
  x.uses->any[x.side] = !open.empty();
  x.uses->writing[x.side] =
    std::ranges::any_of(open, &access_history::access::writes);
  note_in_flight(x, !open.empty());
}

namespace {

constexpr c10::StreamId streams_of_pool = 31;
constexpr stream_number streams_of_device = 64;

size_t number_from(const char* variable, size_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

stream_number number_of(c10::Stream x) {
  return static_cast<stream_number>(x.device_index()) * streams_of_device +
         static_cast<stream_number>(x.id());
}

thread_local std::array<c10::StreamId, 16> current_streams{};
thread_local c10::DeviceIndex current_index = 0;

void give_back(void* context) {
  auto* x = static_cast<held_memory*>(context);
  auto& on = device();
  std::lock_guard guard{on.mutex};
  on.used -= x->bytes;
  // What other streams were said to use is waited for before it is used again.
  for (auto other : x->others)
    join(x->awaited, on.times.of(other));
  if (!x->others.empty())
    x->history.clear();
  x->others.clear();
  on.kept[{x->stream, x->bytes}].push_back(x);
}

void give_back_pinned(void* context) {
  auto* x = static_cast<held_memory*>(context);
  auto& on = device();
  std::lock_guard guard{on.mutex};
  // LibTorch keeps memory that is in use by a stream until that is over.
  on.in_flight.erase(x);
  munmap(x->user, x->bytes);
  munmap(x->behind, x->bytes);
  on.blocks.erase(x->user);
}

} // namespace

int device_count() {
  const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible == '\0')
    return 0;
  if (std::getenv("FAKE_CUDA_DRIVER") != nullptr)
    return 0;
  return static_cast<int>(number_from("FAKE_CUDA_DEVICES", 2));
}

namespace {

std::atomic<bool> failed{false};

} // namespace

bool has_failed() {
  return failed;
}

void require_working() {
  static const auto last = number_from("FAKE_CUDA_FAILS_AFTER", SIZE_MAX);
  static std::atomic<size_t> calls{0};
  if (++calls <= last)
    return;
  failed = true;
  constexpr int launch_failure = 719;
  throw c10::AcceleratorError{
    {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
    launch_failure,
    "CUDA error: unspecified launch failure\nCUDA kernel errors might be "
    "asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\n"};
}

c10::Stream current_stream(c10::Device where) {
  auto id = current_streams.at(static_cast<size_t>(where.index()));
  return c10::Stream{c10::Stream::UNSAFE, where, id};
}

c10::Stream exchange_stream(c10::Stream next) {
  auto& id = current_streams.at(static_cast<size_t>(next.device_index()));
  return c10::Stream{c10::Stream::UNSAFE, next.device(),
                     std::exchange(id, next.id())};
}

c10::Device current_device() {
  return {c10::kCUDA, current_index};
}

void set_current_device(c10::Device where) {
  if (where.has_index())
    current_index = where.index();
}

c10::Stream stream_of_pool(c10::Device where, bool high_priority) {
  static std::array<std::atomic<c10::StreamId>, 2> next{};
  if (!where.has_index())
    where = current_device();
  auto& its = next[high_priority ? 1 : 0];
  auto first = high_priority ? 1 + streams_of_pool : 1;
  return c10::Stream{c10::Stream::UNSAFE, where,
                     first + its++ % streams_of_pool};
}

void* handle_of(c10::Stream where) {
  // The default stream has a handle that is not null.
  return reinterpret_cast<void*>(static_cast<uintptr_t>(number_of(where)) + 1);
}

c10::Stream stream_of(void* handle) {
  auto number =
    static_cast<stream_number>(reinterpret_cast<uintptr_t>(handle) - 1);
  return c10::Stream{
    c10::Stream::UNSAFE,
    {c10::kCUDA, static_cast<c10::DeviceIndex>(number / streams_of_device)},
    number % streams_of_device};
}

// -- order --------------------------------------------------------------------

namespace {

/// Lets late work that `seen` has seen make progress; returns the name of what
/// is not over, or nothing.
std::string let_progress(const clock& seen) {
  std::vector<pending> all;
  {
    std::lock_guard guard{device().mutex};
    std::ranges::copy_if(
      device().late, std::back_inserter(all),
      [&](const pending& x) { return is_before(x.when, seen); });
  }
  std::string open;
  for (const auto& each : all) {
    // Without the lock, since the work uses the device.
    if (!each.work->is_over()) {
      open = each.when.action;
      continue;
    }
    std::lock_guard guard{device().mutex};
    std::erase_if(device().late,
                  [&](const pending& x) { return x.work == each.work; });
  }
  return open;
}

/// As CUDA does it: whoever waits for a peer that never comes waits for ever.
void wait_for_late_work(const clock& seen) {
  while (!let_progress(seen).empty())
    std::this_thread::sleep_for(std::chrono::microseconds{50});
}

clock clock_of(c10::Stream where) {
  std::lock_guard guard{device().mutex};
  return device().times.of(number_of(where));
}

} // namespace

operation::operation(c10::Stream where, std::string name) {
  require_working();
  auto open = let_progress(clock_of(where));
  TORCH_CHECK(open.empty(), "fake device: ", name, " on stream ",
              number_of(where), " is behind ", open,
              ", which is not over: it would wait on the device for a peer");
  auto& on = device();
  std::lock_guard guard{on.mutex};
  now_ = on.times.begin(number_of(where), std::move(name));
}

void enqueue(c10::Stream where, const std::string& name,
             std::span<const use> uses, std::shared_ptr<late_work> work) {
  auto& on = device();
  std::string wrong;
  std::lock_guard guard{on.mutex};
  auto now = on.times.begin(number_of(where), name);
  on.late.push_back({now, std::move(work)});
  for (const auto& each : uses) {
    auto* x = on.at(each.at);
    TORCH_CHECK(x != nullptr || each.bytes == 0, "fake device: ", name,
                " with memory that is not the device's");
    if (each.bytes == 0)
      continue;
    auto first =
      static_cast<size_t>(static_cast<const std::byte*>(each.at) - x->user);
    TORCH_CHECK(first + each.bytes <= x->bytes, "fake device: ", name,
                " beyond its memory");
    auto found = x->history.add(first, first + each.bytes, each.writes, now,
                                on.times.of(now.stream));
    wrong = wrong.empty() ? found : wrong;
  }
  TORCH_CHECK(wrong.empty(), "fake device: ", wrong);
}

void operation::reads(const void* at, size_t bytes) {
  touches(at, bytes, false);
}

void operation::writes(const void* at, size_t bytes) {
  touches(at, bytes, true);
}

void operation::touches(const void* at, size_t bytes, bool writes) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(at);
  if (x == nullptr || bytes == 0)
    return;
  auto first = static_cast<size_t>(static_cast<const std::byte*>(at) - x->user);
  auto wrong = x->history.add(first, first + bytes, writes, now_,
                              on.times.of(now_.stream));
  if (x->pinned || x->uses != nullptr)
    on.protect(*x);
  if (x->uses != nullptr && wrong.empty()) {
    auto other = 1 - x->side;
    if (x->uses->writing[other] || (writes && x->uses->any[other]))
      wrong = now_.action + (writes ? " writes" : " reads") +
              " what another process uses, and its host has not waited for it";
  }
  TORCH_CHECK(wrong.empty(), "fake device: ", wrong);
}

namespace {

std::atomic<int> calls{0};

/// Whether this call is the one to be left out.
bool is_forgotten() {
  static const auto which = number_from("FAKE_CUDA_FORGETS", 0);
  return static_cast<size_t>(++calls) == which;
}

} // namespace

int dependencies() {
  return calls;
}

void record(event& x, c10::Stream where) {
  require_working();
  if (is_forgotten())
    return;
  auto& on = device();
  std::lock_guard guard{on.mutex};
  join(on.times.of(number_of(where)), on.times.host());
  x.seen = on.times.of(number_of(where));
  x.recorded = true;
  x.answers_no = static_cast<int>(++on.draws * 0x9e3779b97f4a7c15 >> 62);
}

void block(const event& x, c10::Stream where) {
  require_working();
  if (is_forgotten())
    return;
  auto& on = device();
  std::lock_guard guard{on.mutex};
  if (x.recorded)
    join(on.times.of(number_of(where)), x.seen);
}

bool query(event& x) {
  require_working();
  if (!x.recorded)
    return true;
  if (!let_progress(x.seen).empty())
    return false;
  auto& on = device();
  std::lock_guard guard{on.mutex};
  if (x.answers_no-- > 0)
    return false;
  if (!is_forgotten())
    on.host_waits_for(x.seen);
  return true;
}

void wait_for(const event& x) {
  require_working();
  if (is_forgotten())
    return;
  wait_for_late_work(x.seen);
  auto& on = device();
  std::lock_guard guard{on.mutex};
  on.host_waits_for(x.seen);
}

void wait_for(c10::Stream where) {
  if (!is_forgotten())
    finish(where);
}

void finish(c10::Stream where) {
  require_working();
  auto seen = clock_of(where);
  wait_for_late_work(seen);
  auto& on = device();
  std::lock_guard guard{on.mutex};
  on.host_waits_for(seen);
}

bool query(c10::Stream where) {
  if (!let_progress(clock_of(where)).empty())
    return false;
  wait_for(where);
  return true;
}

void wait_for_all(c10::DeviceIndex which) {
  require_working();
  if (is_forgotten())
    return;
  for (c10::StreamId i = 0; i < streams_of_device; ++i)
    finish(c10::Stream{c10::Stream::UNSAFE, {c10::kCUDA, which}, i});
}

// -- memory -------------------------------------------------------------------

bool take_bytes(size_t bytes) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto fits = on.used + bytes <= number_from("FAKE_CUDA_MEMORY", SIZE_MAX / 2);
  on.used += fits ? bytes : 0;
  return fits;
}

c10::DataPtr take_memory(size_t bytes) {
  require_working();
  auto where = current_device();
  if (bytes == 0)
    return {nullptr, where};
  auto stream = number_of(current_stream(where));
  bytes = whole_pages(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, take_bytes(bytes),
                   "CUDA out of memory. Tried to allocate ", bytes, " bytes");
  auto& on = device();
  std::lock_guard guard{on.mutex};
  held_memory* x = nullptr;
  auto& free = on.kept[{stream, bytes}];
  auto found = std::ranges::find_if(
    free, [&](auto* each) { return !on.is_late(each->awaited); });
  if (found != free.end()) {
    x = *found;
    free.erase(found);
    x->awaited.clear();
  } else {
    // The lower half stays forbidden for ever.
    auto own = std::make_unique<held_memory>();
    x = own.get();
    x->user = map(2 * bytes, PROT_NONE);
    x->behind = x->user + bytes;
    mprotect(x->behind, bytes, PROT_READ | PROT_WRITE);
    x->bytes = bytes;
    x->device = where.index();
    x->stream = stream;
    on.blocks.emplace(x->user, std::move(own));
  }
  return {x->user, x, &give_back, where};
}

void use_on(const c10::DataPtr& memory, c10::Stream where) {
  if (is_forgotten())
    return;
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(memory.get());
  if (x != nullptr && !x->pinned && x->stream != number_of(where))
    x->others.insert(number_of(where));
}

c10::DataPtr take_pinned(size_t bytes) {
  require_working();
  auto file = memfd_create("pinned", MFD_CLOEXEC);
  auto x = std::make_unique<held_memory>();
  x->bytes = whole_pages(bytes);
  x->asked = bytes;
  x->protections.resize(x->bytes / page, PROT_READ | PROT_WRITE);
  if (file < 0 || ftruncate(file, static_cast<off_t>(x->bytes)) != 0)
    throw std::bad_alloc{};
  x->user = map(x->bytes, PROT_READ | PROT_WRITE, file);
  x->behind = map(x->bytes, PROT_READ | PROT_WRITE, file);
  close(file);
  x->pinned = true;
  auto* raw = x.get();
  auto& on = device();
  std::lock_guard guard{on.mutex};
  on.blocks.emplace(raw->user, std::move(x));
  return {raw->user, raw, &give_back_pinned, c10::Device(c10::kCPU)};
}

bool is_pinned(const void* at) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* x = on.at(at);
  return x != nullptr && x->pinned;
}

std::byte* bytes_behind(const void* at) {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  auto* address = const_cast<std::byte*>(static_cast<const std::byte*>(at));
  auto* x = on.at(at);
  return x == nullptr ? address : x->behind + (address - x->user);
}

usage memory_usage() {
  auto& on = device();
  std::lock_guard guard{on.mutex};
  return {number_from("FAKE_CUDA_MEMORY", size_t{1} << 34), on.used};
}

} // namespace troupe::testing::fake

/// For programs that open the library: see dependencies().
extern "C" int fake_cuda_dependencies() {
  return troupe::testing::fake::dependencies();
}
