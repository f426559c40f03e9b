#pragma once
// A run of real processes for hostile nodes to try.

#include "messages/interfaces.hpp"
#include "messages/transport/tls/tls_identity.hpp"
#include "tests/process/hostile_node.hpp"
#include "tests/process/process_fixture.hpp"
#include "tests/tls/nodes.hpp"

#include <csignal>
#include <memory>
#include <string>

namespace troupe::testing {

/// Memory of a server that hostile nodes may cost, in kB.
inline constexpr uint64_t most_growth = 64 << 10;

/// A run of one worker, plain or over TLS, that goes on until it is stopped.
class target {
public:
  explicit target(bool encrypted)
    : encrypted_(encrypted),
      server_(on.listening_server(flags{"--workers", "1", "--epochs", "100000",
                                        "--policy", "async", "--threads", "1",
                                        "--transport", "stream"} +
                                  shown(servers_files_))),
      worker_(next_worker()) {
    init_messages();
    on.await(server_, "training", is_kind("update"));
    at.where = {"127.0.0.1", static_cast<uint16_t>(std::stoi(on.port()))};
    identity =
      std::make_shared<transport::tls_identity>(workers_files_.terms());
    if (encrypted)
      at.own.identity = identity;
  }

  child& server() { return server_; }

  child next_worker() {
    return on.worker(flags{"--threads", "1"} + shown(workers_files_));
  }

  /// The run has gone on, and ends as it should.
  void check_end_of_run() {
    on.await(server_, "more training", is_kind("update"), on.metrics().size());
    server_.signal(SIGINT);
    check_end(server_, 75);
    check_end(worker_, 0);
  }

  process_fixture on;
  server_at at;
  std::shared_ptr<transport::tls_identity> identity;

private:
  flags shown(const test::node_folder& files) const {
    return encrypted_
             ? flags{"--tls-dir", files.terms().cert.parent_path().string()}
             : flags{};
  }

  bool encrypted_;
  test::node_folder servers_files_{test::server_draft()};
  test::node_folder workers_files_{test::worker_draft()};
  child server_;
  child worker_;
};

} // namespace troupe::testing
