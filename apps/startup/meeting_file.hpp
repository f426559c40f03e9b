#pragma once
// A file through which the lead tells the others where it listens:
// `--rdzv-backend file`, or `--init-method file:///PATH`, as torch spells them.
// All nodes must see the file.

#include "config/sources/rendezvous.hpp"
#include "config/sources/resolve.hpp"
#include "config/values/address.hpp"
#include "messages/ids.hpp"

#include <memory>
#include <optional>
#include <string>

namespace troupe::app {

/// Held by the lead while it lives, which a lock on the file shows: a file that
/// a killed process has left does not count. Called by main's thread.
class meeting_file {
public:
  /// Writes the address. Throws `run_error` when it cannot, or when another
  /// process that lives has the file, and `usage_error`, without a change, when
  /// there is a file of something else.
  meeting_file(config::meeting_place place, const config::address& where);

  /// Removes the file, if it is still there.
  ~meeting_file();

  /// Adds which life of the run the lead is in, and which process it is.
  void note_life(life_number life);

  meeting_file(const meeting_file&) = delete;
  meeting_file& operator=(const meeting_file&) = delete;

private:
  void write(const std::string& text);

  config::meeting_place place_;
  config::address where_;
  int file_ = -1;
};

/// The address in the file; nothing while no process that lives has written it.
/// Throws `usage_error` when it is a file of something else.
std::optional<config::address>
read_meeting_file(const config::meeting_place& place);

/// Fills in where the lead listens, if a file says so: the lead takes a free
/// port, or the one that it is given, and writes the file, which lasts as long
/// as the result; others wait for it as long as for a connection. In a run's
/// next life all know it already.
/// Throws `run_error` when nothing comes, and `usage_error` when that address
/// is not allowed.
std::unique_ptr<meeting_file> meet_by_file(config::resolved& all);

} // namespace troupe::app
