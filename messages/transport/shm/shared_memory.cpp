#include "messages/transport/shm/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

namespace troupe::transport {

namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

constexpr uint64_t region_size(uint64_t bytes) {
  return std::max(memory_page, whole_pages(bytes));
}

// Allocates all of the memory now: if some were missing later, a signal would
// kill the process.
descriptor make_file(uint64_t bytes) {
  descriptor out{memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!out)
    throw system_error("memfd_create");
  if (fallocate(out.get(), 0, 0, static_cast<off_t>(bytes)) != 0)
    throw system_error("fallocate of " + std::to_string(bytes) +
                       " bytes of shared memory");
  if (fcntl(out.get(), F_ADD_SEALS, size_seals) != 0)
    throw system_error("sealing shared memory");
  return out;
}

} // namespace

// -- mappings -----------------------------------------------------------------

mapping::mapping(int file, size_t bytes, bool writable) {
  auto* where = mmap(nullptr, bytes, PROT_READ | (writable ? PROT_WRITE : 0),
                     MAP_SHARED | MAP_POPULATE, file, 0);
  if (where == MAP_FAILED)
    throw system_error("mapping shared memory");
  data_ = static_cast<std::byte*>(where);
  size_ = bytes;
}

mapping::mapping(mapping&& other) noexcept
  : data_(std::exchange(other.data_, nullptr)),
    size_(std::exchange(other.size_, 0)) {
  // nop
}

mapping& mapping::operator=(mapping other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

mapping::~mapping() {
  if (data_ != nullptr)
    munmap(data_, size_);
}

namespace {

/// The bytes of a peer's region, which must be fit to be mapped.
size_t checked_size(const descriptor& file, uint64_t most_bytes) {
  auto seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & size_seals) != size_seals)
    throw path_error{"the peer's shared memory is not sealed"};
  struct stat about {};
  if (fstat(file.get(), &about) != 0)
    throw system_error("the peer's shared memory");
  auto bytes = static_cast<uint64_t>(about.st_size);
  if (bytes == 0 || bytes > region_size(most_bytes))
    throw path_error{"the peer's shared memory has " + std::to_string(bytes) +
                     " bytes, and a tensor " + std::to_string(most_bytes)};
  return static_cast<size_t>(bytes);
}

} // namespace

// -- regions ----------------------------------------------------------

/// Outlives the memory while a block is in use.
class shared_memory::regions : public std::enable_shared_from_this<regions> {
public:
  memory_block take_block(size_t bytes) {
    auto made = std::make_shared<shared_region>();
    made->file = make_file(region_size(bytes));
    made->memory = mapping{made->file.get(), region_size(bytes), true};
    made->pinned = pinned(made->memory, true);
    auto* data = made->memory.data();
    {
      std::lock_guard guard{mutex_};
      made->id = ++last_id_;
      all_.emplace(data, made);
    }
    return {data, [from = shared_from_this(), made](std::byte* ptr) {
              from->forget(ptr);
            }};
  }

  shared_region_ptr map_foreign(descriptor file, uint64_t most_bytes) {
    auto bytes = checked_size(file, most_bytes);
    auto made = std::make_unique<shared_region>();
    made->memory = mapping{file.get(), bytes, false};
    made->pinned = pinned(made->memory, false);
    std::lock_guard guard{mutex_};
    if (keeps_foreign_files_)
      made->file = std::move(file);
    made->id = ++last_id_;
    shared_region_ptr out{
      made.release(), [from = shared_from_this()](const shared_region* gone) {
        from->forget_foreign(gone->memory.data());
        delete gone;
      }};
    foreign_.emplace(out->memory.data(), out);
    return out;
  }

  std::optional<place> find(const std::byte* data, uint64_t bytes) const {
    shared_region_ptr region;
    {
      std::lock_guard guard{mutex_};
      if (const auto* its = entry_of(all_, data))
        region = *its;
    }
    return place_in(std::move(region), data, bytes);
  }

  std::optional<place> find_foreign(const std::byte* data,
                                    uint64_t bytes) const {
    shared_region_ptr region; // Ends after the lock is released.
    {
      std::lock_guard guard{mutex_};
      if (const auto* its = entry_of(foreign_, data))
        region = its->lock();
    }
    if (region && !region->file)
      return std::nullopt;
    return place_in(std::move(region), data, bytes);
  }

  void pin_with(memory_pinner pinner) { pinner_ = std::move(pinner); }

  void keep_foreign_files() {
    std::lock_guard guard{mutex_};
    keeps_foreign_files_ = true;
  }

  void retire(const std::byte* data) {
    if (auto where = find(data, 0)) {
      std::lock_guard guard{mutex_};
      retired_.insert(where->region->memory.data());
    }
  }

  bool reusable(const std::byte* block) const {
    std::lock_guard guard{mutex_};
    return !retired_.contains(block);
  }

private:
  std::shared_ptr<const void> pinned(const mapping& memory,
                                     bool writable) const {
    if (!pinner_)
      return nullptr;
    return pinner_({memory.data(), memory.size()}, writable);
  }

  /// The region that begins there or last before; null if there is none.
  template <class Map>
  static const typename Map::mapped_type* entry_of(const Map& regions,
                                                   const std::byte* data) {
    auto next = regions.upper_bound(data);
    return next == regions.begin() ? nullptr : &std::prev(next)->second;
  }

  static std::optional<place> place_in(shared_region_ptr region,
                                       const std::byte* data, uint64_t bytes) {
    if (!region)
      return std::nullopt;
    auto offset = static_cast<uint64_t>(data - region->memory.data());
    auto size = region->memory.size();
    if (offset > size || bytes > size - offset)
      return std::nullopt;
    return place{std::move(region), offset};
  }

  void forget_foreign(const std::byte* data) {
    std::lock_guard guard{mutex_};
    foreign_.erase(data);
  }

  void forget(const std::byte* data) {
    std::lock_guard guard{mutex_};
    all_.erase(data);
    retired_.erase(data);
  }

  mutable std::mutex mutex_;
  std::map<const std::byte*, shared_region_ptr> all_;
  std::map<const std::byte*, std::weak_ptr<const shared_region>> foreign_;
  memory_pinner pinner_; ///< Constant when there are threads.
  bool keeps_foreign_files_ = false;
  std::set<const std::byte*> retired_;
  uint64_t last_id_ = 0;
};

shared_memory::shared_memory() : regions_(std::make_shared<regions>()) {
  // nop
}

shared_memory::~shared_memory() = default;

std::optional<std::string> shared_memory::trouble(uint64_t bytes) try {
  make_file(region_size(bytes));
  return std::nullopt;
} catch (const path_error& err) {
  return err.what();
}

memory_block shared_memory::take_block(size_t bytes) try {
  return regions_->take_block(bytes);
} catch (const path_error&) {
  throw std::bad_alloc{};
}

bool shared_memory::reusable(const std::byte* block) const {
  return regions_->reusable(block);
}

auto shared_memory::find(const std::byte* data, uint64_t bytes) const
  -> std::optional<place> {
  return regions_->find(data, bytes);
}

shared_region_ptr shared_memory::map_foreign(descriptor file,
                                             uint64_t most_bytes) {
  return regions_->map_foreign(std::move(file), most_bytes);
}

void shared_memory::pin_with(memory_pinner pinner) {
  regions_->pin_with(std::move(pinner));
}

void shared_memory::keep_foreign_files() {
  regions_->keep_foreign_files();
}

auto shared_memory::find_foreign(const std::byte* data, uint64_t bytes) const
  -> std::optional<place> {
  return regions_->find_foreign(data, bytes);
}

void shared_memory::retire(const std::byte* data) {
  regions_->retire(data);
}

// -- or the heap --------------------------------------------------------------

namespace {

class regions_or_heap final : public payload_memory {
public:
  explicit regions_or_heap(std::shared_ptr<shared_memory> regions)
    : regions_(std::move(regions)) {
    // nop
  }

  memory_block take_block(size_t bytes) override try {
    return regions_->take_block(bytes);
  } catch (const std::bad_alloc&) {
    return heap_memory()->take_block(bytes);
  }

  bool reusable(const std::byte* block) const override {
    return regions_->reusable(block);
  }

private:
  std::shared_ptr<shared_memory> regions_;
};

} // namespace

payload_memory_ptr shared_or_heap(std::shared_ptr<shared_memory> regions) {
  return std::make_shared<regions_or_heap>(std::move(regions));
}

} // namespace troupe::transport
