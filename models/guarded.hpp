#pragma once
// How computations of LibTorch end early: by a cancellation, or by an error
// that becomes one line. Any thread.

#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"

#include <c10/util/Exception.h>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

namespace troupe::models {

/// Ends a computation whose result is no longer needed. Derived from
/// std::exception because autograd's engine passes on nothing else.
struct cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

/// Throws `cancelled` once the flag is set; it may be null.
inline void check(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
    throw cancelled{};
}

/// What LibTorch throws becomes a run_error of one line. Its interpreter of
/// scripts throws standard exceptions.
template <class F>
auto guarded(const char* action, F&& f) {
  auto told = [action](const char* text) {
    return run_error(std::string{action} + " failed: " + cause_in(text));
  };
  try {
    return f();
  } catch (const c10::OutOfMemoryError& error) {
    throw run_error(std::string{action} +
                    " failed: " + cause_in(error.what_without_backtrace()) +
                    "; lower --batch-size, give --micro-batch-size, or use "
                    "--autocast bf16");
  } catch (const c10::AcceleratorError& error) {
    // CUDA repeats such an error until the process ends.
    throw run_error(std::string{action} +
                    " failed: " + cause_in(error.what_without_backtrace()) +
                    "; this process cannot use the GPU any more: see what "
                    "nvidia-smi and dmesg say, and start it again");
  } catch (const c10::Error& error) {
    throw told(error.what_without_backtrace());
  } catch (const std::runtime_error& error) {
    if (!is_of_script(error.what()))
      throw;
    throw told(error.what());
  }
}

} // namespace troupe::models
