#pragma once
// NCCL, opened at run time: one program serves machines with and without it. If
// it is missing, a line says so; that is no failure. LibTorch's CUDA part has
// it loaded already, and that copy is taken.
//
// Never unloaded, since NCCL has threads of its own. Immutable; any thread may
// ask it. What it calls must be called by the thread of the device.

#include "models/device/nccl/abi.hpp"

#include <memory>
#include <string>

namespace troupe::models::nccl {

class library;
using library_ptr = std::shared_ptr<const library>;

/// A library, or the line that says why NCCL cannot be used and what to do.
struct loaded {
  library_ptr library;
  std::string why_not;
};

/// The oldest release that we accept, and the first one that is too new.
inline constexpr int least_version = 21800;
inline constexpr int unknown_version = 30000;

/// "2.28.9" for NCCL's number 22809.
std::string version_text(int version);

class library {
public:
  /// Opens this file; empty: the one that TROUPE_NCCL_LIBRARY names, or the
  /// usual ones.
  static loaded load(const std::string& file = {});

  library(const functions& table, int version)
    : table_(table), version_(version) {
    // nop
  }

  const functions& call() const { return table_; }

  int version() const { return version_; }

  /// "remote error: peer closed", and NCCL's last message about it.
  std::string explain(result code, comm about = nullptr) const;

private:
  functions table_;
  int version_;
};

} // namespace troupe::models::nccl
