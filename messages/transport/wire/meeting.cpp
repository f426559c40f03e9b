#include "messages/transport/wire/meeting.hpp"

#include "config/values/address.hpp"
#include "messages/transport/tls/tls_identity.hpp"
#include "messages/transport/tls/tls_session.hpp"
#include "messages/transport/wire/host_address.hpp"
#include "messages/transport/wire/opening.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::transport {

namespace {

std::string random_bytes(size_t count) {
  std::string out(count, '\0');
  if (getrandom(out.data(), count, 0) != static_cast<ssize_t>(count))
    throw system_error("no random bytes");
  return out;
}

} // namespace

std::string random_token() {
  return random_bytes(sizeof opening::secret);
}

std::string random_name() {
  std::string out = "troupe-";
  for (auto byte : random_bytes(16))
    for (auto digit : {(byte >> 4) & 15, byte & 15})
      out += "0123456789abcdef"[digit];
  return out;
}

// -- who connects -------------------------------------------------------------

namespace {

/// Until the next address of a host is tried beside those that have not
/// answered: time for a round trip to the other side of the world.
constexpr double head_start = 0.25; // s

/// Connections on their way to addresses of one host.
class attempts {
public:
  /// Begins another.
  void add(const addrinfo& to) {
    descriptor fd{
      ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    auto done = fd && connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0;
    if (!done && (!fd || errno != EINPROGRESS))
      error_ = errno;
    else if (done)
      found_ = std::move(fd);
    else
      all_.push_back(std::move(fd));
  }

  bool none() const { return all_.empty(); }

  /// Waits for an end of one of them. False when nothing has happened.
  bool wait(double seconds) {
    std::vector<pollfd> lines;
    for (const auto& one : all_)
      lines.push_back({one.get(), POLLOUT, 0});
    auto ready = poll(lines.data(), lines.size(), milliseconds(seconds));
    if (ready <= 0)
      return ready < 0 && errno == EINTR;
    std::vector<descriptor> still;
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i].revents == 0)
        still.push_back(std::move(all_[i]));
      else if (auto error = error_of(all_[i]); error != 0)
        error_ = error;
      else
        found_ = std::move(all_[i]);
    all_ = std::move(still);
    return true;
  }

  /// The connection, once somebody has answered; until then empty.
  descriptor& found() { return found_; }

  path_error why_none() const {
    return path_error{error_ == ECONNREFUSED || error_ == ETIMEDOUT
                        ? "nobody answers there"
                        : std::strerror(error_)};
  }

private:
  static int error_of(const descriptor& line) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(line.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }

  std::vector<descriptor> all_;
  descriptor found_;
  int error_ = ETIMEDOUT; ///< The last.
};

void require_on_host(const addrinfo* all) {
  for (; all != nullptr; all = all->ai_next)
    if (!is_loopback(*all->ai_addr))
      throw path_error{host_text(*all->ai_addr) + " " + config::open_to_all};
}

} // namespace

descriptor connect_to(const std::string& host, uint16_t port, double patience,
                      bool leaves_host) {
  auto all = look_up(host, port, 0);
  if (!leaves_host)
    require_on_host(all.get());
  attempts under_way;
  for (const auto* next = all.get(); !under_way.found();) {
    if (next != nullptr) {
      under_way.add(*next);
      next = next->ai_next;
    }
    if (under_way.found() || (next != nullptr && under_way.none()))
      continue;
    auto came = !under_way.none() &&
                under_way.wait(next != nullptr ? head_start : patience);
    if (!came && next == nullptr)
      throw under_way.why_none();
  }
  make_blocking(under_way.found().get(), true);
  return std::move(under_way.found());
}

descriptor connect_unix(const std::string& name) {
  unix_address where{name};
  auto fd = open_socket(AF_UNIX, 0);
  if (connect(fd.get(), where.get(), where.size) != 0)
    throw system_error("cannot connect to the Unix socket " + name);
  if (!is_of_same_user(fd.get()))
    throw path_error{"the Unix socket " + name + " is another user's"};
  return fd;
}

namespace {

/// False if the other end closes first.
bool read_all(socket& line, void* bytes, size_t count) {
  iovec in[] = {{bytes, count}};
  return line.receive(in, nullptr);
}

/// Bytes of a refusal that a user is shown.
constexpr size_t most_shown = 1000;

/// What another node says, on one line.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), most_shown));
  std::ranges::replace_if(
    text, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return text;
}

} // namespace

void open_line(socket& line, purpose wants, const std::string& secret,
               double patience) {
  opening shown;
  shown.wants = wants;
  std::memcpy(shown.secret, secret.data(),
              std::min(secret.size(), sizeof shown.secret));
  iovec out[] = {{&shown, sizeof shown}};
  std::span<iovec> rest{out};
  line.patience(patience);
  line.send(rest, true);
  entry_answer answer{};
  if (!read_all(line, &answer, 1))
    throw path_error{"the node there closes the connection"};
  line.patience(0);
  if (answer == entry_answer::accepted)
    return;
  if (answer != entry_answer::never && answer != entry_answer::later)
    throw refused_entry{"what listens there is no node of this release", true};
  uint16_t size = 0;
  line.patience(patience);
  auto whole = read_all(line, &size, sizeof size);
  std::string why(ntohs(size), '\0');
  if (!whole || !read_all(line, why.data(), why.size()))
    throw path_error{"the node there closes the connection"};
  throw refused_entry{printable(why), answer == entry_answer::never};
}

namespace {

/// Until the handshake of TLS is complete; throws `path_error` when the other
/// end lets this one wait for too long.
void complete_handshake(tls_session& tls, int fd, double patience) {
  for (;;) {
    auto wait = tls.handshake();
    if (wait == tls_wait::nothing)
      return;
    short events = wait == tls_wait::readable ? POLLIN : POLLOUT;
    pollfd one{fd, events, 0};
    auto ready = poll(&one, 1, milliseconds(patience));
    if (ready == 0)
      throw path_error{"the node there does not go on with the handshake of "
                       "TLS"};
    if (ready < 0 && errno != EINTR)
      throw system_error("cannot wait for a connection");
  }
}

} // namespace

socket connect_securely(const config::address& to, const credentials& with,
                        double patience, int buffers) {
  auto fd = connect_to(to.host, to.port, patience, with.leaves_host());
  if (!with.identity)
    return socket{{std::move(fd), nullptr}, buffers};
  with.identity->refresh(); // Whoever listens tells of it.
  make_blocking(fd.get(), false);
  std::shared_ptr<tls_session> tls = with.identity->connect(fd.get(), to.host);
  complete_handshake(*tls, fd.get(), patience);
  return socket{{std::move(fd), std::move(tls)}, buffers};
}

} // namespace troupe::transport
