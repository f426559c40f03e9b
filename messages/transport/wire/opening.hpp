#pragma once
// What a node sends first on a new connection, and the first byte of the
// answer. Both are the same in all releases.

namespace troupe::transport {

/// What a connection is for.
enum class purpose : char {
  control = 'C', ///< Of CAF; the secret proves who may join.
  tensors = 'H'  ///< A path; the secret is its token.
};

/// Zeros are no secret.
struct opening {
  char mark[3] = {'T', 'R', 'P'};
  purpose wants = purpose::control;
  char secret[32] = {};
};

/// The latter two are followed by the length of a line, in two bytes with the
/// higher one first, and the line.
enum class entry_answer : char {
  accepted = 'Y',
  later = 'L', ///< Not now.
  never = 'N'
};

} // namespace troupe::transport
