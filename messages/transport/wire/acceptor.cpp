#include "messages/transport/wire/acceptor.hpp"

#include "messages/transport/wire/host_address.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <utility>

namespace troupe::transport {

namespace {

using std::chrono::duration_cast;

/// Between two lines about strangers.
constexpr std::chrono::seconds quiet{60};

/// Between two looks whether the port can be opened again.
constexpr std::chrono::milliseconds shut_pace{100};

/// Descriptors reserved for the run itself: checkpoints, paths, event logs.
size_t reserve(size_t most) {
  return std::min<size_t>(16, most / 4);
}

/// Nodes that have not opened yet when the process is short of descriptors.
constexpr size_t few = 4;

/// What each new node needs: a connection and a path, twice.
constexpr size_t newcomers = 4;

std::string text_of(const sockaddr_storage& where) {
  char text[INET6_ADDRSTRLEN] = {};
  if (where.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(where).sin_addr,
              text, sizeof text);
  else if (where.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(where).sin6_addr,
              text, sizeof text);
  return text;
}

uint16_t port_of(const config::descriptor& listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6
                 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                 : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

/// Without waiting: the buffer of a new connection has room for it.
bool send_all(int line, const void* bytes, size_t count) {
  return ::send(line, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(count);
}

} // namespace

bool should_accept(bool open, size_t left, size_t most) {
  return left >= reserve(most) + (open ? 0 : newcomers);
}

// -- guests -------------------------------------------------------------------

void guest::welcome() {
  auto answer = entry_answer::accepted;
  if (!send_all(line.get(), &answer, sizeof answer))
    throw system_error("connection lost");
}

void guest::refuse(bool for_good, const std::string& why) noexcept {
  auto size = htons(static_cast<uint16_t>(why.size()));
  std::string bytes{
    static_cast<char>(for_good ? entry_answer::never : entry_answer::later)};
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += why;
  send_all(line.get(), bytes.data(), bytes.size());
}

socket line_of(guest who) {
  make_blocking(who.line.get(), true);
  return socket{std::move(who.line)};
}

// -- those who have not got so far --------------------------------------------

struct acceptor::pending {
  guest who;
  clock::time_point until;
  opening shown;
  size_t read = 0;       ///< Bytes of the opening.
  bool is_in = false;    ///< Has been welcomed; its first byte is awaited.
  bool is_ready = false; ///< Is passed on as soon as somebody takes it.

  bool is_open() const { return read == sizeof shown; }

  bool is_stranger() const {
    const opening right;
    auto known = std::min(read, sizeof right.mark);
    auto wants = shown.wants;
    return std::memcmp(shown.mark, right.mark, known) != 0 ||
           (read > sizeof right.mark && wants != purpose::control &&
            wants != purpose::tensors);
  }

  /// False when the node has gone.
  bool read_on() {
    auto* at = reinterpret_cast<char*>(&shown) + read;
    auto got = recv(who.line.get(), at, sizeof shown - read, 0);
    if (got < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    read += static_cast<size_t>(got);
    return got > 0;
  }
};

// -- the acceptor -------------------------------------------------------------

acceptor::acceptor(acceptor_terms terms)
  : terms_(std::move(terms)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_)
    throw system_error("cannot make an event");
  open_stream();
  if (terms_.same_host)
    open_unix();
  thread_ = std::thread{[this] {
    run();
  }};
}

acceptor::~acceptor() {
  close();
}

void acceptor::close() {
  if (closing_.exchange(true))
    return;
  wake();
  thread_.join();
  stream_ = {};
  unix_ = {};
  pending_.clear();
}

void acceptor::lead_to(purpose wants, taker to) {
  std::lock_guard guard{mutex_};
  (wants == purpose::control ? control_ : tensors_) = std::move(to);
  wake();
}

void acceptor::wake() {
  uint64_t one = 1;
  [[maybe_unused]] auto done = ::write(wake_.get(), &one, sizeof one);
}

// A port is free again at once when its last owner has ended.
void acceptor::open_stream() {
  auto all = look_up(terms_.host, terms_.port, AI_PASSIVE);
  stream_ = open_socket(all->ai_family, SOCK_NONBLOCK);
  int yes = 1;
  setsockopt(stream_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(stream_.get(), all->ai_addr, all->ai_addrlen) != 0 ||
      listen(stream_.get(), SOMAXCONN) != 0)
    throw system_error("cannot listen on " + terms_.host);
  port_ = port_of(stream_);
}

void acceptor::open_unix() {
  name_ = random_name();
  unix_address where{name_};
  unix_ = open_socket(AF_UNIX, SOCK_NONBLOCK);
  if (bind(unix_.get(), where.get(), where.size) != 0 ||
      listen(unix_.get(), SOMAXCONN) != 0)
    throw system_error("cannot listen on a Unix socket");
}

// A connection that cannot be accepted stays pending, and poll would report it
// again and again: without a pause that would use a whole core.
void acceptor::accept_from(const config::descriptor& listener, bool same_host) {
  std::chrono::duration<double> patience{terms_.patience}, rest{terms_.rest};
  auto now = clock::now();
  for (;;) {
    make_room();
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    config::descriptor fd{accept4(listener.get(),
                                  reinterpret_cast<sockaddr*>(&from), &size,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd && (errno == EINTR || errno == ECONNABORTED))
      continue;
    if (!fd && errno != EAGAIN && errno != EWOULDBLOCK) {
      rests_until_ = now + duration_cast<clock::duration>(rest);
      has_room(); // Says so if that is why.
    }
    if (!fd)
      return;
    if (same_host && !is_of_same_user(fd.get()))
      continue;
    pending next;
    next.who.line = std::move(fd);
    next.who.same_host = same_host;
    next.who.from = same_host ? "this host" : text_of(from);
    next.until = now + duration_cast<clock::duration>(patience);
    pending_.push_back(std::move(next));
  }
}

// A newcomer may be one of ours, and whoever waits for long is hardly. One
// address that fills the table loses its own.
void acceptor::make_room() {
  auto most = terms_.most_pending;
  if (pending_.size() >= few &&
      !should_accept(true, files_.left(), files_.most()))
    most = few;
  if (pending_.size() < most)
    return;
  std::map<std::string_view, size_t> counts;
  for (const auto& one : pending_)
    ++counts[one.who.from];
  auto fullest = std::ranges::max_element(
    counts, {}, [](const auto& each) { return each.second; });
  pending_.erase(std::ranges::find_if(pending_, [&](const pending& one) {
    return one.who.from == fullest->first;
  }));
}

/// Decides on a node that has opened. False when it is to be forgotten.
bool acceptor::let_in(pending& one) try {
  one.who.wants = one.shown.wants;
  one.who.secret.assign(one.shown.secret, sizeof one.shown.secret);
  if (one.who.wants == purpose::tensors)
    return one.is_ready = true;
  if (!has_room()) {
    one.who.refuse(false, "it may open no more files; it lets nodes in when "
                          "some are closed");
    return false;
  }
  one.who.welcome();
  return one.is_in = true;
} catch (const path_error&) {
  return false; // It has gone.
}

/// False if nobody takes it yet.
bool acceptor::pass_on(pending& one) {
  std::lock_guard guard{mutex_};
  auto& taker = one.who.wants == purpose::control ? control_ : tensors_;
  if (taker)
    taker(std::move(one.who));
  return taker != nullptr;
}

/// Whether another node may join. Says so when this changes.
bool acceptor::has_room() {
  auto left = files_.left();
  auto should = should_accept(open_, left, files_.most());
  if (std::exchange(open_, should) != should && terms_.say)
    terms_.say(
      should ? "port         open again"
             : "port         shut: " + std::to_string(left) + " of the " +
                 std::to_string(files_.most()) +
                 " files that this process may open are left; nodes can join "
                 "again when more are free (raise the limit with ulimit -n)");
  return should;
}

void acceptor::note_stranger(const pending& one) {
  ++strangers_;
  auto now = clock::now();
  if (!terms_.say || now < quiet_until_)
    return;
  quiet_until_ = now + quiet;
  auto more = std::exchange(strangers_, 0) - 1;
  terms_.say(
    "sent away    " + one.who.from +
    ": it does not begin as a node of this release" +
    (more > 0 ? " (and " + std::to_string(more) + " others before)" : ""));
}

/// ms until something is due; -1: nothing is.
int acceptor::time_to_wait(clock::time_point now) const {
  auto due = clock::time_point::max();
  if (now < rests_until_)
    due = rests_until_;
  if (!pending_.empty())
    due = std::min(due, pending_.front().until);
  if (!open_)
    due = std::min(due, now + shut_pace);
  if (due == clock::time_point::max())
    return -1;
  std::chrono::duration<double> left = due - now;
  return milliseconds(std::max(left.count(), 0.0));
}

/// Something has come. False when the node is to be forgotten.
bool acceptor::attend(pending& one) {
  if (one.is_in)
    return one.is_ready = true;
  if (!one.read_on())
    return false;
  if (one.is_stranger()) {
    note_stranger(one);
    return false;
  }
  return !one.is_open() || let_in(one);
}

void acceptor::run() {
  while (!closing_) {
    auto now = clock::now();
    auto rests = now < rests_until_;
    std::vector<pollfd> all{{wake_.get(), POLLIN, 0},
                            {rests ? -1 : stream_.get(), POLLIN, 0},
                            {rests ? -1 : unix_.get(), POLLIN, 0}};
    auto fixed = all.size(); // poll skips -1.
    for (const auto& one : pending_)
      all.push_back({one.is_ready ? -1 : one.who.line.get(), POLLIN, 0});
    if (poll(all.data(), all.size(), time_to_wait(now)) < 0) {
      if (errno != EINTR && !pending_.empty())
        pending_.erase(pending_.begin()); // More than the limit of files.
      continue;
    }
    if (all[0].revents != 0) {
      uint64_t times = 0;
      [[maybe_unused]] auto done = ::read(wake_.get(), &times, sizeof times);
    }
    now = clock::now();
    std::vector<pending> still;
    for (size_t i = 0; i < pending_.size(); ++i) {
      auto& one = pending_[i];
      auto stays =
        now < one.until && (all[fixed + i].revents == 0 || attend(one));
      if (stays && !(one.is_ready && pass_on(one)))
        still.push_back(std::move(one));
    }
    pending_ = std::move(still);
    if (!open_)
      has_room();
    if (all[1].revents != 0)
      accept_from(stream_, false);
    if (all[2].revents != 0)
      accept_from(unix_, true);
  }
}

} // namespace troupe::transport
