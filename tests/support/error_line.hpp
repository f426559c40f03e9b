#pragma once
// The line that a failing call shows to the user, for tests of its wording.

#include <catch2/catch_test_macros.hpp>

#include <string>

namespace troupe::test {

/// Calls `f`, which must throw an `Error`; returns what it says.
template <class Error, class F>
std::string error_line(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("no error was thrown");
  return {};
}

} // namespace troupe::test
