// Compares the checkpoints of a life of a run with those of its replay, for
// tests in Python: prints how many, and exits with 1 if one differs.
//
// Usage: replayed_checkpoints RUN LIFE REPLAY

#include "tests/support/replayed_checkpoints.hpp"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4)
    return 2;
  auto found =
    troupe::test::compare_checkpoints(argv[1], std::stoull(argv[2]), argv[3]);
  for (const auto& line : found.differences)
    std::fprintf(stderr, "%s\n", line.c_str());
  std::printf("%zu\n", found.compared);
  return found.differences.empty() ? 0 : 1;
}
