// Begins every test case of a program with the same random numbers. LibTorch's
// own generator starts with another seed in each process, and what a case draws
// would depend on the cases before it.

#include <ATen/Context.h>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

namespace {

class seeding : public Catch::EventListenerBase {
public:
  using EventListenerBase::EventListenerBase;

  void testCasePartialStarting(const Catch::TestCaseInfo&, uint64_t) override {
    at::manual_seed(1);
  }
};

} // namespace

CATCH_REGISTER_LISTENER(seeding)
