#include "messages/transport/tls/tls_session.hpp"

#include "messages/path_error.hpp"
#include "messages/transport/tls/alerts.hpp"
#include "messages/transport/tls/socket_bio.hpp"
#include "messages/transport/tls/tls_material.hpp"

#include <openssl/err.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace troupe::transport {

namespace {

/// Records that a thread moves before it lets another one in: the lock goes to
/// whoever comes first, and that is who has just given it back.
constexpr int longest_turn = 16;

/// How often a thread looks whether the other one has come in. It takes the
/// system some 50 us to wake one.
constexpr int looks = 200;

bool is_address(const std::string& host) {
  return host.find(':') != host.npos ||
         host.find_first_not_of("0123456789.") == host.npos;
}

int verify_mode(const tls_material& material, bool dials) {
  if (dials)
    return SSL_VERIFY_PEER;
  if (material.terms.ca.empty())
    return SSL_VERIFY_NONE;
  return SSL_VERIFY_PEER |
         (material.terms.asks_for_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                                              : 0);
}

} // namespace

/// The right of one thread to use the SSL object.
class tls_session::turn {
public:
  explicit turn(tls_session& of) : of_(of) {
    ++of.waiting_;
    lock_ = std::unique_lock{of.mutex_};
    --of.waiting_;
  }

  /// To be called after each record.
  void let_others_in() {
    if (++records_ % longest_turn != 0 || of_.waiting_ == 0)
      return;
    lock_.unlock();
    for (int i = 0; i < looks && of_.waiting_ > 0; ++i)
      std::this_thread::yield();
    ++of_.waiting_;
    lock_.lock();
    --of_.waiting_;
  }

private:
  tls_session& of_;
  int records_ = 0;
  std::unique_lock<std::mutex> lock_;
};

tls_session::tls_session(std::shared_ptr<const tls_material> material, int fd,
                         std::string host)
  : material_(std::move(material)), check_{material_.get(),
                                           std::move(host),
                                           {},
                                           {}},
    ssl_(SSL_new(material_->context.get())) {
  auto bio = make_socket_bio(fd);
  if (!ssl_ || !bio)
    throw path_error{"cannot begin TLS: " + last_complaint()};
  auto dials = !check_.host.empty();
  auto* both_ways = bio.release(); // The SSL object frees it.
  SSL_set_bio(ssl_.get(), both_ways, both_ways);
  SSL_set_app_data(ssl_.get(), &check_);
  SSL_set_verify(ssl_.get(), verify_mode(*material_, dials), nullptr);
  if (dials)
    SSL_set_connect_state(ssl_.get());
  else
    SSL_set_accept_state(ssl_.get());
  // Nothing of ours reads it, but what passes connections on by name does.
  if (dials && !is_address(check_.host))
    SSL_set_tlsext_host_name(ssl_.get(), check_.host.c_str());
}

tls_session::~tls_session() = default;

/// Before each call of OpenSSL, which leaves its complaints with the thread.
void tls_session::begin(turn&) {
  if (!failure_.empty())
    throw path_error{failure_};
  ERR_clear_error();
  errno = 0;
}

/// After a call that could not do all. With bytes that it has moved an error
/// waits for the next call.
tls_wait tls_session::wait_after(int result, size_t moved) {
  auto error = errno;
  switch (auto kind = SSL_get_error(ssl_.get(), result)) {
  case SSL_ERROR_WANT_READ:
    return tls_wait::readable;
  case SSL_ERROR_WANT_WRITE:
    return tls_wait::writable;
  default:
    failure_ = line_of(kind, error);
    ERR_clear_error();
    if (moved > 0)
      return tls_wait::nothing;
    throw path_error{failure_};
  }
}

/// Where a write fails since the other end has closed, its alert is still to be
/// read. Nothing is taken of what it wrote.
bool tls_session::finds_alert() {
  ERR_clear_error();
  char one = 0;
  SSL_peek(ssl_.get(), &one, sizeof one);
  return ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;
}

std::string tls_session::line_of(int kind, int error) {
  if (!check_.refusal.empty())
    return check_.refusal;
  auto broken =
    kind == SSL_ERROR_SYSCALL && (error == EPIPE || error == ECONNRESET);
  if (broken && complete_ && finds_alert())
    kind = SSL_ERROR_SSL;
  auto reason = ERR_GET_REASON(ERR_peek_error());
  if (kind == SSL_ERROR_SSL && reason >= SSL_AD_REASON_OFFSET)
    return line_for_alert(reason - SSL_AD_REASON_OFFSET, *material_,
                          !check_.host.empty());
  if (kind == SSL_ERROR_SSL && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    auto line = line_for_reason(reason);
    return !line.empty() ? line : "TLS failed: " + last_complaint();
  }
  if (kind == SSL_ERROR_SYSCALL && error != 0)
    return std::string{"connection lost: "} + std::strerror(error);
  if (complete_)
    return "connection lost: the other end has ended it without a word";
  return "the other end has closed the connection during the TLS handshake: "
         "its own line says why, if it speaks TLS at all";
}

tls_wait tls_session::handshake() {
  turn own{*this};
  begin(own);
  auto result = SSL_do_handshake(ssl_.get());
  if (result != 1)
    return wait_after(result, 0);
  complete_ = true;
  return tls_wait::nothing;
}

tls_progress tls_session::read(std::span<std::byte> to) {
  tls_progress out;
  turn own{*this};
  while (out.bytes < to.size()) {
    begin(own);
    size_t got = 0;
    auto rest = to.subspan(out.bytes);
    auto result = SSL_read_ex(ssl_.get(), rest.data(), rest.size(), &got);
    out.bytes += got;
    if (result == 1) {
      own.let_others_in();
      continue;
    }
    out.ended = SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN;
    if (!out.ended)
      out.wait = wait_after(result, out.bytes);
    return out;
  }
  return out;
}

tls_progress tls_session::write(std::span<const std::byte> from) {
  tls_progress out;
  turn own{*this};
  while (out.bytes < from.size()) {
    begin(own);
    size_t sent = 0;
    auto rest = from.subspan(out.bytes);
    auto result = SSL_write_ex(ssl_.get(), rest.data(), rest.size(), &sent);
    out.bytes += sent;
    if (result == 1) {
      own.let_others_in();
      continue;
    }
    out.wait = wait_after(result, out.bytes);
    return out;
  }
  return out;
}

bool tls_session::pending() {
  turn own{*this};
  return SSL_has_pending(ssl_.get()) == 1;
}

tls_wait tls_session::shut() {
  turn own{*this};
  if (!complete_ || !failure_.empty())
    return tls_wait::nothing;
  begin(own);
  auto result = SSL_shutdown(ssl_.get());
  return result < 0 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_WRITE
           ? tls_wait::writable
           : tls_wait::nothing;
}

} // namespace troupe::transport
