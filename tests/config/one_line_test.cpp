#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe;

namespace {

std::string line_of(const std::string& text) {
  return one_line(std::runtime_error{text});
}

/// What the interpreter of TorchScript says about an error in a saved program.
std::string script_text(const std::string& cause) {
  return "The following operation failed in the TorchScript interpreter.\n"
         "Traceback of TorchScript, serialized code (most recent call last):\n"
         "  File \"code/__torch__/net.py\", line 29, in forward\n"
         "    ops.prim.RaiseException(torch.format(_4, size))\n"
         "    ~~~~~~~~~~~~~~~~~~~~~~~ <--- HERE\n"
         "  else:\n"
         "    pass\n"
         "\n"
         "Traceback of TorchScript, original code (most recent call last):\n"
         "  File \"net.py\", line 2806, in forward\n"
         "def f(size):\n"
         "        raise ValueError(\n"
         "        ~~~~~~~~~~~~~~~~ <--- HERE\n"
         "        )\n"
         "def g(x):\n" +
         cause + "\n";
}

} // namespace

TEST_CASE("of an error inside a script the cause is told", "[one-line]") {
  CHECK(line_of(script_text("builtins.ValueError: Expected more than 1 value "
                            "per channel when training")) ==
        "ValueError: Expected more than 1 value per channel when training");
  CHECK(line_of(script_text("RuntimeError: AssertionError: need more\nthan "
                            "four")) ==
        "RuntimeError: AssertionError: need more");
  CHECK(line_of(script_text("RuntimeError: " +
                            script_text("mine.Error: deeper: down"))) ==
        "mine.Error: deeper: down");
  CHECK(line_of(script_text("no error's name")) ==
        "The following operation failed in the TorchScript interpreter.");
}

TEST_CASE("of other errors the first line that says something is told",
          "[one-line]") {
  CHECK(line_of("sizes differ\nException raised from f\nframe #0") ==
        "sizes differ");
  CHECK(line_of("\nobject has no attribute foo:\n  File \"x\"\n  ~~ <--- "
                "HERE\n") == "object has no attribute foo:");
  CHECK(line_of("\n \n") == "an error without a text");
  CHECK(one_line(run_error{"ours"}) == "ours");
}
