#include "messages/transport/wire/acceptor.hpp"

#include "messages/transport/tls/first_bytes.hpp"
#include "messages/transport/tls/tls_identity.hpp"
#include "messages/transport/tls/tls_session.hpp"
#include "messages/transport/wire/host_address.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace troupe::transport {

namespace {

using std::chrono::duration_cast;

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

/// Without waiting: the buffer of a new connection has room for it.
bool send_all(const connection_line& to, std::string_view bytes) {
  if (!to.tls)
    return ::send(to.fd.get(), bytes.data(), bytes.size(),
                  MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  std::span<const char> from{bytes};
  return to.tls->write(std::as_bytes(from)).bytes == bytes.size();
}

/// What has come, without taking it.
std::string peek(int line) {
  char bytes[telling_bytes] = {};
  auto got = recv(line, bytes, sizeof bytes, MSG_PEEK);
  return {bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

} // namespace

bool should_accept(bool open, size_t left, size_t most) {
  return left >= reserve(most) + (open ? 0 : newcomers);
}

// -- guests -------------------------------------------------------------------

void guest::welcome() {
  if (!send_all(line, {"Y"}))
    throw system_error("connection lost");
}

const tls_peer* guest::certified() const {
  return line.tls && line.tls->peer().shown ? &line.tls->peer() : nullptr;
}

void guest::refuse(bool for_good, const std::string& why) noexcept try {
  auto size = htons(static_cast<uint16_t>(why.size()));
  std::string bytes{
    static_cast<char>(for_good ? entry_answer::never : entry_answer::later)};
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  send_all(line, bytes + why);
} catch (const std::exception&) {
  // It has gone.
}

socket line_of(guest who) {
  make_blocking(who.line.fd.get(), who.line.tls == nullptr);
  return socket{std::move(who.line)};
}

// -- those who have not got so far --------------------------------------------

struct acceptor::pending {
  enum class step : uint8_t {
    securing, ///< TLS has not shaken hands.
    opening,  ///< Its opening has not come.
    silent,   ///< Has been welcomed; its first byte is awaited.
    ready,    ///< Is passed on as soon as somebody takes it.
    leaving   ///< Is sent away; what it still says is not heard.
  };

  guest who;
  clock::time_point until;
  step now = step::opening;
  bool writes = false; ///< TLS waits for room, not for bytes.
  opening shown;
  size_t read = 0; ///< Bytes of the opening.

  int fd() const { return who.line.fd.get(); }

  bool is_open() const { return read == sizeof shown; }

  bool is_stranger() const {
    const opening right;
    auto known = std::min(read, sizeof right.mark);
    auto wants = shown.wants;
    return std::memcmp(shown.mark, right.mark, known) != 0 ||
           (read > sizeof right.mark && wants != purpose::control &&
            wants != purpose::tensors);
  }

  /// Reads what is there of the opening. False when the node has gone.
  bool read_on() {
    auto* at = reinterpret_cast<char*>(&shown) + read;
    std::span<char> rest{at, sizeof shown - read};
    if (who.line.tls)
      return read_tls(rest);
    auto got = recv(fd(), rest.data(), rest.size(), 0);
    if (got < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    read += static_cast<size_t>(got);
    return got > 0;
  }

  bool read_tls(std::span<char> rest) {
    tls_progress got;
    do {
      got = who.line.tls->read(std::as_writable_bytes(rest));
      read += got.bytes;
      rest = rest.subspan(got.bytes);
    } while (!rest.empty() && got.wait == tls_wait::nothing && !got.ended);
    writes = got.wait == tls_wait::writable;
    return !got.ended;
  }

  /// A connection that is closed while bytes of it are unread would take back
  /// what was said last.
  bool leave() {
    now = step::leaving;
    who.line.tls = nullptr;
    ::shutdown(fd(), SHUT_WR);
    return hear_out();
  }

  /// False when the other end has closed, too.
  bool hear_out() const {
    char unheard[1024];
    ssize_t got = 0;
    while ((got = recv(fd(), unheard, sizeof unheard, 0)) > 0)
      ;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
};

// -- the acceptor -------------------------------------------------------------

acceptor::acceptor(acceptor_terms terms)
  : terms_(std::move(terms)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
    strangers_(terms_.say) {
  if (!wake_)
    throw system_error("cannot make an event");
  streams_ = listen_at(terms_.host, terms_.port, terms_.own.leaves_host());
  port_ = port_of(streams_.front());
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
  streams_.clear();
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
    next.who.line.fd = std::move(fd);
    if (terms_.own.identity && !same_host)
      next.now = pending::step::securing;
    next.who.same_host = same_host;
    next.who.from =
      same_host ? "this host" : host_text(reinterpret_cast<sockaddr&>(from));
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

/// Goes on with the handshake of TLS. False when the node is to be forgotten.
bool acceptor::secure(pending& one) {
  auto& tls = one.who.line.tls;
  if (!tls) {
    auto begin = peek(one.fd());
    auto kind = look_at(std::as_bytes(std::span{begin}));
    if (begin.empty())
      return false;
    // The first byte of TLS alone is left to OpenSSL: it would be there again
    // and again.
    if (kind == first_bytes::other) {
      one.who.refuse(true, not_tls_line);
      note_stranger(one, not_tls_line);
      return one.leave();
    }
    for (const auto& line : terms_.own.identity->refresh())
      if (terms_.say)
        terms_.say("certificate  " + line);
    tls = terms_.own.identity->accept(one.fd());
  }
  auto wait = tls->handshake();
  one.writes = wait == tls_wait::writable;
  if (wait == tls_wait::nothing)
    one.now = pending::step::opening;
  return true;
}

bool acceptor::is_proven(const pending& one) const {
  return terms_.own.proof.empty() || one.who.same_host || one.who.certified() ||
         CRYPTO_memcmp(terms_.own.proof.data(), one.shown.secret,
                       sizeof one.shown.secret) == 0;
}

/// Decides on a node that has opened. False when it is to be forgotten.
bool acceptor::let_in(pending& one) {
  one.who.wants = one.shown.wants;
  one.who.secret.assign(one.shown.secret, sizeof one.shown.secret);
  if (one.who.wants == purpose::tensors) {
    one.now = pending::step::ready;
    return true;
  }
  if (!is_proven(one)) {
    const std::string why = "the token is not that of the run: give the same "
                            "--token-file as the node there";
    one.who.refuse(true, why);
    note_stranger(one, why);
    return one.leave();
  }
  if (!has_room()) {
    one.who.refuse(false, "it may open no more files; it lets nodes in when "
                          "some are closed");
    return one.leave();
  }
  one.who.welcome();
  auto is_here = one.who.line.tls && one.who.line.tls->pending();
  one.now = is_here ? pending::step::ready : pending::step::silent;
  return true;
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

void acceptor::note_stranger(const pending& one, const std::string& why) {
  strangers_.note(one.who.from + ": " + why);
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
bool acceptor::attend(pending& one) try {
  using step = pending::step;
  if (one.now == step::leaving)
    return one.hear_out();
  if (one.now == step::silent) {
    one.now = step::ready;
    return true;
  }
  if (one.now == step::securing && !secure(one))
    return false;
  if (one.now != step::opening)
    return true; // Of TLS more is to come, or it leaves.
  if (!one.read_on())
    return false;
  if (one.is_stranger()) {
    if (look_at(std::as_bytes(std::span{&one.shown, 1})) != first_bytes::tls) {
      note_stranger(one, "it does not begin as a node of this release");
      return false;
    }
    note_stranger(one, unexpected_tls_line);
    send_all(one.who.line, answer_to_tls);
    return one.leave();
  }
  return !one.is_open() || let_in(one);
} catch (const path_error& why) {
  if (one.who.line.tls)
    note_stranger(one, why.what());
  return one.leave();
}

void acceptor::run() {
  while (!closing_) {
    auto now = clock::now();
    auto rests = now < rests_until_;
    std::vector<pollfd> all{{wake_.get(), POLLIN, 0},
                            {rests ? -1 : unix_.get(), POLLIN, 0}};
    for (const auto& stream : streams_)
      all.push_back({rests ? -1 : stream.get(), POLLIN, 0});
    auto fixed = all.size(); // poll skips -1.
    for (const auto& one : pending_) {
      short events = one.writes ? POLLOUT : POLLIN;
      auto waits = one.now != pending::step::ready;
      all.push_back({waits ? one.fd() : -1, events, 0});
    }
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
      auto is_ready = one.now == pending::step::ready;
      if (stays && !(is_ready && pass_on(one)))
        still.push_back(std::move(one));
    }
    pending_ = std::move(still);
    if (!open_)
      has_room();
    if (all[1].revents != 0)
      accept_from(unix_, true);
    for (size_t i = 2; i < fixed; ++i)
      if (all[i].revents != 0)
        accept_from(streams_[i - 2], false);
  }
}

} // namespace troupe::transport
