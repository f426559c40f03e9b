#include "tests/device/nccl/room.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <random>
#include <utility>

namespace troupe::testing::fake_nccl {

namespace {

uint64_t random_key() {
  static std::random_device source;
  return uint64_t{source()} << 32 | source();
}

/// A file of another process, or of this one; negative if it is not there.
int open_file_of(pid_t process, int file, int flags) {
  auto path =
    "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  return ::open(path.c_str(), flags | O_CLOEXEC);
}

int file_in_memory(size_t bytes) {
  auto out = memfd_create("fake-nccl", MFD_CLOEXEC);
  if (out < 0 || ftruncate(out, static_cast<off_t>(bytes)) != 0)
    throw std::bad_alloc{};
  return out;
}

/// What an id of 128 bytes says.
struct address {
  uint64_t key;
  pid_t process;
  int file;
};

} // namespace

// -- numbers ------------------------------------------------------------------

numbers_file::numbers_file(std::span<const std::byte> numbers)
  : file_(file_in_memory(sizeof key_ + numbers.size())), key_(random_key()) {
  auto whole = pwrite(file_, &key_, sizeof key_, 0) == sizeof key_;
  for (size_t at = 0; whole && at < numbers.size();) {
    auto more = pwrite(file_, numbers.data() + at, numbers.size() - at,
                       static_cast<off_t>(sizeof key_ + at));
    whole = more > 0;
    at += whole ? static_cast<size_t>(more) : 0;
  }
  if (!whole)
    throw std::bad_alloc{};
}

numbers_file::~numbers_file() {
  close(file_);
}

void numbers_file::describe(posting& to) const {
  to.process = getpid();
  to.file = file_;
  to.key = key_;
}

std::optional<std::vector<std::byte>> read_numbers(const posting& from) {
  auto file = open_file_of(from.process, from.file, O_RDONLY);
  if (file < 0)
    return std::nullopt;
  uint64_t key = 0;
  auto end = lseek(file, 0, SEEK_END);
  std::vector<std::byte> out(
    std::max<size_t>(static_cast<size_t>(std::max<off_t>(end, 0)), sizeof key) -
    sizeof key);
  auto there =
    pread(file, &key, sizeof key, 0) == sizeof key && key == from.key;
  for (size_t at = 0; there && at < out.size();) {
    auto more = pread(file, out.data() + at, out.size() - at,
                      static_cast<off_t>(sizeof key + at));
    there = more > 0;
    at += there ? static_cast<size_t>(more) : 0;
  }
  close(file);
  return there ? std::optional{std::move(out)} : std::nullopt;
}

// -- the room -----------------------------------------------------------------

struct room::memory {
  uint64_t key;
  pthread_mutex_t mutex;
  int size;
  seat seats[most_ranks];
  posting pairs[most_ranks][most_ranks][most_postings];
  posting of_all[most_ranks][most_postings];
};

namespace {

class lock {
public:
  explicit lock(pthread_mutex_t& mutex) : mutex_(mutex) {
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD)
      pthread_mutex_consistent(&mutex_);
  }

  ~lock() { pthread_mutex_unlock(&mutex_); }

  lock(const lock&) = delete;
  lock& operator=(const lock&) = delete;

private:
  pthread_mutex_t& mutex_;
};

} // namespace

void room::make(abi::unique_id& id) {
  // The file stays open: it is found through this process.
  address where{random_key(), getpid(), file_in_memory(sizeof(memory))};
  auto* at =
    static_cast<memory*>(mmap(nullptr, sizeof(memory), PROT_READ | PROT_WRITE,
                              MAP_SHARED, where.file, 0));
  if (at == MAP_FAILED)
    throw std::bad_alloc{};
  new (at) memory{};
  at->key = where.key;
  pthread_mutexattr_t how;
  pthread_mutexattr_init(&how);
  pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&at->mutex, &how);
  pthread_mutexattr_destroy(&how);
  munmap(at, sizeof(memory));
  std::memset(&id, 0, sizeof id);
  std::memcpy(id.bytes, &where, sizeof where);
}

std::shared_ptr<room> room::open(const abi::unique_id& id) {
  address where{};
  std::memcpy(&where, id.bytes, sizeof where);
  auto file = open_file_of(where.process, where.file, O_RDWR);
  if (file < 0)
    return nullptr;
  auto whole = lseek(file, 0, SEEK_END) == static_cast<off_t>(sizeof(memory));
  auto* at = whole ? mmap(nullptr, sizeof(memory), PROT_READ | PROT_WRITE,
                          MAP_SHARED, file, 0)
                   : MAP_FAILED;
  close(file);
  if (at == MAP_FAILED)
    return nullptr;
  std::shared_ptr<room> out{new room{static_cast<memory*>(at)}};
  return out->at_->key == where.key ? out : nullptr;
}

room::~room() {
  munmap(at_, sizeof(memory));
}

std::string room::enter(int rank, int size, const std::string& gpu) {
  lock guard{at_->mutex};
  if (at_->size == 0)
    at_->size = size;
  if (size != at_->size || size < 1 || size > most_ranks || rank < 0 ||
      rank >= size)
    return "rank " + std::to_string(rank) + " of " + std::to_string(size) +
           " comes to " + std::to_string(at_->size) + " ranks";
  auto& its = at_->seats[rank];
  if (its.taken)
    return "rank " + std::to_string(rank) + " has come already";
  its.taken = true;
  its.process = getpid();
  gpu.copy(its.gpu, sizeof its.gpu - 1);
  return {};
}

int room::size() const {
  return at_->size;
}

std::vector<seat> room::seats() const {
  lock guard{at_->mutex};
  return {at_->seats, at_->seats + at_->size};
}

void room::leave(int rank) {
  lock guard{at_->mutex};
  at_->seats[rank].gone = true;
}

bool room::is_here(int rank) const {
  lock guard{at_->mutex};
  const auto& its = at_->seats[rank];
  return !its.gone &&
         (!its.taken || kill(its.process, 0) == 0 || errno != ESRCH);
}

posting& room::place(int from, int to, uint64_t number) const {
  auto i = number % most_postings;
  return to < 0 ? at_->of_all[from][i] : at_->pairs[from][to][i];
}

bool room::post(int from, int to, const posting& numbers) {
  lock guard{at_->mutex};
  auto& free = place(from, to, numbers.number);
  if (free.number != 0)
    return false;
  free = numbers;
  return true;
}

std::optional<posting> room::find(int from, int to, uint64_t number) const {
  lock guard{at_->mutex};
  const auto& found = place(from, to, number);
  return found.number == number ? std::optional{found} : std::nullopt;
}

void room::take(int from, int to, uint64_t number, int taker) {
  lock guard{at_->mutex};
  auto& found = place(from, to, number);
  if (found.number == number)
    found.taken |= 1u << taker;
}

bool room::take_down(int from, int to, uint64_t number) {
  lock guard{at_->mutex};
  auto& found = place(from, to, number);
  if (found.number != number)
    return true;
  auto all = to < 0 ? (1u << at_->size) - 1 : 1u << to;
  if (found.taken != all)
    return false;
  found = {};
  return true;
}

} // namespace troupe::testing::fake_nccl
