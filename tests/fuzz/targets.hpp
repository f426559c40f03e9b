#pragma once
// All formats and messages that come from outside, each with the target that
// passes bytes to its reader. A new one is an entry in targets.cpp and a folder
// in corpus/.

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

// Files of data sets.
bool idx(bytes_view);
bool cifar(bytes_view);
bool tar(bytes_view);
bool image(bytes_view);

// Files of runs.
bool safetensors(bytes_view);
bool weights(bytes_view);
bool checkpoint(bytes_view);
bool event_log(bytes_view);
bool metrics(bytes_view);

// Settings.
bool ini(bytes_view);
bool settings(bytes_view);

// Messages of peers.
bool hello(bytes_view);
bool welcome(bytes_view);
bool message(bytes_view);
bool frame(bytes_view);
bool header(bytes_view);
bool chunks(bytes_view);
bool compressed(bytes_view);
bool handshake(bytes_view);     ///< Of TLS.
bool opening_bytes(bytes_view); ///< What an acceptor reads first.
bool answer(bytes_view);        ///< Of an acceptor.
bool basp(bytes_view);          ///< CAF's protocol, before CAF reads it.

// Files of nodes.
bool certificate(bytes_view);
bool key(bytes_view);
bool token(bytes_view);

// Words of users.
bool pin(bytes_view);
bool address(bytes_view);

// Between a launch and its hosts.
bool hosts(bytes_view);
bool launch_frame(bytes_view);

struct target {
  std::string_view name; ///< Also the name of the folder.
  /// Returns whether the reader accepted the bytes. Throws for a finding.
  bool (*run)(bytes_view);
};

std::span<const target> all_targets();

/// Null when there is none.
const target* find_target(std::string_view name);

} // namespace troupe::fuzz
