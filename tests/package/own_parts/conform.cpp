// Holds the policy of this program to what Troupe expects of every policy.

#include <tests/policies/conformance.hpp>

#include <cstdio>
#include <exception>

int main() try {
  for (uint64_t seed = 0; seed < 100; ++seed)
    troupe::test::conform("boosted", seed);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 1;
}
