#include "tests/device/nccl/rank.hpp"

#include "messages/transport/wire/half.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <sstream>
#include <utility>

namespace troupe::testing::fake_nccl {

void (*on_breach)(const char* line) = nullptr;

namespace {

/// What a small send may be without anybody having received it.
constexpr size_t most_eager_bytes = 4096;

std::string variable(const char* name, const char* otherwise = "") {
  const auto* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

std::mt19937_64& draws() {
  static std::mt19937_64 out{std::stoull(variable("FAKE_NCCL_SEED", "1"))};
  return out;
}

std::string& faults() {
  static std::string out = variable("FAKE_NCCL_FAULTS");
  return out;
}

/// Under which name others know this GPU.
std::string gpu_of(int device) {
  std::istringstream visible{variable("CUDA_VISIBLE_DEVICES")};
  std::string name;
  for (int i = 0; i <= device; ++i)
    if (!std::getline(visible, name, ','))
      return std::to_string(device);
  return name;
}

std::string name_of(const part& x) {
  switch (x.what) {
  case action::send:
    return "ncclSend";
  case action::receive:
    return "ncclRecv";
  case action::reduce_scatter:
    return "ncclReduceScatter";
  default:
    return "ncclAllGather";
  }
}

bool is_collective(const part& x) {
  return x.what == action::reduce_scatter || x.what == action::all_gather;
}

size_t bytes_from(const part& x, size_t ranks) {
  auto one = x.count * abi::size_of(x.type);
  return x.from == nullptr                  ? 0
         : x.what == action::reduce_scatter ? ranks * one
                                            : one;
}

size_t bytes_to(const part& x, size_t ranks) {
  auto one = x.count * abi::size_of(x.type);
  return x.to == nullptr ? 0 : x.what == action::all_gather ? ranks * one : one;
}

std::byte* behind(const void* at) {
  return fake::bytes_behind(at);
}

// -- sums ---------------------------------------------------------------------

template <class T>
void add(std::byte* to, const std::byte* from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, to + i * sizeof(T), sizeof(T));
    std::memcpy(&y, from + i * sizeof(T), sizeof(T));
    x += y;
    std::memcpy(to + i * sizeof(T), &x, sizeof(T));
  }
}

/// Rounds after each addition, as each rank of a ring does.
template <auto From, auto To>
void add_halves(std::byte* to, const std::byte* from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t x, y;
    std::memcpy(&x, to + 2 * i, 2);
    std::memcpy(&y, from + 2 * i, 2);
    x = To(From(x) + From(y));
    std::memcpy(to + 2 * i, &x, 2);
  }
}

void add(std::byte* to, const std::byte* from, size_t count,
         abi::data_type type) {
  switch (type) {
  case abi::data_type::float64:
    return add<double>(to, from, count);
  case abi::data_type::float32:
    return add<float>(to, from, count);
  case abi::data_type::float16:
    return add_halves<transport::from_half, transport::to_half>(to, from,
                                                                count);
  default:
    return add_halves<transport::from_bf16, transport::to_bf16>(to, from,
                                                                count);
  }
}

} // namespace

std::recursive_mutex& guard_of_all() {
  static auto* out = new std::recursive_mutex;
  return *out;
}

void blame(const std::string& rule) {
  if (on_breach != nullptr)
    return on_breach(rule.c_str());
  std::fprintf(stderr, "the double of NCCL: %s\n", rule.c_str());
  std::abort();
}

bool is_wrong(const std::string& fault, int rank) {
  auto wanted = fault + ":" + std::to_string(rank);
  std::istringstream all{faults()};
  for (std::string one; std::getline(all, one, ',');)
    if (one == wanted)
      return true;
  return false;
}

void spoil(const std::string& how) {
  lock guard{guard_of_all()};
  faults() = how;
}

bool chance() {
  static const auto percent = std::stoul(variable("FAKE_NCCL_PACE", "50"));
  return draws()() % 100 < percent;
}

// -- work in a stream ---------------------------------------------------------

bool transfer::is_over() {
  lock guard{guard_of_all()};
  if (owner_ != nullptr)
    owner_->move_on();
  else if (!stuck_ && chance())
    done = true;
  return done;
}

void transfer::cancel(bool stuck) {
  owner_ = nullptr;
  stuck_ = stuck;
  // The device writes until it heeds the abort.
  if (!done && its.to != nullptr)
    std::memset(behind(its.to), 0xee, bytes_to(its, 1));
}

// -- a rank -------------------------------------------------------------------

rank::rank(std::shared_ptr<room> where, int number, int size, int device)
  : room_(std::move(where)), number_(number), device_(device),
    notices_(draws()() % 2 == 0),
    target_(c10::Stream::DEFAULT,
            {c10::kCUDA, static_cast<c10::DeviceIndex>(device)}) {
  auto why = room_ ? room_->enter(number, size, gpu_of(device)) : "";
  if (!why.empty())
    blame(why);
}

rank::~rank() {
  if (room_)
    room_->leave(number_);
  for (const auto& each : queue_)
    each->cancel(is_wrong("stuck", number_));
}

abi::result rank::fail(abi::result code, const std::string& why) {
  error_ = why;
  return state_ = code;
}

void rank::look_at_meeting() {
  if (is_wrong("never-meets", number_) || !room_)
    return;
  if (is_wrong("meets-badly", number_)) {
    fail(abi::result::system_error, "a planned error");
    return;
  }
  auto all = room_->seats();
  if (std::ranges::count(all, true, &seat::taken) < room_->size() ||
      misses_one())
    return;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(all[i].gpu, all[j].gpu) == 0 &&
          variable("NCCL_MULTI_RANK_GPU_ENABLE") != "1") {
        fail(abi::result::invalid_usage,
             "Duplicate GPU detected : rank " + std::to_string(i) +
               " and rank " + std::to_string(j) + " both on CUDA device " +
               all[i].gpu);
        return;
      }
  met_ = true;
  state_ = abi::result::success;
}

abi::result rank::look() {
  move_on();
  if (state_ == abi::result::success && is_wrong("fails", number_))
    return fail(abi::result::internal_error, "a planned error");
  if (state_ == abi::result::success && notices_ && misses_one() && chance())
    return fail(abi::result::remote_error, "a rank is gone");
  if (state_ != abi::result::in_progress || !chance())
    return state_;
  if (!met_)
    look_at_meeting();
  else if (arriving_ && !is_wrong("never-issued", number_))
    come_in();
  return state_;
}

bool rank::misses_one() const {
  for (int i = 0; i < room_->size(); ++i)
    if (!room_->is_here(i))
      return true;
  return false;
}

abi::result rank::issue(const part& asked, c10::Stream where) {
  arriving_ = std::make_shared<transfer>(this, asked);
  target_ = where;
  state_ = abi::result::in_progress;
  if (!is_wrong("never-issued", number_) && chance())
    come_in();
  return state_;
}

/// From now on it is behind what the stream has been given before.
void rank::come_in() {
  auto work = std::exchange(arriving_, nullptr);
  state_ = abi::result::success;
  auto ranks = static_cast<size_t>(room_->size());
  auto& x = work->its;
  x.number =
    ++numbers_[{is_collective(x) ? action::all_gather : x.what, x.peer}];
  queue_.push_back(work);
  try {
    fake::use uses[] = {{x.from, bytes_from(x, ranks), false},
                        {x.to, bytes_to(x, ranks), true}};
    fake::enqueue(target_, name_of(x), uses, work);
  } catch (const c10::Error& err) {
    blame(err.what_without_backtrace());
  }
}

void rank::move_on() {
  if (room_)
    take_down();
  while (!queue_.empty()) {
    auto& first = *queue_.front();
    if (!is_wrong("never-done", number_) && chance())
      first.done = advance(first.its);
    if (!first.done)
      return;
    queue_.pop_front();
  }
}

bool rank::advance(part& x) {
  switch (x.what) {
  case action::send:
    return send(x);
  case action::receive:
    return receive(x);
  default:
    return collect(x);
  }
}

bool rank::post(part& x) {
  posting mine;
  mine.number = x.number;
  mine.what = x.what;
  mine.type = x.type;
  mine.count = x.count;
  auto size = bytes_from(x, static_cast<size_t>(room_->size()));
  std::span bytes{behind(x.from), size};
  std::vector<std::byte> of_nan;
  if (is_wrong("sends-nan", number_))
    bytes = of_nan = std::vector(size, std::byte{0xff});
  auto file = std::make_unique<numbers_file>(bytes);
  file->describe(mine);
  x.posted = room_->post(number_, x.peer, mine);
  if (x.posted)
    left_.push_back({x.peer, x.number, std::move(file)});
  return x.posted;
}

bool rank::send(part& x) {
  if (!x.posted && !post(x))
    return false;
  auto found = room_->find(number_, x.peer, x.number);
  return !found || found->taken != 0 ||
         (bytes_from(x, 1) <= most_eager_bytes && chance());
}

bool rank::fits(const part& x, const posting& theirs) const {
  auto same = theirs.count == x.count && theirs.type == x.type;
  if (!same)
    blame("the ranks of a transfer name different sizes or types");
  return same;
}

bool rank::receive(part& x) {
  auto found = room_->find(x.peer, number_, x.number);
  if (!found || !fits(x, *found))
    return false;
  auto numbers = read_numbers(*found);
  if (!numbers)
    return false;
  std::ranges::copy(*numbers, behind(x.to));
  room_->take(x.peer, number_, x.number, number_);
  return true;
}

/// A rank that has all of what it needs is done, whether the others are or not.
bool rank::collect(part& x) {
  if (!x.posted && !post(x))
    return false;
  auto one = x.count * abi::size_of(x.type);
  std::vector<std::vector<std::byte>> all;
  for (int i = 0; i < room_->size(); ++i) {
    auto found = room_->find(i, -1, x.number);
    if (!found)
      return false;
    if (found->what != x.what)
      return blame("ranks are in different collectives"), false;
    auto numbers = fits(x, *found) ? read_numbers(*found) : std::nullopt;
    if (!numbers)
      return false;
    all.push_back(std::move(*numbers));
  }
  auto* to = behind(x.to);
  if (x.what == action::all_gather) {
    for (size_t i = 0; i < all.size(); ++i)
      std::ranges::copy(all[i], to + i * one);
  } else {
    // The order of a sum is not promised.
    std::ranges::shuffle(all, draws());
    auto first = static_cast<size_t>(number_) * one;
    std::copy_n(all.front().data() + first, one, to);
    for (size_t i = 1; i < all.size(); ++i)
      add(to, all[i].data() + first, x.count, x.type);
  }
  for (int i = 0; i < room_->size(); ++i)
    room_->take(i, -1, x.number, number_);
  return true;
}

void rank::take_down() {
  std::erase_if(left_, [this](const leftover& x) {
    return room_->take_down(number_, x.to, x.number);
  });
}

} // namespace troupe::testing::fake_nccl
