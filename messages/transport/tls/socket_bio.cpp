#include "messages/transport/tls/socket_bio.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace troupe::transport {

namespace {

int socket_of(BIO* bio) {
  return static_cast<int>(BIO_get_fd(bio, nullptr));
}

bool comes_again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int write_socket(BIO* bio, const char* from, int size) {
  // The kernel's TLS tells records apart by a message beside the bytes.
  if (BIO_get_ktls_send(bio))
    return BIO_meth_get_write(BIO_s_socket())(bio, from, size);
  BIO_clear_retry_flags(bio);
  auto sent = ::send(socket_of(bio), from, static_cast<size_t>(size),
                     MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && comes_again(errno))
    BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_socket(BIO* bio, char* to, int size) {
  if (BIO_get_ktls_recv(bio))
    return BIO_meth_get_read(BIO_s_socket())(bio, to, size);
  BIO_clear_retry_flags(bio);
  auto got =
    ::recv(socket_of(bio), to, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got < 0 && comes_again(errno))
    BIO_set_retry_read(bio);
  if (got == 0)
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

/// OpenSSL's own socket, but for the two functions above.
BIO_METHOD* make_method() {
  const auto* like = BIO_s_socket();
  auto* out = BIO_meth_new(BIO_TYPE_SOCKET, "socket without signals");
  if (out == nullptr)
    return nullptr;
  BIO_meth_set_write(out, write_socket);
  BIO_meth_set_read(out, read_socket);
  BIO_meth_set_ctrl(out, BIO_meth_get_ctrl(like));
  BIO_meth_set_create(out, BIO_meth_get_create(like));
  BIO_meth_set_destroy(out, BIO_meth_get_destroy(like));
  return out;
}

} // namespace

bio_ptr make_socket_bio(int fd) {
  static auto* const method = make_method(); // Lives as long as the program.
  bio_ptr out{method == nullptr ? nullptr : BIO_new(method)};
  if (out)
    BIO_set_fd(out.get(), fd, BIO_NOCLOSE);
  return out;
}

} // namespace troupe::transport
