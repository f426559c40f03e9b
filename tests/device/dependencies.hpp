#pragma once
// What programs that run on the fake device tell of it.

#include <dlfcn.h>

#include <cstdio>

namespace troupe::testing {

/// How many times something was made to wait so far.
inline int dependencies() {
  auto* count =
    reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "fake_cuda_dependencies"));
  return count();
}

/// Prints the numbers of the first thing that was made to wait and of the last,
/// and a number that the program has computed.
inline void print_dependencies(int before, double found) {
  std::printf("%d %d %g\n", before + 1, dependencies(), found);
}

} // namespace troupe::testing
