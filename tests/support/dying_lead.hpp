#pragma once
// A lead that dies in the middle of a conversation, as its peer sees it.

#include "tests/support/loopback.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe::testing {

/// Passes one connection on to a lead that lives, and breaks it off when the
/// node says the last words.
class dying_lead {
public:
  dying_lead(uint16_t to, std::string last_words)
    : door_(listen_on(0)), port_(port_of(door_)),
      last_words_(std::move(last_words)), thread_([this, to] { run(to); }) {
    // nop
  }

  uint16_t port() const { return port_; }

private:
  void run(uint16_t to) {
    auto node = accept(door_, nullptr, nullptr);
    close(door_);
    auto lead = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto at = loopback(to);
    connect(lead, reinterpret_cast<sockaddr*>(&at), sizeof at);
    while (pass_on(node, lead)) {
      // nop
    }
    close(node);
    close(lead);
  }

  /// Passes on the bytes that are there. False at the last words, and at the
  /// end of the connection.
  bool pass_on(int node, int lead) const {
    std::array<pollfd, 2> both{{{node, POLLIN, 0}, {lead, POLLIN, 0}}};
    poll(both.data(), both.size(), -1);
    for (const auto& [from, to] : {std::pair{both[0], lead}, {both[1], node}}) {
      if (!from.revents)
        continue;
      std::array<char, 4096> bytes;
      auto got = read(from.fd, bytes.data(), bytes.size());
      if (got <= 0)
        return false;
      std::string_view said{bytes.data(), static_cast<size_t>(got)};
      auto is_last = from.fd == node && said.find(last_words_) != said.npos;
      if (is_last || write(to, bytes.data(), said.size()) != got)
        return false;
    }
    return true;
  }

  int door_;
  uint16_t port_;
  std::string last_words_;
  std::jthread thread_;
};

} // namespace troupe::testing
