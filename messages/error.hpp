#pragma once
// The error codes that cross actor boundaries (the only such enumeration). The
// first element of an error's message is a text: the line to show to the user.
// Plain values.

#include <caf/default_enum_inspect.hpp>
#include <caf/error.hpp>
#include <caf/is_error_code_enum.hpp>
#include <caf/type_id.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// Wire format: append only, never renumber.
enum class errc : uint8_t {
  none = 0,
  protocol_mismatch,  ///< The peer speaks another protocol version.
  settings_conflict,  ///< Explicit settings of two nodes differ.
  unknown_member,     ///< Not, or no longer, in the cluster.
  stale_incarnation,  ///< A message of an earlier life of a worker or server.
  wrong_size,         ///< A gradient that does not fit the model.
  not_finite,         ///< A gradient with infinite or NaN numbers.
  duplicate,          ///< Already applied; nothing was applied again.
  rank_taken,         ///< The requested rank belongs to a live worker.
  cancelled,          ///< The computation was told to stop.
  peer_lost,          ///< The connection to the peer is gone.
  unreachable,        ///< Nobody answers at the address.
  shutting_down,      ///< The run is ending.
  timed_out,          ///< No answer in the time allowed.
  bad_data,           ///< A data set cannot be read or used.
  damaged_checkpoint, ///< A checkpoint does not verify.
  disk,               ///< A file could not be written.
  protocol_violation, ///< A peer sent what the protocol forbids.
  expelled,           ///< Too many refused gradients in a row.
  failed,             ///< Anything else; the text says what.
  outlier,      ///< A gradient whose norm is far beyond those of other workers.
  cluster_full, ///< There are as many workers as the run takes.
  count_        ///< Number of codes; never sent.
};

std::string to_string(errc code);
bool from_string(caf::string_view text, errc& code);
bool from_integer(uint8_t number, errc& code);

template <class Inspector>
bool inspect(Inspector& f, errc& code) {
  return caf::default_enum_inspect(f, code);
}

/// The line for the user that `err` carries, or its rendering when it is an
/// error of CAF's own.
std::string text_of(const caf::error& err);

} // namespace troupe

CAF_ERROR_CODE_ENUM(troupe::errc)
